//! Kinds of devices, as far as settings differ between them.

use std::fmt;

/// The kind of the device that is served from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Platform {
    /// The CPU's kernels.
    Cpu,
    /// The plain f32 reference.
    Reference,
    /// Apple GPUs.
    Metal,
    /// NVIDIA GPUs.
    Cuda,
    /// GPUs over Vulkan.
    Vulkan,
}

impl Platform {
    /// Every platform.
    pub const ALL: [Self; 5] = [Self::Cpu, Self::Reference, Self::Metal, Self::Cuda, Self::Vulkan];
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::Reference => "reference",
            Self::Metal => "Metal",
            Self::Cuda => "CUDA",
            Self::Vulkan => "Vulkan",
        })
    }
}

/// Where a setting has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// On every platform.
    All,
    /// On these alone; elsewhere the value is checked and unused.
    Only(&'static [Platform]),
}

impl Scope {
    /// Whether the setting has an effect on `platform`.
    pub fn contains(self, platform: Platform) -> bool {
        match self {
            Self::All => true,
            Self::Only(platforms) => platforms.contains(&platform),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Only(platforms) => {
                let names: Vec<String> = platforms.iter().map(Platform::to_string).collect();
                f.write_str(&names.join(", "))
            }
        }
    }
}
