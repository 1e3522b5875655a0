//! Grammars that bound a reply, token by token.
//!
//! A [`Source`] says what a reply must be, a [`Compiler`] turns it into a [`tokenfare_lanes::Grammar`] over the
//! tokens of a [`Vocabulary`]. The parsing itself is the `llguidance` library's.
//!
//! ```
//! use tokenfare_grammar::{Compiler, Source, Vocabulary};
//! use tokenfare_lanes::Grammar;
//!
//! // One token a byte, and an end token.
//! let mut vocabulary = Vocabulary::new(256);
//! (0..=255u8).for_each(|byte| vocabulary.push(&[byte]));
//! vocabulary.push_control("<end>");
//!
//! let compiler = Compiler::new(&vocabulary);
//! let mut grammar = compiler.compile(&Source::Choice(vec!["yes".into(), "no".into()]))?;
//! let mut allowed = [u32::MAX; 9];
//! grammar.mask(&mut allowed)?;
//! let allows = |token: u8| allowed[usize::from(token / 32)] >> (token % 32) & 1 == 1;
//! assert!(allows(b'y') && allows(b'n') && !allows(b'e'));
//! assert_eq!(grammar.admits(b"yes!".map(u32::from).as_slice()), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compiler;
mod ebnf;
mod lark;
mod source;
mod state;
mod vocabulary;

pub use compiler::{CompileError, Compiler};
pub use lark::quote;
pub use source::{Source, json_options};
pub use vocabulary::Vocabulary;
