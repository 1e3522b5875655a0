//! The list, recorded programs, and the errors of the device.

use tokenfare_cpu::{Cpu, CpuError, CpuOptions, Path, PathChoice, PathError};
use tokenfare_device::{
    Attention, Cache, CacheFormat, CacheStore, Device, DeviceError, NONE, Selected, View,
};

fn cpu(threads: usize) -> Cpu {
    Cpu::new(CpuOptions { path: PathChoice::Auto, threads, max_rows: 8 }).expect("the machine has a path")
}

fn read(device: &mut Cpu, buffer: &<Cpu as Device>::Buf<f32>) -> Vec<f32> {
    let mut out = vec![0.0; tokenfare_device::Buffer::len(buffer)];
    device.read(buffer, 0, &mut out).expect("the operations are right");
    out
}

#[test]
fn operations_and_writes_keep_their_order() {
    for threads in 1..=3 {
        let mut device = cpu(threads);
        let (x, y) = (device.alloc(4).unwrap(), device.alloc(4).unwrap());
        let (from, to) = (View::dense(&x, 4), View::dense(&y, 4));
        device.write(&x, 0, &[1.0, 2.0, 3.0, 4.0]).unwrap();
        device.add(1, from, to).unwrap();
        device.write(&x, 1, &[10.0, 20.0]).unwrap();
        device.add(1, from, to).unwrap();
        device.write(&y, 3, &[0.5]).unwrap();
        assert_eq!(read(&mut device, &y), [2.0, 12.0, 23.0, 0.5]);
    }
}

#[test]
fn a_program_runs_when_replayed_with_what_its_buffers_hold_by_then() {
    let mut device = cpu(2);
    let (x, y) = (device.alloc(2).unwrap(), device.alloc(2).unwrap());
    let program = device.record(|d| d.add(2, View::dense(&x, 1), View::dense(&y, 1))).unwrap();
    assert_eq!(read(&mut device, &y), [0.0, 0.0]);
    for (value, want) in [(1.0, [2.0, 2.0]), (3.0, [8.0, 8.0])] {
        device.write(&x, 0, &[value; 2]).unwrap();
        device.replay(&program).unwrap();
        device.replay(&program).unwrap();
        assert_eq!(read(&mut device, &y), want);
    }
    drop((x, program));
    assert_eq!(read(&mut device, &y), [8.0, 8.0]);
}

#[test]
fn reads_writes_and_replays_are_refused_while_recording() {
    let mut device = cpu(1);
    let x = device.alloc::<f32>(1).unwrap();
    let program = device.record(|_| Ok(())).unwrap();
    let refused =
        |call: &str| DeviceError::Failed { device: "cpu".into(), cause: format!("{call} while recording") };
    let cause = |error: DeviceError| match error {
        DeviceError::Failed { cause, .. } => DeviceError::Failed { device: "cpu".into(), cause },
        other => other,
    };
    let error = device.record(|d| d.read(&x, 0, &mut [0.0])).err().unwrap();
    assert_eq!(cause(error), refused("read"));
    let error = device.record(|d| d.write(&x, 0, &[0.0])).err().unwrap();
    assert_eq!(cause(error), refused("write"));
    let error = device.record(|d| d.replay(&program)).err().unwrap();
    assert_eq!(cause(error), refused("replay"));
    assert_eq!(device.read(&x, 0, &mut [0.0]), Ok(()));
}

#[test]
fn indices_outside_their_buffers_are_errors_of_the_next_read() {
    for threads in 1..=3 {
        let mut device = cpu(threads);
        let table = device.table(3, 32, &[0; 192]).unwrap();
        let x = device.alloc(64).unwrap();
        let index = device.alloc(2).unwrap();
        device.write(&index, 0, &[2, 3]).unwrap();
        device.gather(2, &table, &index, 1, View::dense(&x, 32)).unwrap();
        let shape = |op, what, expected: &str, found: &str| {
            Err(DeviceError::Shape { op, what, expected: expected.into(), found: found.into() })
        };
        assert_eq!(device.read(&x, 0, &mut [0.0]), shape("gather", "ids", "below 3", "3"));
        assert_eq!(device.read(&x, 0, &mut [0.0]), Ok(()));

        let cache = Cache::new(&device, CacheFormat::Fp8, 32, 3).unwrap();
        let (x, angles) = (View::dense(&x, 32), device.alloc(0).unwrap());
        let args = CacheStore { x, norm: None, angles: &angles, rope_dims: 0, cache: &cache, index: &index };
        device.cache_store(2, args).unwrap();
        assert_eq!(device.read(&cache.bytes, 0, &mut [0]), shape("cache_store", "index", "below 3", "3"));
        device.write(&index, 0, &[NONE, 2]).unwrap();
        device.select_rows(2, x, &index, x).unwrap();
        assert_eq!(device.read(&cache.bytes, 0, &mut [0]), shape("select_rows", "index", "below 2", "2"));
    }
}

