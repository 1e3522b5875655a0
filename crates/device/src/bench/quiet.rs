//! Moments in which nothing else slows the machine.

/// Tells quiet moments from others by the time of a step that needs no memory: one whose core is shared with other
/// work, or whose clock is slowed, takes longer than the fastest seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quiet {
    /// Seconds of the fastest step seen.
    fastest: f64,
}

impl Default for Quiet {
    /// Nothing seen yet.
    fn default() -> Self {
        Self { fastest: f64::INFINITY }
    }
}

impl Quiet {
    /// Time of the slowest step of a quiet moment over that of the fastest seen.
    pub const NEAR: f64 = 1.1;

    /// Takes note of a step's seconds.
    pub fn note(&mut self, pace: f64) {
        self.fastest = self.fastest.min(pace);
    }

    /// Whether a step's seconds are near the fastest.
    pub fn is(&self, pace: f64) -> bool {
        pace <= Self::NEAR * self.fastest
    }

    /// Seconds of the fastest step; infinite while none was seen.
    pub fn fastest(&self) -> f64 {
        self.fastest
    }
}
