//! The model as the drafter of its lanes.

use tokenfare_device::Device;
use tokenfare_lanes::sampling::Sampler;
use tokenfare_lanes::{Ask, Drafter, Ingest, Proposal, TargetError};

use super::drafter::Pass;
use super::inputs::Row;
use super::watch::read;
use super::{Model, during};
use crate::observer::DraftPass;

impl<D: Device> Model<D> {
    fn check_ingest(&self, item: &Ingest) -> Result<(), TargetError> {
        self.slot(item.slot)?;
        let rows = item.row.checked_add(item.count).and_then(|end| self.last.get(item.row..end));
        let expected = |(i, row): (usize, &Row)| row.slot == item.slot && row.position == item.start + i;
        if rows.is_some_and(|rows| rows.iter().enumerate().all(expected)) {
            return Ok(());
        }
        Err(TargetError(format!(
            "context of slot {} at position {}: rows {} + {} of the last launch hold other positions",
            item.slot, item.start, item.row, item.count
        )))
    }

    fn check_ask(&self, ask: &Ask<'_>) -> Result<(), TargetError> {
        let end = self.slot(ask.slot)?.context.end;
        if end != ask.position {
            let (slot, position) = (ask.slot, ask.position);
            return Err(TargetError(format!(
                "drafts of slot {slot} at position {position}: its context ends at {end}"
            )));
        }
        let vocab = self.info.vocab;
        if ask.token as usize >= vocab {
            return Err(TargetError(format!(
                "token {}, expected below the vocabulary of {vocab}",
                ask.token
            )));
        }
        Ok(())
    }

    /// One block pass and its Markov steps.
    fn propose_batch(&mut self, asks: &[Ask<'_>]) -> tokenfare_device::Result<Vec<Proposal>> {
        let Self { device, net, drafter, ropes, slots, observer, .. } = self;
        let Some(pass) = drafter else { return Ok(vec![Proposal::default(); asks.len()]) };
        let (block, vocab, count) = (pass.block(), net.config.vocab, asks.len());
        let heads: Vec<Row> =
            asks.iter().map(|a| Row { slot: a.slot, position: a.position, token: a.token }).collect();
        let first = |a: &Ask<'_>| a.position.saturating_sub(net.layout.window).max(slots[a.slot].context.low);
        let lows: Vec<usize> = asks.iter().map(first).collect();
        pass.upload(device, &net.layout, ropes, &heads, &lows)?;
        if pass.programs[count - 1].is_none() {
            pass.programs[count - 1] = Some(device.record(|d| pass.run(d, net, count))?);
        }
        if let Some(program) = &pass.programs[count - 1] {
            device.replay(program)?;
        }

        let mut seen = observer.is_some().then(DraftPass::default);
        let mut proposals = vec![Proposal::default(); count];
        let mut previous: Vec<u32> = asks.iter().map(|a| a.token).collect();
        let mut sampler = Sampler::new();
        let mut logits = vec![0.0; count * vocab];
        for j in 0..block {
            pass.step(device, net.drafter(), &previous, j)?;
            device.read(&pass.logits, 0, &mut logits)?;
            for (i, (ask, logits)) in asks.iter().zip(logits.chunks_exact(vocab)).enumerate() {
                previous[i] = sampler.draw(logits, ask.sampling, ask.position + 1 + j, None);
                proposals[i].tokens.push(previous[i]);
            }
            if let Some(seen) = &mut seen {
                seen.logits.extend_from_slice(&logits);
            }
        }
        pass.confide(device, net.drafter(), count)?;
        let confidence = read(device, &pass.confidence, count * block)?;
        for (proposal, confidence) in proposals.iter_mut().zip(confidence.chunks_exact(block)) {
            proposal.confidence = confidence.to_vec();
        }
        if let (Some(mut seen), Some(observer)) = (seen, observer) {
            show(&mut seen, device, pass, count, vocab)?;
            seen.drafts = proposals.iter().flat_map(|p| p.tokens.clone()).collect();
            seen.confidence = confidence;
            observer.draft(&seen);
        }
        Ok(proposals)
    }
}

/// Completes an observed pass: its logits came step by step, and are sorted here ask by ask.
fn show<D: Device>(
    seen: &mut DraftPass,
    device: &mut D,
    pass: &Pass<D>,
    asks: usize,
    vocab: usize,
) -> tokenfare_device::Result<()> {
    let block = pass.block();
    let steps = std::mem::take(&mut seen.logits);
    for ask in 0..asks {
        for step in steps.chunks_exact(asks * vocab) {
            seen.logits.extend_from_slice(&step[ask * vocab..][..vocab]);
        }
    }
    seen.base_logits = read(device, &pass.base, asks * block * vocab)?;
    let hidden = pass.hidden();
    let features = read(device, hidden.buf, asks * block * hidden.stride)?;
    seen.hidden = features.chunks(hidden.stride).flat_map(|row| row[..hidden.width].to_vec()).collect();
    Ok(())
}

impl<D: Device> Drafter for Model<D> {
    fn ingest(&mut self, items: &[Ingest]) -> Result<(), TargetError> {
        let (mut rows, mut taken) = (Vec::new(), Vec::new());
        for item in items {
            self.check_ingest(item)?;
            // Older rows are out of sight of every later position.
            let unseen = item.count.saturating_sub(self.net.layout.window);
            let range = item.row + unseen..item.row + item.count;
            rows.extend_from_slice(&self.last[range.clone()]);
            taken.extend(range.map(|row| row as u32));
        }
        let Self { device, net, drafter, ropes, .. } = self;
        let Some(pass) = drafter else { return Ok(()) };
        if !rows.is_empty() {
            pass.ingest(device, net, ropes, &rows, &taken).map_err(during("drafter context"))?;
        }
        let layout = net.layout;
        for item in items {
            let context = &mut self.slots[item.slot].context;
            let end = item.start + item.count;
            context.write(item.start, end, layout.context_ring);
            if item.count > layout.window {
                context.low = context.low.max(end - layout.window);
            }
        }
        Ok(())
    }

    fn propose(&mut self, asks: &[Ask<'_>]) -> Result<Vec<Proposal>, TargetError> {
        let Some(most) = self.drafter.as_ref().map(|pass| pass.asks) else {
            return Ok(vec![Proposal::default(); asks.len()]);
        };
        asks.iter().try_for_each(|ask| self.check_ask(ask))?;
        let mut proposals = Vec::with_capacity(asks.len());
        for batch in asks.chunks(most) {
            proposals.extend(self.propose_batch(batch).map_err(during("drafter pass"))?);
        }
        Ok(proposals)
    }

    fn reset(&mut self, slot: usize) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.context = Default::default();
        }
    }
}
