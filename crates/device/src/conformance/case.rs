//! What a case of the suite is: the inputs of a pool of rows, and an operation on some of them.

use crate::{Device, Result, View};

/// Rows of the pool that launches draw from; one launch of all of them is as large as a prompt piece.
pub(super) const POOL: usize = 96;

/// How an output compares with [`crate::Reference`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Check {
    /// Left to [`Case::verify`].
    Verified,
    /// The same bits.
    Exact,
    /// As f32, within this part of the row's norm.
    Within(f32),
    /// As f32, within this part of the norm of a typical row or of the row itself, where single rows may cancel.
    WithinTypical(f32),
}

/// Whether an operation reads or writes a plane.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    Input,
    Output(Check),
    Updated(Check),
}

impl Role {
    pub(super) fn check(self) -> Option<Check> {
        match self {
            Self::Input => None,
            Self::Output(check) | Self::Updated(check) => Some(check),
        }
    }
}

/// Where a plane lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// f32 behind a [`View`], dense or strided.
    View,
    /// f32, always dense.
    Dense,
    /// u32, always dense.
    Index,
}

/// One argument of an operation: `[POOL, width]` 32-bit words, or none where it is only written.
pub(super) struct Plane {
    pub(super) name: &'static str,
    pub(super) width: usize,
    pub(super) words: Vec<u32>,
    pub(super) memory: Memory,
    pub(super) role: Role,
}

impl Plane {
    fn new(name: &'static str, width: usize, words: Vec<u32>, memory: Memory, role: Role) -> Self {
        if !matches!(role, Role::Output(_)) {
            assert_eq!(words.len(), POOL * width, "words of plane {name}");
        }
        Self { name, width, words, memory, role }
    }

    pub(super) fn view(name: &'static str, width: usize, values: &[f32]) -> Self {
        Self::new(name, width, bits(values), Memory::View, Role::Input)
    }

    pub(super) fn dense(name: &'static str, width: usize, values: &[f32]) -> Self {
        Self::new(name, width, bits(values), Memory::Dense, Role::Input)
    }

    pub(super) fn index(name: &'static str, width: usize, values: &[u32]) -> Self {
        Self::new(name, width, values.to_vec(), Memory::Index, Role::Input)
    }

    pub(super) fn updated(name: &'static str, width: usize, values: &[f32], check: Check) -> Self {
        Self::new(name, width, bits(values), Memory::View, Role::Updated(check))
    }

    pub(super) fn output(name: &'static str, width: usize, memory: Memory, check: Check) -> Self {
        Self::new(name, width, Vec::new(), memory, Role::Output(check))
    }
}

pub(super) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// The planes of a case in a device's memory.
pub(super) struct Io<D: Device> {
    pub(super) planes: Vec<Held<D>>,
}

/// One plane in a device's memory.
pub(super) struct Held<D: Device> {
    pub(super) name: &'static str,
    pub(super) width: usize,
    pub(super) at: usize,
    pub(super) stride: usize,
    pub(super) words: Words<D>,
}

/// The memory of a plane.
pub(super) enum Words<D: Device> {
    Real(D::Buf<f32>),
    Index(D::Buf<u32>),
}

impl<D: Device> Io<D> {
    fn plane(&self, name: &str) -> &Held<D> {
        self.planes.iter().find(|p| p.name == name).expect("every case names its own planes")
    }

    pub(super) fn view(&self, name: &str) -> View<'_, D> {
        let plane = self.plane(name);
        View { buf: self.dense(name), at: plane.at, stride: plane.stride, width: plane.width }
    }

    pub(super) fn dense(&self, name: &str) -> &D::Buf<f32> {
        match &self.plane(name).words {
            Words::Real(buf) => buf,
            Words::Index(_) => panic!("plane {name} holds indices"),
        }
    }

    pub(super) fn index(&self, name: &str) -> &D::Buf<u32> {
        match &self.plane(name).words {
            Words::Index(buf) => buf,
            Words::Real(_) => panic!("plane {name} holds values"),
        }
    }
}

/// An operation with its inputs.
pub(super) trait Case {
    /// Weights and caches on a device.
    type Fixed<D: Device>;

    /// What a failure is reported as.
    fn name(&self) -> String;

    /// The arguments that have one row for each row of a launch.
    fn planes(&self) -> Vec<Plane>;

    /// Makes the arguments that do not.
    fn fix<D: Device>(&self, device: &mut D) -> Result<Self::Fixed<D>>;

    /// Puts fixed memory that the operation writes back to its start.
    fn reset<D: Device>(&self, _device: &mut D, _fixed: &Self::Fixed<D>) -> Result<()> {
        Ok(())
    }

    /// Enqueues the operation on the first `n` rows.
    fn enqueue<D: Device>(&self, device: &mut D, n: usize, io: &Io<D>, fixed: &Self::Fixed<D>) -> Result<()>;

    /// What the operation has left in fixed memory for pool rows `rows`, one word list each, after the planes.
    fn left<D: Device>(
        &self,
        _device: &mut D,
        _fixed: &Self::Fixed<D>,
        _rows: &[usize],
    ) -> Result<Option<Vec<Vec<u32>>>> {
        Ok(None)
    }

    /// How [`Case::left`] compares with [`crate::Reference`].
    fn left_check(&self) -> Check {
        Check::Exact
    }

    /// Checks the output of a pool row by itself: one word list for each output plane.
    fn verify(&self, _row: usize, _outputs: &[Vec<u32>]) {}
}
