//! Keyed draws: the token at a position is a function of the logits, the settings and the seed alone.
//!
//! A draw takes the token with the largest `logit / T - ln(-ln u(seed, position, id))`, the Gumbel form of
//! sampling from the softmax, among those the filters leave. Because the noise is keyed by position and token,
//! a draft, a verify row and a serial step at the same position draw alike.

use crate::{Sampling, TokenLogprob};
use multiversion::multiversion;
use sha2::{Digest, Sha256};
use std::cmp::Ordering;

/// Lowest temperature of a sampled draw.
const COLDEST: f64 = 1e-6;

/// Below this distance (in units of `logit / T`) from the maximum, `exp` is under half an ulp of a softmax sum that starts at 1.
const NEGLIGIBLE: f64 = -38.0;

/// Slack of bounds that only decide whether an exact value must be computed.
const SLACK: f64 = 1e-6;

/// Slack of a quotient that is computed as a product, as a share of it.
const RELATIVE_SLACK: f64 = 1e-15;

/// Tokens that are bounded together.
const CHUNK: usize = 64;

/// The finaliser of splitmix64.
#[inline(always)]
const fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The part of a key that all tokens of a position share.
const fn position_key(seed: u64, position: u64) -> u64 {
    let x = mix(seed.wrapping_add(0x9E37_79B9_7F4A_7C15));
    mix(x ^ position.wrapping_mul(0xD1B5_4A32_D192_ED03))
}

/// The 64 random bits of token `id` at `position`.
///
/// ```
/// assert_eq!(tokenfare_lanes::sampling::key(7, 11, 13), 0xffa4_c0c9_f275_7968);
/// ```
pub const fn key(seed: u64, position: u64, id: u64) -> u64 {
    mix(position_key(seed, position) ^ id)
}

/// Uniform number in (0, 1): the upper 53 bits of a key, centred in their cell.
fn uniform(bits: u64) -> f64 {
    const CELL: f64 = 1.0 / (1u64 << 53) as f64;
    (bits >> 11) as f64 * CELL + CELL / 2.0
}

/// Gumbel noise `-ln(-ln u)` of a key.
fn noise(bits: u64) -> f64 {
    -libm::log(-libm::log(uniform(bits)))
}

/// An upper bound of [`noise`] without logarithms: `-ln(-ln u) <= -ln(1 - u)`, and `1 - u` is at least the power of two below it.
#[inline(always)]
fn noise_bound(bits: u64) -> f64 {
    let zeros = (!bits).leading_zeros();
    // The largest `u` rounds to 1.
    if zeros >= 53 { f64::INFINITY } else { f64::from(zeros + 1) * std::f64::consts::LN_2 + SLACK }
}

/// The seed of a request that names none: a hash of the prompt and the server's salt, with the top bit clear.
///
/// ```
/// assert_eq!(tokenfare_lanes::sampling::seed_of(&[1, 2, 3], "0"), 2_418_267_834_652_783_048);
/// ```
pub fn seed_of(prompt: &[u32], salt: &str) -> u64 {
    let mut hash = Sha256::new();
    for (i, id) in prompt.iter().enumerate() {
        if i > 0 {
            hash.update(b",");
        }
        hash.update(id.to_string());
    }
    hash.update(b"|");
    hash.update(salt);
    let digest = hash.finalize();
    let (head, _) = digest.split_first_chunk::<8>().expect("a SHA-256 digest has 32 bytes");
    u64::from_le_bytes(*head) & (u64::MAX >> 1)
}

/// The seed of choice `choice` of a request with several.
pub const fn seed_of_choice(seed: u64, choice: u64) -> u64 {
    seed.wrapping_add(choice)
}

/// Whether `allowed` (token `t` is bit `t % 32` of word `t / 32`) has the token; ids past its end are not allowed.
fn is_allowed(allowed: &[u32], id: usize) -> bool {
    allowed.get(id / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
}

/// A token that may still be drawn.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    logit: f32,
    id: u32,
}

impl Candidate {
    /// Larger logits first, ties to the lower id.
    fn order(&self, other: &Self) -> Ordering {
        other.logit.total_cmp(&self.logit).then(self.id.cmp(&other.id))
    }
}

/// The best score of a sampled draw so far; equal scores go to the candidate that sorts first.
struct Best {
    score: f64,
    candidate: Candidate,
}

