//! Checks on the CPU device, by every path of this machine.

use tokenfare_cpu::{Cpu, CpuOptions, Path, PathChoice};

use crate::{bits, mini};

fn cpu(path: Path) -> impl Fn(usize) -> Cpu {
    move |max_rows| Cpu::new(CpuOptions { path: PathChoice::Only(path), threads: 1, max_rows }).unwrap()
}

/// The widest path that keeps inputs in f32: the narrower ones have its bits.
fn widest_f32() -> Path {
    Path::available().into_iter().find(|path| *path != Path::Amx).unwrap_or(Path::Scalar)
}

/// The paths whose bits differ: AMX where it is there, and the widest in f32.
fn distinct() -> Vec<Path> {
    let amx = Path::available().into_iter().filter(|path| *path == Path::Amx);
    amx.chain([widest_f32()]).collect()
}

macro_rules! exact {
    ($($check:ident;)*) => {
        $(#[test]
        fn $check() {
            bits::$check(cpu(widest_f32()));
        })*
    };
}

exact! {
    exact_chunked_is_whole;
    exact_observed_is_unobserved;
    exact_rejected_drafts_leave_nothing;
    exact_release_leaves_nothing;
    exact_restored_elsewhere;
    exact_restored_is_saved;
    exact_shared_is_alone;
    exact_windows_are_prompt_rows;
}

#[test]
fn completions_on_the_cpu() {
    for path in distinct() {
        println!("{}", path.name());
        mini::completions(cpu(path));
    }
}

/// By the paths whose bits differ; by every path with `TOKENFARE_EXACT=full`.
#[test]
fn draft_acceptance_on_the_cpu() {
    let full = std::env::var("TOKENFARE_EXACT").is_ok_and(|v| v == "full");
    for path in if full { Path::available() } else { distinct() } {
        println!("{}", path.name());
        mini::acceptance(cpu(path));
    }
}
