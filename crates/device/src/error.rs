//! What can go wrong on a device.

/// An error of a device operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// A buffer, view or weight does not have the size that the operation needs.
    #[error("{op}: {what} is {found}, expected {expected}")]
    Shape {
        /// The operation, by its name in the trait.
        op: &'static str,
        /// Which argument.
        what: &'static str,
        /// What the operation needs.
        expected: String,
        /// What it was given.
        found: String,
    },
    /// The device has no room left.
    #[error("out of memory on {device}: {bytes} bytes for {what}")]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// Bytes asked for.
        bytes: u64,
        /// What they were for.
        what: &'static str,
    },
    /// A weight holds a value that the device cannot represent, such as an E8M0 scale byte of 255 (NaN).
    #[error("weight value not accepted: {0}")]
    Weight(String),
    /// The device itself failed (driver, lost device, worker thread).
    #[error("{device}: {cause}")]
    Failed {
        /// The device's name.
        device: String,
        /// The device's own words.
        cause: String,
    },
}

/// Result of a device operation.
pub type Result<T, E = DeviceError> = std::result::Result<T, E>;