impl Best {
    fn offer(&mut self, score: f64, candidate: Candidate) {
        let tie = || candidate.order(&self.candidate) == Ordering::Less;
        if score > self.score || (score == self.score && tie()) {
            *self = Self { score, candidate };
        }
    }
}

/// Draws tokens; keeps its working memory from draw to draw.
#[derive(Debug, Default)]
pub struct Sampler {
    /// Masked and biased logits, filled only when a mask or a bias applies.
    adjusted: Vec<f32>,
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// A sampler without memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Draws the token at `position` (the index of the token drawn) from the f32 `logits` of the row before it.
    ///
    /// The order is: the mask `allowed` (token `t` is bit `t % 32` of word `t / 32`; `None` allows all), the
    /// logit bias in f32, division by the temperature in f64, top-k, the softmax of those left, top-p (a token
    /// stays while the probability before it is below p), min-p relative to the likeliest, the draw. NaN counts
    /// as minus infinity. When no allowed token has a logit above minus infinity, the lowest allowed id comes
    /// out (0 when none is allowed).
    pub fn draw(
        &mut self,
        logits: &[f32],
        sampling: &Sampling,
        position: usize,
        allowed: Option<&[u32]>,
    ) -> u32 {
        let Self { adjusted, candidates } = self;
        let logits = if allowed.is_none() && sampling.logit_bias.is_empty() {
            logits
        } else {
            adjust(adjusted, logits, sampling, allowed);
            adjusted
        };
        let Some(top) = first_maximum(logits) else {
            return lowest_allowed(logits.len(), allowed);
        };
        if sampling.temperature == 0.0 {
            return top.id;
        }
        let temperature = sampling.temperature.max(COLDEST);
        let key = position_key(sampling.seed, position as u64);
        if sampling.top_k == 0 && sampling.top_p >= 1.0 && sampling.min_p == 0.0 {
            return likeliest_of_all(logits, top, temperature, key);
        }
        filter(candidates, logits, top, sampling, temperature);
        likeliest_score(candidates.iter().copied(), top, temperature, key)
    }
}

/// [`Sampler::draw`] with memory of its own.
pub fn draw(logits: &[f32], sampling: &Sampling, position: usize, allowed: Option<&[u32]>) -> u32 {
    Sampler::new().draw(logits, sampling, position, allowed)
}

/// Copies `logits` with forbidden tokens at minus infinity and the bias added to the others.
fn adjust(adjusted: &mut Vec<f32>, logits: &[f32], sampling: &Sampling, allowed: Option<&[u32]>) {
    adjusted.clear();
    for (i, logits) in logits.chunks(32).enumerate() {
        match allowed.map_or(u32::MAX, |allowed| allowed.get(i).copied().unwrap_or(0)) {
            u32::MAX => adjusted.extend_from_slice(logits),
            0 => adjusted.extend(std::iter::repeat_n(f32::NEG_INFINITY, logits.len())),
            bits => adjusted.extend(
                logits.iter().enumerate().map(
                    |(bit, &logit)| {
                        if bits >> bit & 1 == 1 { logit } else { f32::NEG_INFINITY }
                    },
                ),
            ),
        }
    }
    for &(id, bias) in &sampling.logit_bias {
        if let Some(logit) = adjusted.get_mut(id as usize) {
            *logit += bias;
        }
    }
}

/// The largest logit above minus infinity, ties to the lowest id.
fn first_maximum(logits: &[f32]) -> Option<Candidate> {
    const LANES: usize = 16;
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        for (most, &logit) in lanes.iter_mut().zip(chunk) {
            *most = if logit > *most { logit } else { *most };
        }
    }
    let most = lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
    if most == f32::NEG_INFINITY {
        return None;
    }
    let id = logits.iter().position(|&logit| logit == most)?;
    Some(Candidate { logit: logits[id], id: id as u32 })
}

fn lowest_allowed(vocab: usize, allowed: Option<&[u32]>) -> u32 {
    let lowest = |allowed: &[u32]| (0..vocab).find(|&id| is_allowed(allowed, id));
    allowed.and_then(lowest).unwrap_or(0) as u32
}

/// The score `logit / T + noise` of a candidate whose key is `bits`.
fn score(candidate: Candidate, temperature: f64, bits: u64) -> f64 {
    f64::from(candidate.logit) / temperature + noise(bits)
}