#[test]
fn shapes_are_checked_when_an_operation_is_enqueued() {
    let mut device = cpu(1);
    let x = device.alloc(64).unwrap();
    let view = View::dense(&x, 8);
    assert_eq!(device.add(8, view, view), Ok(()));
    for (n, x, y, what) in [
        (9, view, view, "n"),
        (8, view, view.cols(0, 7), "x"),
        (2, view, View { at: 50, ..view }, "y"),
        (2, view, View { stride: 4, ..view }, "y"),
        (2, view, View { stride: usize::MAX, ..view }, "y"),
        (1, View { width: 0, ..view }, View { width: 0, ..view }, "x"),
    ] {
        match device.add(n, x, y) {
            Err(DeviceError::Shape { op: "add", what: found, .. }) => assert_eq!(found, what),
            other => panic!("{other:?} for {what}"),
        }
    }
    let range = DeviceError::Shape {
        op: "read",
        what: "range",
        expected: "a range inside 64 elements".into(),
        found: "2 from 63".into(),
    };
    assert_eq!(device.read(&x, 63, &mut [0.0; 2]), Err(range));
}

#[test]
fn attention_makes_no_room_that_its_caches_do_not_bound() {
    for threads in 1..=3 {
        let mut device = cpu(threads);
        let window = Cache::new(&device, CacheFormat::Fp8, 32, 3).unwrap();
        let (q, out) = (device.alloc(64).unwrap(), device.alloc(64).unwrap());
        let (sink, index) = (device.alloc(1).unwrap(), device.alloc(2).unwrap());
        let mut attend = |n, ring, top_k| {
            let selected = Some(Selected { cache: &window, base: &index, list: &index, top_k });
            let args = Attention {
                q: View::dense(&q, 32),
                heads: 1,
                scale: 1.0,
                sink: &sink,
                window: &window,
                base: &index,
                ring,
                lo: &index,
                hi: &index,
                selected,
                out: View::dense(&out, 32),
            };
            device.attention(n, args)?;
            device.read(&out, 0, &mut [0.0])
        };
        assert_eq!((attend(2, 3, 1), attend(0, 3, 1 << 58)), (Ok(()), Ok(())));
        for ring in [4, 1 << 58, usize::MAX] {
            for n in [0, 1, 2] {
                let error = DeviceError::Shape {
                    op: "attention",
                    what: "ring",
                    expected: "at most 3 rows".into(),
                    found: ring.to_string(),
                };
                assert_eq!(attend(n, ring, 0), Err(error));
            }
        }
    }
}

#[test]
fn memory_that_the_system_refuses_is_an_error() {
    let device = cpu(1);
    for len in [usize::MAX, isize::MAX as usize / 4, 1 << 58] {
        assert!(matches!(device.alloc::<f32>(len), Err(DeviceError::OutOfMemory { .. })));
    }
    assert!(device.alloc::<f32>(1 << 20).is_ok());
}

#[test]
fn a_path_of_another_machine_is_refused() {
    let foreign = if cfg!(target_arch = "aarch64") { Path::Avx2 } else { Path::Neon };
    let error =
        Cpu::new(CpuOptions { path: PathChoice::Only(foreign), threads: 1, max_rows: 1 }).err().unwrap();
    match error {
        CpuError::Path(PathError { path, missing }) => assert_eq!((path, missing.len()), (foreign, 1)),
        other => panic!("{other}"),
    }
}

#[test]
fn names_say_path_and_threads() {
    for (threads, text) in [(1, "cpu (scalar, 1 thread)"), (3, "cpu (scalar, 3 threads)")] {
        let path = PathChoice::Only(Path::Scalar);
        let device = Cpu::new(CpuOptions { path, threads, max_rows: 1 }).unwrap();
        assert_eq!((device.name(), device.threads(), device.path()), (text.into(), threads, Path::Scalar));
    }
}
