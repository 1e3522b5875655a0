//! Every operation gives the same bits on every instruction set and number of threads.

mod common;

use common::Bench;
use tokenfare_cpu::{Cpu, CpuOptions, Path, PathChoice};

fn cpu(path: Path, threads: usize) -> Bench<Cpu> {
    let path = PathChoice::Only(path);
    let mut bench =
        Bench::new(Cpu::new(CpuOptions { path, threads, max_rows: 16 }).expect("the path is the machine's"));
    bench.run().expect("the operations are right");
    bench
}

#[test]
fn paths_and_threads_do_not_change_bits() {
    let want = cpu(Path::Scalar, 1).results;
    for path in Path::available() {
        for threads in [1, 2, 3, 8] {
            for ((name, got), (_, want)) in cpu(path, threads).results.iter().zip(&want) {
                let differ = got.iter().zip(want).filter(|(g, w)| g.to_bits() != w.to_bits()).count();
                assert_eq!((differ, got.len()), (0, want.len()), "{name} on {path} with {threads} threads");
            }
        }
    }
}
