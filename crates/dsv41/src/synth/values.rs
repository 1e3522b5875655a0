//! Random values by tensor, with statistics that keep the model alive.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};
use tokenfare_device::format::{encode_e2m1, encode_e4m3};

use crate::checkpoint::{Dtype, TensorSpec};

/// Normal draws that quantized weights are looked up in; the exact draws do not matter, only that there are
/// many.
static NORMAL: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    (0..1 << 16).map(|_| random.normal()).collect()
});

/// The distribution of a tensor's values before they are quantized.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Law {
    Normal { mean: f64, deviation: f64 },
    Uniform { from: f64, to: f64 },
}

/// Makes the stored bytes of one tensor from its first to its last.
pub(super) struct Generator {
    random: Random,
    form: Form,
}

enum Form {
    /// E4M3 codes, looked up by 16 random bits.
    Bytes(Vec<u8>),
    /// E2M1 codes, looked up by 16 random bits, two a byte.
    Nibbles(Vec<u8>),
    /// E8M0 bytes: one below, at or one above this, so that neighbouring blocks differ.
    Scales(u8),
    Bf16(Law),
    F32(Law),
}

impl Generator {
    pub(super) fn new(spec: &TensorSpec, seed: u64) -> Self {
        let digest = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(&spec.name).finalize();
        let key = digest.iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte));
        let form = match spec.dtype {
            Dtype::I8 => Form::Nibbles(codes(deviation(spec), Grid::E2m1, encode_e2m1)),
            Dtype::F8_E4M3 => Form::Bytes(codes(deviation(spec), Grid::E4m3, encode_e4m3)),
            Dtype::F8_E8M0 => {
                let grid = if spec.name.contains(".ffn.experts.") { Grid::E2m1 } else { Grid::E4m3 };
                Form::Scales((127 + grid.exponent(deviation(spec))) as u8)
            }
            Dtype::BF16 => Form::Bf16(law(spec)),
            _ => Form::F32(law(spec)),
        };
        Self { random: Random(key), form }
    }

    /// Writes the next `out.len()` bytes, a multiple of the element size.
    pub(super) fn fill(&mut self, out: &mut [u8]) {
        let random = &mut self.random;
        match &self.form {
            Form::Bytes(table) => {
                for part in out.chunks_mut(4) {
                    let bits = random.next();
                    part.iter_mut().enumerate().for_each(|(i, byte)| *byte = table[lane(bits, i)]);
                }
            }
            Form::Nibbles(table) => {
                for part in out.chunks_mut(2) {
                    let bits = random.next();
                    for (i, byte) in part.iter_mut().enumerate() {
                        *byte = table[lane(bits, 2 * i)] | table[lane(bits, 2 * i + 1)] << 4;
                    }
                }
            }
            Form::Scales(middle) => {
                out.iter_mut().for_each(|byte| *byte = middle - 1 + (random.next() % 3) as u8)
            }
            Form::Bf16(law) => {
                let (values, _) = out.as_chunks_mut();
                values.iter_mut().for_each(|v| *v = half::bf16::from_f64(random.draw(*law)).to_le_bytes());
            }
            Form::F32(law) => {
                let (values, _) = out.as_chunks_mut();
                values.iter_mut().for_each(|v| *v = (random.draw(*law) as f32).to_le_bytes());
            }
        }
    }
}

/// The `i`-th 16 bits.
fn lane(bits: u64, i: usize) -> usize {
    (bits >> (16 * i) & 0xffff) as usize
}

/// The code formats of quantized weights.
#[derive(Clone, Copy)]
enum Grid {
    E2m1,
    E4m3,
}

impl Grid {
    /// The power of two that brings `deviation` to where the format's codes are well used and rarely
    /// saturate.
    fn exponent(self, deviation: f64) -> i32 {
        let least = match self {
            Grid::E2m1 => 1.25,
            Grid::E4m3 => 64.0,
        };
        libm::floor(libm::log2(deviation / least)) as i32
    }
}

/// Codes of normal draws under a scale of `2^exponent`.
fn codes(deviation: f64, grid: Grid, encode: fn(f32) -> u8) -> Vec<u8> {
    let unit = libm::exp2(f64::from(grid.exponent(deviation)));
    NORMAL.iter().map(|x| encode((x * deviation / unit) as f32)).collect()
}

fn law(spec: &TensorSpec) -> Law {
    let name = spec.name.as_str();
    let leaf = name.rsplit('.').next().unwrap_or(name);
    let (mean, deviation) = if name.contains("norm") && leaf == "weight" {
        (1.0, 0.1)
    } else if leaf == "q_weight" || leaf == "k_weight" {
        (1.0, 0.2)
    } else if leaf.starts_with("hc_") && leaf.ends_with("_scale") {
        return Law::Uniform { from: 0.5, to: 1.5 };
    } else if leaf == "attn_sink" || leaf.ends_with("_base") {
        (0.0, 0.5)
    } else if leaf == "bias" || leaf == "bias_vl" {
        (0.0, 0.05)
    } else if name == "embed.weight" || name.ends_with("markov_head.embed.weight") {
        (0.0, 1.0)
    } else {
        (0.0, deviation(spec))
    };
    Law::Normal { mean, deviation }
}

/// Standard deviation of a matrix: its gain over the square root of its inputs. Of a scale tensor: its
/// matrix's.
///
/// Sublayer outputs are small against the residual, so that rounding does not grow chaotically with depth.
fn deviation(spec: &TensorSpec) -> f64 {
    let name = spec.name.as_str();
    if name.contains(".engram.embed.") {
        return 0.5;
    }
    let inputs = match (spec.dtype, spec.shape.last().copied().unwrap_or(1)) {
        (Dtype::F8_E8M0, blocks) => 32 * blocks,
        (Dtype::I8, bytes) => 2 * bytes,
        (_, inputs) => inputs,
    };
    let module = name.rsplit('.').nth(1).unwrap_or_default();
    let gain = match module {
        "head" if name == "head.weight" => 3.0,
        "wkv" if name.contains(".engram.") => 0.2,
        "wq_b" | "w1" | "w3" => 1.5,
        "weights_proj" | "head" => 1.0,
        "gate" => 2.0,
        "wo_b" => 0.1,
        "w2" => 0.06,
        _ => 1.2,
    };
    gain / libm::sqrt(inputs as f64)
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// In 0..1, never 0.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// A standard normal draw (Box-Muller).
    fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    fn draw(&mut self, law: Law) -> f64 {
        match law {
            Law::Normal { mean, deviation } => mean + deviation * self.normal(),
            Law::Uniform { from, to } => from + (to - from) * self.unit(),
        }
    }
}
