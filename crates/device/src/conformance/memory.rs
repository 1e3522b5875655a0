//! Memory, recorded sequences and refused arguments.

use super::Tolerance;
use super::case::{POOL, bits};
use super::norms::upload;
use super::random::{Kind, Random, Stored};
use crate::{Buffer, Device, DeviceError, Element, LinearData, Matrix, Result, View};

fn read<D: Device, T: Element>(device: &mut D, buf: &D::Buf<T>) -> Result<Vec<T>> {
    let mut values = vec![T::default(); buf.len()];
    device.read(buf, 0, &mut values)?;
    Ok(values)
}

/// [`Device::alloc`], [`Device::write`] and [`Device::read`] of every element type.
pub fn memory<D: Device>(make: &impl Fn(usize) -> D, _tolerance: Tolerance) {
    let mut device = make(4);
    assert!(device.launch_bound() >= 1 && !device.name().is_empty());
    let check = |device: &mut D| -> Result<()> {
        elements(device, [1.5f32, f32::MIN_POSITIVE, -0.0, 7.0])?;
        elements(device, [1u32, u32::MAX, 0, 9])?;
        elements(device, [1u8, 255, 0, 9])
    };
    check(&mut device).unwrap_or_else(|e| panic!("memory: {e}"));
}

fn elements<D: Device, T: Element>(device: &mut D, values: [T; 4]) -> Result<()> {
    let buf = device.alloc::<T>(9)?;
    assert_eq!(buf.len(), 9);
    assert_eq!(read(device, &buf)?, [T::default(); 9], "memory starts as zeros");
    let mut source = values.to_vec();
    device.write(&buf, 3, &source)?;
    source.fill(T::default());
    let same = buf.clone();
    drop(buf);
    let mut middle = [T::default(); 5];
    device.read(&same, 2, &mut middle)?;
    assert_eq!(middle[1..], values, "a write takes its source over, and a clone names the same memory");
    assert_eq!(middle[0], T::default());
    device.write(&same, 0, &values[..2])?;
    let [a, b, c, d] = values;
    let zero = T::default();
    assert_eq!(read(device, &same)?, [a, b, zero, a, b, c, d, zero, zero]);
    assert!(device.alloc::<T>(0)?.is_empty());
    Ok(())
}

/// Operations that feed each other: recorded and replayed as direct, with other contents each time.
pub fn recorded_chain<D: Device>(make: &impl Fn(usize) -> D, _tolerance: Tolerance) {
    let mut random = Random::new(22);
    let (rows, width, n) = (30, 64, 5);
    let table: Vec<u8> =
        random.reals(rows * width).iter().flat_map(|&v| half::bf16::from_f32(v).to_le_bytes()).collect();
    let (up, down) = (
        Stored::new(&mut random, Kind::Fp8, 96, width, 1),
        Stored::new(&mut random, Kind::Bf16, width, 96, 1),
    );
    let norm = random.reals(96);
    let mut device = make(n);
    let mut run = || -> Result<()> {
        let table = device.table(rows, width, &table)?;
        let (up, down) = (device.linear_weight(up.data())?, device.linear_weight(down.data())?);
        let norm = upload(&mut device, &norm)?;
        let ids = device.alloc(n)?;
        let (x, y) = (device.alloc(n * width)?, device.alloc(n * 96)?);
        let body = |device: &mut D| {
            device.gather(n, &table, &ids, 1, View::dense(&x, width))?;
            device.linear(n, View::dense(&x, width), &up, View::dense(&y, 96))?;
            device.rms_norm(n, View::dense(&y, 96), &norm, 1e-6, View::dense(&y, 96))?;
            device.linear(n, View::dense(&y, 96), &down, View::dense(&x, width))?;
            device.add(n, View::dense(&x, width), View::dense(&x, width))
        };
        let lists: Vec<Vec<u32>> = (0..3).map(|_| random.subset(rows, n)).collect();
        let mut direct = Vec::new();
        for list in &lists {
            device.write(&ids, 0, list)?;
            body(&mut device)?;
            direct.push(bits(&read(&mut device, &x)?));
        }
        device.write(&x, 0, &vec![3.0; n * width])?;
        let program = device.record(body)?;
        assert_eq!(read(&mut device, &x)?, vec![3.0; n * width], "recording runs nothing");
        for (list, direct) in lists.iter().zip(&direct).chain(lists.iter().zip(&direct)) {
            device.write(&ids, 0, list)?;
            device.replay(&program)?;
            assert_eq!(&bits(&read(&mut device, &x)?), direct, "replay of {list:?}");
        }
        // Enqueued back to back: the writes between take effect in order.
        for list in &lists {
            device.write(&ids, 0, list)?;
            device.replay(&program)?;
        }
        assert_eq!(&bits(&read(&mut device, &x)?), &direct[2]);
        Ok(())
    };
    run().unwrap_or_else(|e| panic!("recorded chain: {e}"));
}

