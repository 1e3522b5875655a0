//! Which instruction set a run uses: one for the whole run, never chosen by the number of rows.

use std::fmt;
use std::str::FromStr;

use crate::trial::fastest;

/// A CPU path. All but [`Path::Amx`] give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Path {
    /// Plain Rust.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// [`Path::Avx2`] with AVX-512 F, BW, DQ and VL.
    Avx512,
    /// [`Path::Avx512`] with AVX-512 BF16 and AMX: linear layers round their inputs to bf16 and run on tiles.
    Amx,
    /// aarch64 NEON.
    Neon,
}

/// The path a user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathChoice {
    /// AMX where present, else the widest vectors, unless a trial of a few milliseconds shows another path of the machine
    /// to be clearly faster. One choice a process.
    #[default]
    Auto,
    /// This path or an error.
    Only(Path),
}

/// The machine lacks what a path needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cpu path {path} needs {}, which this machine lacks", missing.join(", "))]
pub struct PathError {
    /// The path asked for.
    pub path: Path,
    /// What is missing, by the names of /proc/cpuinfo where it has one.
    pub missing: Vec<&'static str>,
}

/// A text that names no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cpu path {0:?} is not one of auto, scalar, avx2, avx512, amx, neon")]
pub struct PathNameError(String);

impl Path {
    /// Every path, the best first.
    const ALL: [Self; 5] = [Self::Amx, Self::Avx512, Self::Avx2, Self::Neon, Self::Scalar];

    /// The name users write in `TF_CPU_PATH`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Amx => "amx",
            Self::Neon => "neon",
        }
    }

    /// The paths of this machine, the best first; [`Path::Scalar`] is always among them.
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|path| path.missing().is_empty()).collect()
    }

    /// What this machine lacks for the path.
    fn missing(self) -> Vec<&'static str> {
        let needs: &[&[Feature]] = match self {
            Self::Scalar => &[],
            Self::Avx2 => &[features::AVX2],
            Self::Avx512 => &[features::AVX2, features::AVX512],
            Self::Amx => &[features::AVX2, features::AVX512, features::AMX],
            Self::Neon => &[features::NEON],
        };
        needs.iter().copied().flatten().filter(|(_, present)| !present()).map(|(name, _)| *name).collect()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PathChoice {
    /// The path to run on this machine.
    ///
    /// # Errors
    /// [`PathError`] when the machine lacks what the chosen path needs.
    pub fn resolve(self) -> Result<Path, PathError> {
        let Self::Only(path) = self else {
            return Ok(fastest(&Path::available()));
        };
        let missing = path.missing();
        if missing.is_empty() { Ok(path) } else { Err(PathError { path, missing }) }
    }
}

impl FromStr for PathChoice {
    type Err = PathNameError;

    fn from_str(text: &str) -> Result<Self, PathNameError> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let path = Path::ALL.into_iter().find(|path| path.name() == text);
        path.map(Self::Only).ok_or_else(|| PathNameError(text.to_owned()))
    }
}

type Feature = (&'static str, fn() -> bool);

#[cfg(target_arch = "x86_64")]
mod features {
    use super::Feature;

    pub const AVX2: &[Feature] = &[
        ("avx2", || is_x86_feature_detected!("avx2")),
        ("fma", || is_x86_feature_detected!("fma")),
        ("f16c", || is_x86_feature_detected!("f16c")),
    ];
    pub const AVX512: &[Feature] = &[
        ("avx512f", || is_x86_feature_detected!("avx512f")),
        ("avx512bw", || is_x86_feature_detected!("avx512bw")),
        ("avx512dq", || is_x86_feature_detected!("avx512dq")),
        ("avx512vl", || is_x86_feature_detected!("avx512vl")),
    ];
    pub const AMX: &[Feature] = &[
        ("avx512_bf16", || is_x86_feature_detected!("avx512bf16")),
        ("avx512_vbmi", || is_x86_feature_detected!("avx512vbmi")),
        ("amx_bf16", || leaf7_edx(22)),
        ("amx_tile", || leaf7_edx(24)),
        ("permission of the system to use AMX tiles", || leaf7_edx(24) && tile_permission()),
    ];
    pub const NEON: &[Feature] = &[("an aarch64 processor", || false)];

    fn leaf7_edx(bit: u32) -> bool {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx >> bit & 1 == 1
    }

    /// Linux gives a process the tile registers on request only.
    #[cfg(target_os = "linux")]
    fn tile_permission() -> bool {
        const ARCH_REQ_XCOMP_PERM: libc::c_int = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_ulong = 18;
        // SAFETY: the call changes nothing but which registers the process may use.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
    }

    #[cfg(not(target_os = "linux"))]
    fn tile_permission() -> bool {
        false
    }
}

#[cfg(target_arch = "aarch64")]
mod features {
    use super::Feature;

    pub const AVX2: &[Feature] = &[("an x86-64 processor", || false)];
    pub const AVX512: &[Feature] = &[];
    pub const AMX: &[Feature] = &[];
    pub const NEON: &[Feature] = &[("neon", || std::arch::is_aarch64_feature_detected!("neon"))];
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod features {
    use super::Feature;

    pub const AVX2: &[Feature] = &[("an x86-64 processor", || false)];
    pub const AVX512: &[Feature] = &[];
    pub const AMX: &[Feature] = &[];
    pub const NEON: &[Feature] = &[("an aarch64 processor", || false)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_to_the_paths_they_print() {
        for path in Path::ALL {
            assert_eq!(path.name().parse(), Ok(PathChoice::Only(path)));
        }
        assert_eq!("auto".parse(), Ok(PathChoice::Auto));
        let error = "sse".parse::<PathChoice>().unwrap_err();
        assert_eq!(error.to_string(), "cpu path \"sse\" is not one of auto, scalar, avx2, avx512, amx, neon");
    }

    #[test]
    fn auto_is_a_path_of_the_machine_and_a_missing_path_is_refused() {
        let available = Path::available();
        let auto = PathChoice::Auto.resolve().unwrap();
        assert!(available.contains(&auto));
        assert_eq!(PathChoice::Auto.resolve(), Ok(auto));
        assert_eq!(available.last(), Some(&Path::Scalar));
        for path in Path::ALL {
            match PathChoice::Only(path).resolve() {
                Ok(found) => assert!(found == path && available.contains(&path)),
                Err(error) => {
                    assert!(error.path == path && !available.contains(&path) && !error.missing.is_empty())
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn neon_is_refused_by_name() {
        let error = PathChoice::Only(Path::Neon).resolve().unwrap_err();
        assert_eq!(error.to_string(), "cpu path neon needs an aarch64 processor, which this machine lacks");
    }
}
