//! What a round verifies.

use crate::copies::{Match, continuation};
use crate::engine::Engine;
use crate::stream::Stream;
use crate::{Copies, Drafter, RoundChoice, Target, WindowChoice};
use tokenfare_pricing::{Copied, Plan, Source, Window};

/// One stream's rows in a round.
#[derive(Debug, PartialEq)]
pub(crate) struct PlannedWindow {
    pub(crate) slot: usize,
    /// Position of the pending token.
    pub(crate) start: usize,
    /// The pending token, then drafts or a forced token.
    pub(crate) tokens: Vec<u32>,
    pub(crate) source: Source,
    /// Drafts among `tokens`: none beside a forced token.
    pub(crate) drafted: usize,
}

/// A round: its windows, and the priced choices behind them in the same order.
#[derive(Debug)]
pub(crate) struct RoundPlan {
    pub(crate) windows: Vec<PlannedWindow>,
    pub(crate) priced: Plan,
}

/// What a stream could verify.
#[derive(Default)]
struct Offer {
    slot: usize,
    forced: Option<u32>,
    /// Held drafts that are worth verifying, from the first.
    confidence: Vec<f64>,
    first: Option<u32>,
    room: usize,
    /// A copied continuation and the length of its match.
    copy: Vec<u32>,
    matched: usize,
}

impl Offer {
    fn window(&self) -> Window<'_> {
        let copy = Copied { matched: self.matched, len: self.copy.len() };
        Window {
            slot: self.slot,
            held: &self.confidence,
            first: self.first,
            room: self.room,
            copy: (!self.copy.is_empty()).then_some(copy),
        }
    }
}

/// The streams of a round, least recently served first, then by admission: as many as there are rows.
fn pick<'a>(streams: impl Iterator<Item = (usize, &'a Stream)>, rows: usize) -> Vec<usize> {
    let mut live: Vec<_> = streams.filter(|(_, s)| s.decodes()).collect();
    live.sort_by_key(|(_, s)| (s.last_served, s.number));
    live.into_iter().take(rows.max(1)).map(|(slot, _)| slot).collect()
}

impl<M: Target + Drafter> Engine<M> {
    /// Chooses the streams of the next round and the rows of each.
    pub(crate) fn plan_round(&mut self) -> RoundPlan {
        let slots = pick(self.streams(), self.info.window_rows);
        let live = self.streams().filter(|(_, s)| s.decodes()).count();
        let offers: Vec<Offer> = slots.iter().map(|&slot| self.offer(slot, live)).collect();
        let windows: Vec<Window<'_>> = offers.iter().map(Offer::window).collect();
        let mut priced = self.depth.plan(live, &windows);
        let explored = self.overrule(&mut priced);
        let mut spare = self.info.window_rows.saturating_sub(slots.len());
        let mut plan = Vec::with_capacity(slots.len());
        for (i, offer) in offers.iter().enumerate() {
            let depth = priced.choices()[i].depth.min(spare);
            priced.overrule(i, depth);
            let source = priced.choices()[i].source;
            let stream = self.lanes[offer.slot].as_ref().expect("a picked lane is occupied");
            let mut tokens = vec![stream.pending()];
            match (offer.forced, source) {
                (Some(forced), _) => tokens.extend((offer.room.min(spare) > 0).then_some(forced)),
                (None, Source::Drafter) => tokens.extend(&stream.held.tokens[..depth]),
                (None, Source::Copy) => tokens.extend(&offer.copy[..depth]),
            }
            spare -= tokens.len() - 1;
            plan.push(PlannedWindow {
                slot: offer.slot,
                start: stream.cache_len(),
                tokens,
                source,
                drafted: depth,
            });
        }
        let plan = RoundPlan { windows: plan, priced };
        if self.observer.is_some() {
            self.report_choice(&plan, &offers, &explored);
        }
        plan
    }

    /// Lets the oracle, if there is one, choose depths; says which windows it chose for.
    fn overrule(&mut self, priced: &mut Plan) -> Vec<bool> {
        let slots: Vec<(usize, usize)> = priced.choices().iter().map(|c| (c.slot, c.most)).collect();
        let Some(oracle) = &mut self.oracle else { return vec![false; slots.len()] };
        let overrule = |(i, (slot, most))| {
            let depth = oracle.depth(self.round, slot, most);
            depth.map(|depth| priced.overrule(i, depth)).is_some()
        };
        slots.into_iter().enumerate().map(overrule).collect()
    }

    fn offer(&mut self, slot: usize, live: usize) -> Offer {
        let drafting = self.depth.drafts_wanted(live);
        let copying = drafting && self.copies == Copies::On && self.depth.copies_wanted(slot);
        let most_copied = self.copied_rows.saturating_sub(1);
        let lookup_min = self.lookup_min;
        let stream = self.stream(slot);
        let room = stream.generation.room().saturating_sub(1);
        let mut offer = Offer { slot, ..Default::default() };
        if !stream.drafts {
            return offer;
        }
        offer.room = room;
        offer.forced = stream.generation.forced();
        if offer.forced.is_some() || !drafting {
            return offer;
        }
        let held = stream.generation.admits(&stream.held.tokens);
        offer.confidence = stream.held.confidence[..held].to_vec();
        offer.first = stream.held.tokens[..held].first().copied();
        if copying {
            stream.copies.extend(&stream.history);
            if let Some(found) = stream.copies.find(&stream.history, lookup_min) {
                offer.copy = admitted(stream, found, most_copied.min(room));
                offer.matched = found.len;
            }
        }
        offer
    }

    fn report_choice(&mut self, plan: &RoundPlan, offers: &[Offer], explored: &[bool]) {
        let windows = plan.windows.iter().zip(plan.priced.choices()).zip(offers).zip(explored);
        let windows: Vec<WindowChoice> = windows
            .map(|(((window, choice), offer), &explored)| {
                let stream = self.lanes[window.slot].as_ref().expect("a picked lane is occupied");
                WindowChoice {
                    slot: window.slot,
                    request: stream.number,
                    class: stream.class(),
                    source: choice.source,
                    start: window.start,
                    most: choice.most,
                    depth: window.drafted,
                    explored,
                    matched: if choice.source == Source::Copy { offer.matched } else { 0 },
                    lambda: choice.lambda,
                    confidence: offer.confidence.clone(),
                    q: choice.q.clone(),
                }
            })
            .collect();
        let others = plan.windows.iter().filter(|w| w.drafted == 0).map(|w| w.tokens.len()).sum();
        let rows = plan.windows.iter().map(|w| w.tokens.len()).sum();
        let choice = RoundChoice { round: self.round, at: self.shared.clock.now(), rows, others, windows };
        if let Some(observer) = &mut self.observer {
            observer.choose(&choice);
        }
    }
}

/// A copied continuation of at most `most` tokens, as far as it can be kept.
fn admitted(stream: &mut Stream, found: Match, most: usize) -> Vec<u32> {
    let mut copy = continuation(&stream.history, found, most);
    let kept = stream.generation.admits(&copy);
    copy.truncate(kept);
    copy
}
