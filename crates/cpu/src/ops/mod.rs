//! The operations, each a [`crate::step::Kernel`] with its checked arguments.

pub(crate) mod attention;
pub(crate) mod cache;
pub(crate) mod copy;
pub(crate) mod decode;
pub(crate) mod dots;
pub(crate) mod engram;
pub(crate) mod experts;
pub(crate) mod hyper;
pub(crate) mod index;
pub(crate) mod linear;
pub(crate) mod norm;
pub(crate) mod pace;
pub(crate) mod pair;
pub(crate) mod rope;
pub(crate) mod route;
pub(crate) mod rows;
pub(crate) mod stream;
pub(crate) mod top;