/// The candidate with the largest score. `top` is one of them; starting with it lets the bound rule out most others.
fn likeliest_score(
    candidates: impl Iterator<Item = Candidate>,
    top: Candidate,
    temperature: f64,
    key: u64,
) -> u32 {
    let bits = |c: Candidate| mix(key ^ u64::from(c.id));
    let mut best = Best { score: score(top, temperature, bits(top)), candidate: top };
    for candidate in candidates {
        let bits = bits(candidate);
        if f64::from(candidate.logit) / temperature + noise_bound(bits) >= best.score {
            best.offer(score(candidate, temperature, bits), candidate);
        }
    }
    best.candidate.id
}

/// [`likeliest_score`] of all `logits`: chunks whose bounds stay below the best score are passed over.
fn likeliest_of_all(logits: &[f32], top: Candidate, temperature: f64, key: u64) -> u32 {
    let mut best = Best { score: score(top, temperature, mix(key ^ u64::from(top.id))), candidate: top };
    let scale = 1.0 / temperature;
    for (chunk, first) in logits.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
        if !may_reach(chunk, u64::from(first), key, scale, best.score) {
            continue;
        }
        for (&logit, id) in chunk.iter().zip(first..) {
            let (candidate, bits) = (Candidate { logit, id }, mix(key ^ u64::from(id)));
            if f64::from(logit) / temperature + noise_bound(bits) >= best.score {
                best.offer(score(candidate, temperature, bits), candidate);
            }
        }
    }
    best.candidate.id
}

/// Whether a bound of `logit * scale + noise` reaches `least` for one of the tokens from `first` on. It only decides
/// whether exact scores are computed, so its rounding changes no draw.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512cd+avx512dq+avx512vl",
    "x86_64+avx2+fma",
    "aarch64+neon"
))]
fn may_reach(logits: &[f32], first: u64, key: u64, scale: f64, least: f64) -> bool {
    let mut reaches = false;
    for (i, &logit) in logits.iter().enumerate() {
        let scaled = f64::from(logit) * scale;
        let bound = noise_bound(mix(key ^ (first + i as u64)));
        reaches |= scaled + scaled.abs() * RELATIVE_SLACK + bound >= least;
    }
    reaches
}

/// Fills `candidates` with the tokens that top-k, top-p and min-p leave.
fn filter(
    candidates: &mut Vec<Candidate>,
    logits: &[f32],
    top: Candidate,
    sampling: &Sampling,
    temperature: f64,
) {
    let scaled_top = f64::from(top.logit) / temperature;
    let below = |logit: f32| f64::from(logit) / temperature - scaled_top;
    // What lies under this floor adds nothing to any sum and passes no filter.
    let floor = if sampling.top_p < 1.0 {
        NEGLIGIBLE
    } else if sampling.min_p > 0.0 {
        libm::log(sampling.min_p) - SLACK
    } else {
        f64::NEG_INFINITY
    };
    let passes = |c: &Candidate| c.logit > f32::NEG_INFINITY && below(c.logit) >= floor;
    if (1..logits.len()).contains(&sampling.top_k) {
        // Whoever is under the floor comes after everyone above it, so the order of the two filters is free.
        take_top(candidates, logits, sampling.top_k);
        candidates.retain(passes);
    } else {
        candidates.clear();
        candidates.extend(logits.iter().zip(0..).map(|(&logit, id)| Candidate { logit, id }).filter(passes));
    }
    if sampling.top_p < 1.0 {
        candidates.sort_unstable_by(Candidate::order);
        let total: f64 = candidates.iter().map(|c| libm::exp(below(c.logit))).sum();
        let mut before = 0.0;
        let nucleus = candidates.iter().take_while(|c| {
            let stays = before < sampling.top_p * total;
            before += libm::exp(below(c.logit));
            stays
        });
        let count = nucleus.count().max(1);
        candidates.truncate(count);
    }
    if sampling.min_p > 0.0 {
        candidates.retain(|c| libm::exp(below(c.logit)) >= sampling.min_p);
    }
}

