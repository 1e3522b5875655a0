//! The model as the target of its lanes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tokenfare_device::Device;
use tokenfare_lanes::{Logits, SavedState, Segment, Target, TargetError, TargetInfo, Want};

use super::inputs::Row;
use super::watch::Watch;
use super::{Model, during, no_slot};

impl<D: Device> Model<D> {
    /// Takes the tokens of a launch into their slots and uploads what its rows need.
    fn feed(&mut self, segments: &[Segment<'_>], most: usize) -> Result<usize, TargetError> {
        self.check(segments, most)?;
        self.last.clear();
        let layout = self.net.layout;
        for s in segments {
            self.slots[s.slot].feed(s.start, s.tokens, layout.ring);
            let row = |(i, &token)| Row { slot: s.slot, position: s.start + i, token };
            self.last.extend(s.tokens.iter().enumerate().map(row));
        }
        self.net
            .inputs
            .upload(&mut self.device, &self.last, &layout, &self.ropes)
            .map_err(during("uploading a launch"))?;
        self.upload_engram()?;
        Ok(self.last.len())
    }

    /// Refuses a launch as a whole, before any slot changes.
    fn check(&self, segments: &[Segment<'_>], most: usize) -> Result<(), TargetError> {
        let rows: usize = segments.iter().map(|s| s.tokens.len()).sum();
        if rows == 0 || rows > most {
            return Err(TargetError(format!("a launch of {rows} rows, expected 1 to {most}")));
        }
        let mut seen = HashSet::new();
        for s in segments {
            let slot = self.slot(s.slot)?;
            if !seen.insert(s.slot) {
                return Err(TargetError(format!("slot {} twice in one window", s.slot)));
            }
            let end = s.start.saturating_add(s.tokens.len());
            if s.tokens.is_empty() || end > self.info.context {
                let (start, context) = (s.start, self.info.context);
                return Err(TargetError(format!(
                    "slot {}: positions {start}..{end}, expected at least one inside the context of {context}",
                    s.slot
                )));
            }
            if let Some(id) = s.tokens.iter().find(|id| **id as usize >= self.info.vocab) {
                let vocab = self.info.vocab;
                return Err(TargetError(format!("token {id}, expected below the vocabulary of {vocab}")));
            }
            slot.check(s.start, self.net.layout.window)
                .map_err(|e| TargetError(format!("slot {}: {e}", s.slot)))?;
        }
        Ok(())
    }

    /// Hashes the tokens of the launch and uploads the table rows that they name.
    fn upload_engram(&mut self) -> Result<(), TargetError> {
        let (Some(hash), Some(sizes)) = (&self.hash, &self.net.config.engram) else { return Ok(()) };
        for (number, &layer) in sizes.layers.iter().enumerate() {
            let mut rows = Vec::with_capacity(self.last.len() * sizes.columns());
            for row in &self.last {
                let history = &self.slots[row.slot].tokens[..=row.position];
                hash.rows(number, history, &mut rows);
            }
            if let Some(observer) = &mut self.observer {
                observer.engram(layer, sizes.columns(), &rows);
            }
            let engram = self.net.weights.layers[layer].engram.as_ref().expect("an Engram layer has a table");
            let mut values = vec![0.0; rows.len() * sizes.width];
            for (&row, out) in rows.iter().zip(values.chunks_exact_mut(sizes.width)) {
                engram.table.row(row, out).map_err(during("reading an Engram table"))?;
            }
            self.device
                .write(&self.net.inputs.engram[number], 0, &values)
                .map_err(during("uploading Engram rows"))?;
        }
        Ok(())
    }

    fn run_prefill(&mut self, n: usize, want: Want, logits: &mut Logits) -> tokenfare_device::Result<()> {
        let Self { device, net, observer, .. } = self;
        net.forward(device, n, Watch::new(observer.as_deref_mut()))?;
        let wanted: Vec<u32> = match want {
            // Lanes share time by what a piece takes, so its work has to be over when the call is.
            Want::Nothing => return device.read(&net.logits, 0, &mut [0.0]),
            Want::Last => vec![n as u32 - 1],
            Want::All => (0..n as u32).collect(),
        };
        net.collapse(device, n)?;
        let vocab = self.info.vocab;
        logits.values.resize(wanted.len() * vocab, 0.0);
        let chunks = wanted.chunks(self.info.window_rows);
        for (rows, out) in chunks.zip(logits.values.chunks_mut(self.info.window_rows * vocab)) {
            device.write(&net.wanted, 0, rows)?;
            net.head(device, rows.len())?;
            device.read(&net.logits, 0, out)?;
        }
        Ok(())
    }

    fn run_window(&mut self, n: usize, logits: &mut Logits) -> tokenfare_device::Result<()> {
        if self.observer.is_some() {
            let Self { device, net, observer, .. } = self;
            net.window(device, n, Watch::new(observer.as_deref_mut()))?;
        } else {
            self.record(n)?;
            if let Some(program) = &self.windows[n - 1] {
                self.device.replay(program)?;
            }
        }
        logits.values.resize(n * self.info.vocab, 0.0);
        let began = Instant::now();
        self.device.read(&self.net.logits, 0, &mut logits.values)?;
        self.read_back = began.elapsed();
        Ok(())
    }

    /// Records the window of `n` rows, once.
    fn record(&mut self, n: usize) -> tokenfare_device::Result<()> {
        let Self { device, net, windows, .. } = self;
        let program = &mut windows[n - 1];
        if program.is_none() {
            *program = Some(device.record(|d| net.window(d, n, Watch::default()))?);
        }
        Ok(())
    }
}

impl<D: Device> Target for Model<D> {
    fn info(&self) -> &TargetInfo {
        &self.info
    }

    fn prefill(
        &mut self,
        slot: usize,
        start: usize,
        tokens: &[u32],
        want: Want,
        logits: &mut Logits,
    ) -> Result<(), TargetError> {
        let n = self.feed(&[Segment { slot, start, tokens }], self.info.piece_rows)?;
        logits.vocab = self.info.vocab;
        logits.values.clear();
        self.run_prefill(n, want, logits).map_err(during("prompt piece"))
    }

    fn window(&mut self, segments: &[Segment<'_>], logits: &mut Logits) -> Result<(), TargetError> {
        let n = self.feed(segments, self.info.window_rows)?;
        logits.vocab = self.info.vocab;
        logits.values.clear();
        self.run_window(n, logits).map_err(during("verify window"))
    }

    fn read_back(&self) -> Duration {
        self.read_back
    }

    fn keep(&mut self, slot: usize, len: usize) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.keep(len);
        }
    }

    fn release(&mut self, slot: usize) {
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = Default::default();
        }
    }

