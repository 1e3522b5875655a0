//! Checks on the CPU device, by every path of this machine.

use tokenfare_cpu::{Cpu, CpuOptions, Path, PathChoice};

use crate::mini;

fn cpu(path: Path) -> impl Fn(usize) -> Cpu {
    move |max_rows| Cpu::new(CpuOptions { path: PathChoice::Only(path), threads: 1, max_rows }).unwrap()
}

/// The widest path that rounds like plain Rust, and AMX where it is there: the others have the bits of the first.
fn distinct() -> Vec<Path> {
    let mut paths = Path::available();
    paths.retain(|path| *path != Path::Scalar);
    let exact = paths.iter().copied().find(|path| *path != Path::Amx).unwrap_or(Path::Scalar);
    paths.retain(|path| *path == Path::Amx);
    paths.push(exact);
    paths
}

#[test]
fn completions_on_the_cpu() {
    for path in distinct() {
        println!("{}", path.name());
        mini::completions(cpu(path));
    }
}

#[test]
fn draft_acceptance_on_the_cpu() {
    for path in distinct() {
        println!("{}", path.name());
        mini::acceptance(cpu(path));
    }
}