/// Replaces `candidates` by the `k` first of `logits` in the order of candidates, in any order; NaN is left out.
fn take_top(candidates: &mut Vec<Candidate>, logits: &[f32], k: usize) {
    candidates.clear();
    let mut least = f32::NEG_INFINITY;
    for (chunk, first) in logits.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
        if !chunk.iter().fold(false, |any, &logit| any | (logit >= least)) {
            continue;
        }
        let kept = chunk.iter().zip(first..).filter(|(logit, _)| **logit >= least);
        candidates.extend(kept.map(|(&logit, id)| Candidate { logit, id }));
        if candidates.len() >= 2 * k + CHUNK {
            candidates.select_nth_unstable_by(k - 1, Candidate::order);
            candidates.truncate(k);
            least = candidates[k - 1].logit;
        }
    }
    if candidates.len() > k {
        candidates.select_nth_unstable_by(k - 1, Candidate::order);
        candidates.truncate(k);
    }
}

/// Log-probabilities under one row of raw logits, before mask, bias, temperature and filters.
#[derive(Debug, Clone, Copy)]
pub struct LogSoftmax<'a> {
    logits: &'a [f32],
    /// `ln(sum(exp(logit)))`.
    normaliser: f64,
}

impl<'a> LogSoftmax<'a> {
    /// Sums the row in f64, in the order of ids.
    pub fn new(logits: &'a [f32]) -> Self {
        let most = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = logits.iter().map(|&logit| libm::exp(f64::from(logit) - most)).sum();
        Self { logits, normaliser: most + libm::log(sum) }
    }

    /// Log-probability of `id`; minus infinity outside the row.
    pub fn of(&self, id: u32) -> f32 {
        let logit = self.logits.get(id as usize).copied().unwrap_or(f32::NEG_INFINITY);
        (f64::from(logit) - self.normaliser) as f32
    }