    fn save(&mut self, slot: usize, len: usize) -> Result<SavedState, TargetError> {
        let bytes = self.save_bytes(slot, len)?;
        Ok(SavedState { len, bytes })
    }

    fn restore(&mut self, slot: usize, state: &SavedState) -> Result<(), TargetError> {
        if slot >= self.slots.len() {
            return Err(no_slot(slot, self.slots.len()));
        }
        self.restore_bytes(slot, state)
    }

    fn state_hash(&mut self, slot: usize) -> Result<u64, TargetError> {
        let len = self.slot(slot)?.tokens.len();
        self.hash_bytes(slot, len)
    }

    fn enter(&mut self) {
        // An observed launch runs operation by operation, which says nothing of a recorded one.
        self.paused = self.observer.take();
    }

    fn leave(&mut self) {
        self.observer = self.paused.take();
    }

    fn prepare(&mut self, rows: usize) -> Result<(), TargetError> {
        let most = self.info.window_rows;
        if !(1..=most).contains(&rows) {
            return Err(TargetError(format!("a window of {rows} rows, expected 1 to {most}")));
        }
        self.record(rows).map_err(during("preparing a window"))
    }

    fn drop_window(&mut self, slot: usize, len: usize) {
        self.keep(slot, len);
    }

    fn wipe(&mut self, slot: usize) {
        self.release(slot);
        self.last.clear();
    }
}
