//! Saved prompt states: exactly the bytes that later positions can depend on.

use sha2::{Digest, Sha256};
use tokenfare_device::{Buffer, Cache, Device, Element};
use tokenfare_lanes::{SavedState, TargetError};

use super::slots::{Slot, Span};
use super::{Model, during};

/// A stretch of device memory that is part of a state.
enum Part<D: Device> {
    Bytes { buf: D::Buf<u8>, at: usize, len: usize },
    Floats { buf: D::Buf<f32>, at: usize, len: usize },
}

/// Context positions, low and end, as little-endian u64.
const HEAD: usize = 16;

impl<D: Device> Model<D> {
    /// Tokens that hashes of later positions look back to.
    fn tail(&self, len: usize) -> usize {
        self.net.config.engram.as_ref().map_or(0, |e| len.min(e.ngram - 1))
    }

    /// Rows of the first `len` positions of `slot` that later positions can see, in a fixed order.
    fn parts(&self, slot: usize, len: usize, context: Span) -> Vec<Part<D>> {
        let (layout, state) = (&self.net.layout, &self.net.state);
        let mut parts = Vec::new();
        let window = Span { low: len.saturating_sub(layout.window), end: len };
        for cache in &state.windows {
            ring(&mut parts, cache, slot * layout.ring, layout.ring, window);
        }
        for source in &state.sources {
            let base = slot * layout.groups(source.ratio);
            for cache in [&source.compressed, &source.keys] {
                rows(&mut parts, cache, base, len / source.ratio);
            }
            if let Some(carry) = &source.carry
                && len % 2 == 1
            {
                let width = 2 * self.net.config.head_dim;
                let at = layout.carry_row(slot, len - 1) as usize * width;
                parts.push(Part::Floats { buf: carry.clone(), at, len: width });
            }
        }
        for cache in &state.contexts {
            ring(&mut parts, cache, slot * layout.context_ring, layout.context_ring, context);
        }
        parts
    }

    pub(super) fn save_bytes(&mut self, slot: usize, len: usize) -> Result<Vec<u8>, TargetError> {
        let Slot { tokens, window, context } = self.slot(slot)?;
        let needed = len.saturating_sub(self.net.layout.window);
        if len > tokens.len() || needed < window.low {
            let (held, low) = (tokens.len(), window.low);
            return Err(TargetError(format!(
                "saving {len} positions of slot {slot}: it holds {held}, window rows from {low} on"
            )));
        }
        let context = if context.end == len {
            Span { low: context.low.max(needed), end: len }
        } else {
            Span { low: len, end: len }
        };
        let mut bytes = Vec::new();
        bytes.extend((context.low as u64).to_le_bytes());
        bytes.extend((context.end as u64).to_le_bytes());
        bytes.extend(tokens[len - self.tail(len)..len].iter().flat_map(|t| t.to_le_bytes()));
        for part in self.parts(slot, len, context) {
            part.read(&mut self.device, &mut bytes).map_err(during("saving a state"))?;
        }
        Ok(bytes)
    }

    pub(super) fn restore_bytes(&mut self, slot: usize, state: &SavedState) -> Result<(), TargetError> {
        let SavedState { len, bytes } = state;
        let len = *len;
        let wrong = |found: String| TargetError(format!("restoring {len} positions to slot {slot}: {found}"));
        let tail = self.tail(len);
        let Some((head, rest)) = bytes.split_at_checked(HEAD + 4 * tail) else {
            return Err(wrong(format!("{} bytes, expected at least {}", bytes.len(), HEAD + 4 * tail)));
        };
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i])) as usize;
        let context = Span { low: number(0), end: number(8) };
        let shortest = len.saturating_sub(self.net.layout.window);
        if len > self.info.context || context.end != len || !(shortest..=len).contains(&context.low) {
            let (Span { low, end }, most) = (context, self.info.context);
            return Err(wrong(format!("drafter context {low}..{end} in a context of {most}")));
        }
        let words = head[HEAD..].chunks_exact(4);
        let mut tokens = vec![0; len - tail];
        tokens.extend(words.map(|word| u32::from_le_bytes(std::array::from_fn(|i| word[i]))));
        if let Some(token) = tokens.iter().find(|t| **t as usize >= self.info.vocab) {
            return Err(wrong(format!("token {token}, expected below {}", self.info.vocab)));
        }
        let parts = self.parts(slot, len, context);
        let expected: usize = parts.iter().map(Part::bytes).sum();
        if rest.len() != expected {
            return Err(wrong(format!("{} bytes of rows, expected {expected}", rest.len())));
        }
        let mut rest = rest;
        for part in &parts {
            let (bytes, after) = rest.split_at(part.bytes());
            part.write(&mut self.device, bytes).map_err(during("restoring a state"))?;
            rest = after;
        }
        self.slots[slot] = Slot { tokens, window: Span { low: shortest, end: len }, context };
        Ok(())
    }

    pub(super) fn hash_bytes(&mut self, slot: usize, len: usize) -> Result<u64, TargetError> {
        let digest = Sha256::digest(self.save_bytes(slot, len)?);
        let (head, _) = digest.split_first_chunk::<8>().expect("a SHA-256 digest has 32 bytes");
        Ok(u64::from_le_bytes(*head))
    }
}

/// Adds `count` rows from row `from` on.
fn rows<D: Device>(parts: &mut Vec<Part<D>>, cache: &Cache<D>, from: usize, count: usize) {
    if count > 0 {
        let row = cache.format.row_bytes(cache.width);
        parts.push(Part::Bytes { buf: cache.bytes.clone(), at: from * row, len: count * row });
    }
}

/// Adds the rows at `span` of a ring that starts at row `base`, in order of position.
fn ring<D: Device>(parts: &mut Vec<Part<D>>, cache: &Cache<D>, base: usize, ring: usize, span: Span) {
    let mut position = span.low;
    while position < span.end {
        let at = position % ring;
        let count = (ring - at).min(span.end - position);
        rows(parts, cache, base + at, count);
        position += count;
    }
}

impl<D: Device> Part<D> {
    fn bytes(&self) -> usize {
        match self {
            Self::Bytes { len, .. } => *len,
            Self::Floats { len, .. } => 4 * len,
        }
    }

    fn read(&self, device: &mut D, out: &mut Vec<u8>) -> tokenfare_device::Result<()> {
        match self {
            Self::Bytes { buf, at, len } => out.extend(read(device, buf, *at, *len)?),
            Self::Floats { buf, at, len } => {
                out.extend(read(device, buf, *at, *len)?.into_iter().flat_map(f32::to_le_bytes));
            }
        }
        Ok(())
    }

    fn write(&self, device: &mut D, bytes: &[u8]) -> tokenfare_device::Result<()> {
        match self {
            Self::Bytes { buf, at, .. } => device.write(buf, *at, bytes),
            Self::Floats { buf, at, .. } => {
                let words = bytes.chunks_exact(4);
                let values: Vec<f32> =
                    words.map(|w| f32::from_le_bytes(std::array::from_fn(|i| w[i]))).collect();
                device.write(buf, *at, &values)
            }
        }
    }
}

fn read<D: Device, T: Element>(
    device: &mut D,
    buf: &D::Buf<T>,
    at: usize,
    len: usize,
) -> tokenfare_device::Result<Vec<T>> {
    debug_assert!(at + len <= buf.len());
    let mut values = vec![T::default(); len];
    device.read(buf, at, &mut values)?;
    Ok(values)
}