    /// `id` with the `top` likeliest tokens beside it.
    pub fn report(&self, id: u32, top: usize) -> TokenLogprob {
        let mut candidates: Vec<_> =
            self.logits.iter().zip(0..).map(|(&logit, id)| Candidate { logit, id }).collect();
        if (1..candidates.len()).contains(&top) {
            candidates.select_nth_unstable_by(top - 1, Candidate::order);
        }
        candidates.truncate(top);
        candidates.sort_unstable_by(Candidate::order);
        let top = candidates.iter().map(|c| (c.id, self.of(c.id))).collect();
        TokenLogprob { id, logprob: self.of(id), top }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, literally: everything sorted, every score computed.
    fn plain_draw(logits: &[f32], s: &Sampling, position: usize, allowed: Option<&[u32]>) -> u32 {
        let mut left: Vec<(f32, u32)> = (0u32..)
            .zip(logits)
            .filter(|(id, _)| allowed.is_none_or(|a| a[*id as usize / 32] >> (id % 32) & 1 == 1))
            .map(|(id, &logit)| {
                let bias = s.logit_bias.iter().find(|b| b.0 == id).map_or(0.0, |b| b.1);
                (logit + bias, id)
            })
            .collect();
        left.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        if s.temperature == 0.0 {
            return left[0].1;
        }
        let t = s.temperature.max(1e-6);
        if s.top_k > 0 {
            left.truncate(s.top_k);
        }
        let most = f64::from(left[0].0) / t;
        let weight: Vec<f64> = left.iter().map(|l| libm::exp(f64::from(l.0) / t - most)).collect();
        let total: f64 = weight.iter().sum();
        let (mut kept, mut before) = (Vec::new(), 0.0);
        for (l, w) in left.iter().zip(&weight) {
            let nucleus = s.top_p >= 1.0 || before < s.top_p * total;
            if (nucleus || kept.is_empty()) && *w >= s.min_p {
                kept.push(*l);
            }
            before += w;
        }
        let score = |l: &(f32, u32)| {
            let u = (key(s.seed, position as u64, l.1.into()) >> 11) as f64 * 2f64.powi(-53) + 2f64.powi(-54);
            f64::from(l.0) / t - libm::log(-libm::log(u))
        };
        let mut best = kept[0];
        for l in &kept[1..] {
            if score(l) > score(&best) {
                best = *l;
            }
        }
        best.1
    }

    #[test]
    fn keys_and_seeds_have_their_check_values() {
        assert_eq!(key(7, 11, 13), 0xffa4_c0c9_f275_7968);
        assert_eq!(seed_of(&[1, 2, 3], "0"), 2_418_267_834_652_783_048);
        assert_eq!(seed_of_choice(u64::MAX, 2), 1);
    }

    #[test]
    fn greedy_takes_the_first_maximum() {
        let logits = [1.0, 3.0, f32::NAN, 3.0, 2.0];
        assert_eq!(draw(&logits, &Sampling::greedy(), 9, None), 1);
        assert_eq!(draw(&logits, &Sampling::greedy(), 9, Some(&[0b11101])), 3);
        let biased = Sampling { logit_bias: vec![(4, 1.5)], ..Sampling::greedy() };
        assert_eq!(draw(&logits, &biased, 9, None), 4);
    }

    #[test]
    fn a_row_without_a_choice_gives_the_lowest_allowed_id() {
        let logits = [f32::NEG_INFINITY; 40];
        assert_eq!(draw(&logits, &Sampling::greedy(), 0, None), 0);
        assert_eq!(draw(&logits, &Sampling::greedy(), 0, Some(&[0, 1])), 32);
        let hot = Sampling { temperature: 1.0, ..Sampling::greedy() };
        assert_eq!(draw(&logits, &hot, 0, Some(&[0, 1])), 32);
    }

    #[test]
    fn noise_stays_under_its_bound() {
        for bits in (0..64).flat_map(|s| [u64::MAX << s, u64::MAX >> s, 1 << s, !(1 << s)]) {
            assert!(noise(bits) <= noise_bound(bits), "{bits:#x}");
        }
    }

    #[test]
    fn frequencies_follow_the_softmax() {
        let logits = [0.0f32, 1.0, 2.0];
        let s = Sampling { temperature: 1.0, seed: 3, ..Sampling::greedy() };
        let mut sampler = Sampler::new();
        let mut counts = [0u32; 3];
        for position in 0..20_000 {
            counts[sampler.draw(&logits, &s, position, None) as usize] += 1;
        }
        let total: f64 = logits.iter().map(|&l| f64::from(l).exp()).sum();
        for (count, logit) in counts.iter().zip(logits) {
            let expected = f64::from(logit).exp() / total;
            assert!((f64::from(*count) / 20_000.0 - expected).abs() < 0.015, "{counts:?}");
        }
    }

    #[test]
    fn logprobs_are_those_of_the_raw_row() {
        let logits = [0.5f32, -1.0, 2.0, 2.0];
        let row = LogSoftmax::new(&logits);
        let normaliser = logits.iter().map(|&l| f64::from(l).exp()).sum::<f64>().ln();
        let expected = |id: usize| (f64::from(logits[id]) - normaliser) as f32;
        let report = row.report(1, 3);
        assert_eq!((report.id, report.logprob), (1, expected(1)));
        assert_eq!(report.top, [(2, expected(2)), (3, expected(3)), (0, expected(0))]);
        assert_eq!(row.report(0, 0).top, []);
    }

    proptest! {
        #[test]
        fn draws_equal_the_definition(
            logits in prop::collection::vec(-30i32..30, 1..200),
            scale in prop::sample::select(vec![0.01f32, 0.25, 1.0]),
            temperature in prop::sample::select(vec![0.0, 1e-9, 0.2, 0.7, 1.0, 5.0]),
            top_k in prop::sample::select(vec![0usize, 1, 3, 40, 500]),
            top_p in prop::sample::select(vec![1e-9, 0.3, 0.9, 0.999_999, 1.0]),
            min_p in prop::sample::select(vec![0.0, 1e-30, 0.05, 0.5, 1.0]),
            seed: u64,
            position in 0usize..100_000,
            mask in prop::option::of(prop::collection::vec(any::<u32>(), 7)),
            bias in -5f32..5.0,
        ) {
            let logits: Vec<f32> = logits.iter().map(|&l| l as f32 * scale).collect();
            // Id 0 stays allowed so that the definition has something to draw from.
            let mask = mask.map(|mut m| { m[0] |= 1; m });
            let s = Sampling { temperature, top_p, top_k, min_p, seed, logit_bias: vec![(0, bias)] };
            let mut sampler = Sampler::new();
            for position in position..position + 4 {
                prop_assert_eq!(
                    sampler.draw(&logits, &s, position, mask.as_deref()),
                    plain_draw(&logits, &s, position, mask.as_deref())
                );
            }
        }
    }
}
