//! Memory of the reference device: shared vectors, rows of them, and recorded operations.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Reference;
use crate::{Buffer, DeviceError, Element, Result, View, refusable};

/// Host memory with reference-counted handles.
#[derive(Debug, Clone)]
pub struct HostBuffer<T> {
    values: Arc<RwLock<Vec<T>>>,
    len: usize,
}

impl<T: Element> Buffer for HostBuffer<T> {
    fn len(&self) -> usize {
        self.len
    }
}

impl<T: Element> HostBuffer<T> {
    pub(super) fn zeroed(len: usize) -> Result<Self> {
        let mut values = Vec::new();
        refusable(|| values.try_reserve_exact(len)).map_err(|_| DeviceError::OutOfMemory {
            device: super::NAME.into(),
            bytes: (len as u64).saturating_mul(size_of::<T>() as u64),
            what: "a buffer",
        })?;
        values.resize(len, T::default());
        Ok(Self { values: Arc::new(RwLock::new(values)), len })
    }

    /// The contents, for reading. Two readers of one buffer may coexist.
    pub(super) fn get(&self) -> RwLockReadGuard<'_, Vec<T>> {
        self.values.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The contents, for writing. No reader may be alive.
    pub(super) fn get_mut(&self) -> RwLockWriteGuard<'_, Vec<T>> {
        self.values.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A [`View`] that owns its handle, so that a recorded operation can keep it.
#[derive(Debug)]
pub(super) struct Rows {
    buf: HostBuffer<f32>,
    at: usize,
    stride: usize,
    pub(super) width: usize,
}

impl Rows {
    pub(super) fn new(view: View<'_, Reference>) -> Self {
        Self { buf: view.buf.clone(), at: view.at, stride: view.stride, width: view.width }
    }

    /// The first `n` rows as a dense copy, so that inputs and outputs may share memory.
    pub(super) fn load(&self, n: usize) -> Vec<f32> {
        let values = self.buf.get();
        let mut dense = Vec::with_capacity(n * self.width);
        for r in 0..n {
            dense.extend_from_slice(&values[self.at + r * self.stride..][..self.width]);
        }
        dense
    }

    /// Row `r` as a copy, if the buffer holds it.
    pub(super) fn load_row(&self, r: usize) -> Option<Vec<f32>> {
        let start = r.checked_mul(self.stride)?.checked_add(self.at)?;
        self.buf.get().get(start..start.checked_add(self.width)?).map(<[f32]>::to_vec)
    }

    /// Overwrites the first rows with dense values.
    pub(super) fn store(&self, dense: &[f32]) {
        let mut values = self.buf.get_mut();
        for (r, row) in dense.chunks_exact(self.width).enumerate() {
            values[self.at + r * self.stride..][..self.width].copy_from_slice(row);
        }
    }
}

/// An enqueued operation, which reads its buffers each time it runs.
pub(super) type Operation = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// A recorded sequence of operations.
pub struct Program(pub(super) Vec<Operation>);

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program of {} operations", self.0.len())
    }
}