fn assert_shape(what: &str, result: Result<()>) {
    match result {
        Err(DeviceError::Shape { .. }) => {}
        other => panic!("{what}: {other:?}, expected a shape error"),
    }
}

/// Arguments of the wrong size are refused when the operation is enqueued.
pub fn refuses_wrong_arguments<D: Device>(make: &impl Fn(usize) -> D, _tolerance: Tolerance) {
    let mut random = Random::new(23);
    let mut device = make(POOL);
    let weight = Stored::new(&mut random, Kind::Fp4, 32, 64, 1);
    let mut run = || -> Result<()> {
        let w = device.linear_weight(weight.data())?;
        let x = device.alloc(4 * 64)?;
        let y = device.alloc(4 * 32)?;
        let huge = device.alloc((POOL + 1) * 64)?;
        let (wide, narrow) = (View::dense(&x, 64), View::dense(&y, 32));
        device.linear(4, wide, &w, narrow)?;
        assert_shape("too many input columns", device.linear(2, View::dense(&x, 65), &w, narrow));
        assert_shape("too few output columns", device.linear(2, wide, &w, View::dense(&y, 31)));
        assert_shape("too few rows", device.linear(5, wide, &w, narrow));
        assert_shape("rows that start too late", device.linear(4, wide.rows(1, 1), &w, narrow));
        let norm = device.alloc(63)?;
        assert_shape("a norm of another width", device.rms_norm(2, wide, &norm, 1e-6, wide));
        let many = View::dense(&huge, 64);
        assert_shape("more rows than the device takes", device.add(POOL + 1, many, many));
        assert_shape("another width", device.add(2, wide, narrow));
        assert_shape("a write past the end", device.write(&x, 255, &[0.0; 2]));
        assert_shape("a read past the end", device.read(&x, 256, &mut [0.0]));
        let table = device.table(3, 64, &[0; 2 * 3 * 64])?;
        let ids = device.alloc(2)?;
        device.write(&ids, 0, &[2, 3])?;
        let past = device.gather(2, &table, &ids, 1, wide).and_then(|()| device.read(&x, 0, &mut [0.0]));
        assert!(past.is_err(), "an id past the table");
        Ok(())
    };
    run().unwrap_or_else(|e| panic!("refused arguments: {e}"));
}

/// Packs a weight of 40 rows and 64 columns.
fn pack<D: Device>(device: &D, values: Matrix<'_>) -> Result<()> {
    device.linear_weight(LinearData { rows: 40, cols: 64, groups: 1, values }).map(drop)
}

/// Weights of the wrong size, and E8M0 scales that are NaN, are refused when they are packed.
pub fn refuses_wrong_weights<D: Device>(make: &impl Fn(usize) -> D, _tolerance: Tolerance) {
    let device = make(4);
    let zeros = vec![0; 40 * 64 * 4];
    let scales = vec![127; 80];
    assert_eq!(pack(&device, Matrix::Fp4 { codes: &zeros[..1280], scales: &scales }), Ok(()));
    assert_eq!(pack(&device, Matrix::Fp8 { codes: &zeros[..2560], scales: &scales[..4] }), Ok(()));
    for (what, values) in [
        ("FP4 codes", Matrix::Fp4 { codes: &zeros[..1279], scales: &scales }),
        ("FP4 scales", Matrix::Fp4 { codes: &zeros[..1280], scales: &scales[..79] }),
        ("FP8 codes", Matrix::Fp8 { codes: &zeros[..2561], scales: &scales[..4] }),
        ("FP8 scales", Matrix::Fp8 { codes: &zeros[..2560], scales: &scales[..2] }),
        ("bf16 bytes", Matrix::Bf16(&zeros[..2560])),
        ("f32 bytes", Matrix::F32(&zeros[..10236])),
    ] {
        assert_shape(what, pack(&device, values));
    }
    assert_shape("table bytes", device.table(3, 64, &zeros[..383]).map(drop));
    for (at, count) in [(0, 80), (57, 80), (79, 80), (0, 4), (3, 4)] {
        let mut scales = scales[..count].to_vec();
        scales[at] = 255;
        let values = match count {
            80 => Matrix::Fp4 { codes: &zeros[..1280], scales: &scales },
            _ => Matrix::Fp8 { codes: &zeros[..2560], scales: &scales },
        };
        let result = pack(&device, values);
        assert!(matches!(result, Err(DeviceError::Weight(_))), "scale {at} of {count} is NaN: {result:?}");
    }
}
