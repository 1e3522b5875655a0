//! The conformance suite of the device border, on every path of this machine and several numbers of threads.

use tokenfare_cpu::{Cpu, CpuOptions, Path, PathChoice};
use tokenfare_device::conformance::Tolerance;

/// A device on `path`. Where the machine lacks it, plain Rust stands in, so that every machine runs every test.
fn cpu(path: Path, threads: usize, max_rows: usize) -> Cpu {
    let path = PathChoice::Only(path).resolve().unwrap_or_else(|missing| {
        println!("skipped, plain Rust instead: {missing}");
        Path::Scalar
    });
    Cpu::new(CpuOptions { path: PathChoice::Only(path), threads, max_rows })
        .expect("the path is the machine's")
}

/// AMX rounds the inputs of linear layers to bf16.
fn tolerance(path: Path) -> Tolerance {
    if path == Path::Amx { Tolerance::BF16 } else { Tolerance::F32 }
}

macro_rules! suites {
    ($($name:ident: $path:ident, $threads:literal;)*) => {
        $(
            mod $name {
                use super::*;
                tokenfare_device::conformance_suite!(
                    |rows| cpu(Path::$path, $threads, rows),
                    tolerance(Path::$path)
                );
            }
        )*
    };
}

suites! {
    scalar_1: Scalar, 1;
    scalar_2: Scalar, 2;
    scalar_3: Scalar, 3;
}

#[cfg(target_arch = "x86_64")]
suites! {
    avx2_1: Avx2, 1;
    avx2_2: Avx2, 2;
    avx2_3: Avx2, 3;
    avx512_1: Avx512, 1;
    avx512_2: Avx512, 2;
    avx512_3: Avx512, 3;
    amx_1: Amx, 1;
    amx_2: Amx, 2;
    amx_3: Amx, 3;
}

#[cfg(target_arch = "aarch64")]
suites! {
    neon_1: Neon, 1;
    neon_2: Neon, 2;
    neon_3: Neon, 3;
}
