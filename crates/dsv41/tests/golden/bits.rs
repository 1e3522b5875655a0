//! The same bits however positions are fed: f32 values are compared as bit patterns.

use tokenfare_device::Device;
use tokenfare_dsv41::model::{CacheMode, Model, ModelOptions};
use tokenfare_lanes::{Ask, Drafter, Ingest, Logits, Proposal, Sampling, Segment, Target};

use crate::support::*;
use crate::tiny::{ingest, propose};

const VOCAB: usize = 512;
/// A token that continues any state: its logits show the state.
const PROBE: u32 = 77;
const CACHES: [CacheMode; 2] = [CacheMode::Exact, CacheMode::Trained];

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Fails at the first row whose bits differ.
fn same(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}: values");
    let rows = found.chunks(VOCAB).zip(expected.chunks(VOCAB));
    let differs = rows.enumerate().find(|(_, (f, e))| bits(f) != bits(e));
    assert!(differs.is_none(), "{what}: row {} differs", differs.map_or(0, |(row, _)| row));
}

fn same_drafts(what: &str, found: &Proposal, expected: &Proposal) {
    assert_eq!(found.tokens, expected.tokens, "{what}");
    assert_eq!(bits(&found.confidence), bits(&expected.confidence), "{what}");
}

/// A model whose rings of 40 rows wrap several times in a long prompt.
fn narrow<D: Device>(caches: CacheMode, device: impl Fn(usize) -> D) -> Model<D> {
    let options = ModelOptions { piece_rows: 24, ..tiny_options(caches) };
    model_with("fixtures/tiny", options, device, |_| ())
}

/// Feeds tokens from the start in pieces of these lengths, over and over, with drafter context.
fn fill<D: Device>(model: &mut Model<D>, slot: usize, tokens: &[u32], pieces: &[usize]) -> Vec<f32> {
    let mut logits = Vec::new();
    let mut fed = 0;
    for piece in pieces.iter().cycle() {
        if fed == tokens.len() {
            break;
        }
        let end = tokens.len().min(fed + piece);
        logits.extend(feed(model, slot, fed, &tokens[fed..end]));
        ingest(model, slot, fed, 0, end - fed);
        fed = end;
    }
    logits
}

/// All that a stream of `len` positions shows: hash, drafts after [`PROBE`], its logits, and the hash after it.
struct Shown {
    hash: u64,
    drafts: Proposal,
    logits: Vec<f32>,
    after: u64,
}

impl Shown {
    fn of<D: Device>(model: &mut Model<D>, slot: usize, len: usize) -> Self {
        let hash = model.state_hash(slot).unwrap();
        let drafts = propose(model, slot, len, PROBE);
        let logits = verify(model, slot, len, &[PROBE]);
        model.keep(slot, len + 1);
        ingest(model, slot, len, 0, 1);
        Self { hash, drafts, logits, after: model.state_hash(slot).unwrap() }
    }

    fn same(&self, what: &str, expected: &Self) {
        assert_eq!(self.hash, expected.hash, "{what}: state");
        same_drafts(what, &self.drafts, &expected.drafts);
        same(what, &self.logits, &expected.logits);
        assert_eq!(self.after, expected.after, "{what}: state after the next token");
    }
}

/// A long prompt in pieces of any length gives what it gives as one piece.
pub fn exact_chunked_is_whole<D: Device>(device: impl Fn(usize) -> D) {
    const CHUNKINGS: [&[usize]; 7] = [&[1], &[2], &[7], &[33, 1, 100], &[64], &[199], &[3, 16, 17, 5]];
    let tokens = prompt("p200");
    for caches in CACHES {
        let mut model = tiny(caches, &device);
        for len in [200, 197] {
            let tokens = &tokens[..len];
            model.release(0);
            let whole = fill(&mut model, 0, tokens, &[len]);
            let shown = Shown::of(&mut model, 0, len);
            for pieces in CHUNKINGS {
                let what = format!("{len} tokens by {pieces:?}, {caches:?}");
                model.release(1);
                same(&what, &fill(&mut model, 1, tokens, pieces), &whole);
                Shown::of(&mut model, 1, len).same(&what, &shown);
            }
        }
    }
}

/// Windows of one row, and of several, give the rows of a prompt.
pub fn exact_windows_are_prompt_rows<D: Device>(device: impl Fn(usize) -> D) {
    const SIZES: [&[usize]; 3] = [&[1], &[6, 2, 16, 1, 9], &[16]];
    let tokens = prompt("p200");
    for caches in CACHES {
        let mut model = narrow(caches, &device);
        let whole = fill(&mut model, 0, &tokens, &[24]);
        let shown = Shown::of(&mut model, 0, 200);
        for (start, sizes) in [(0, SIZES[0]), (23, SIZES[1]), (40, SIZES[2])] {
            let what = format!("windows of {sizes:?} from {start}, {caches:?}");
            model.release(1);
            fill(&mut model, 1, &tokens[..start], &[24]);
            let mut fed = start;
            for size in sizes.iter().cycle() {
                let end = tokens.len().min(fed + size);
                let found = verify(&mut model, 1, fed, &tokens[fed..end]);
                same(&what, &found, &whole[fed * VOCAB..end * VOCAB]);
                model.keep(1, end);
                ingest(&mut model, 1, fed, 0, end - fed);
                fed = end;
                if fed == tokens.len() {
                    break;
                }
            }
            Shown::of(&mut model, 1, 200).same(&what, &shown);
        }
    }
}

/// Streams that share windows and drafter passes get what each gets alone.
pub fn exact_shared_is_alone<D: Device>(device: impl Fn(usize) -> D) {
    let long = prompt("p200");
    let streams = [&long[..120], &prompt("p40"), &long[63..70]];
    const PROMPTS: [usize; 3] = [91, 25, 1];
    for caches in CACHES {
        let mut model = narrow(caches, &device);
        let alone: Vec<(Vec<f32>, Proposal)> = streams
            .iter()
            .zip(PROMPTS)
            .map(|(tokens, len)| {
                model.release(0);
                fill(&mut model, 0, &tokens[..len], &[24]);
                let drafts = propose(&mut model, 0, len, tokens[len]);
                model.release(0);
                (fill(&mut model, 0, tokens, &[24]), drafts)
            })
            .collect();
        for slots in [[0, 1, 2], [3, 0, 1], [2, 3, 0]] {
            let mut fed = PROMPTS;
            for (i, slot) in slots.into_iter().enumerate() {
                model.release(slot);
                fill(&mut model, slot, &streams[i][..fed[i]], &[24]);
            }
            let sampling = Sampling::greedy();
            let ask = |i: usize| Ask {
                slot: slots[i],
                position: fed[i],
                token: streams[i][fed[i]],
                sampling: &sampling,
            };
            let proposals = model.propose(&[ask(2), ask(0), ask(1)]).unwrap();
            for (found, i) in proposals.iter().zip([2, 0, 1]) {
                same_drafts(&format!("stream {i} in slot {}, {caches:?}", slots[i]), found, &alone[i].1);
            }
            for sizes in [[1, 1, 1], [6, 3, 2], [5, 0, 1], [0, 7, 0], [9, 4, 2]] {
                let segments: Vec<Segment<'_>> = (0..3)
                    .rev()
                    .filter(|&i| sizes[i] > 0)
                    .map(|i| Segment {
                        slot: slots[i],
                        start: fed[i],
                        tokens: &streams[i][fed[i]..fed[i] + sizes[i]],
                    })
                    .collect();
                let mut logits = Logits::default();
                model.window(&segments, &mut logits).unwrap();
                let mut rest = logits.values.as_slice();
                for i in (0..3).rev() {
                    let (found, after) = rest.split_at(sizes[i] * VOCAB);
                    let expected = &alone[i].0[fed[i] * VOCAB..(fed[i] + sizes[i]) * VOCAB];
                    same(&format!("stream {i} in slot {}, {sizes:?}, {caches:?}", slots[i]), found, expected);
                    rest = after;
                    fed[i] += sizes[i];
                }
            }
        }
    }
}

/// After rejected drafts, whatever their number, everything is as if they had never been fed.
pub fn exact_rejected_drafts_leave_nothing<D: Device>(device: impl Fn(usize) -> D) {
    const BLOCK: usize = 5;
    let tokens = prompt("p200");
    for caches in CACHES {
        let mut model = narrow(caches, &device);
        for start in [8, 17, 75] {
            for accepted in 0..=BLOCK {
                let what = format!("{accepted} drafts kept from {start} on, {caches:?}");
                let (kept, end) = (&tokens[start..=start + accepted], start + accepted + 1);
                model.release(0);
                fill(&mut model, 0, &tokens[..start], &[24]);
                let once = verify(&mut model, 0, start, kept);
                model.keep(0, end);
                ingest(&mut model, 0, start, 0, kept.len());
                let expected = Shown::of(&mut model, 0, end);

                model.release(1);
                fill(&mut model, 1, &tokens[..start], &[24]);
                propose(&mut model, 1, start, tokens[start]);
                let wrong = tokens[end..start + BLOCK + 1].iter().map(|t| (t + 1) % VOCAB as u32);
                let window: Vec<u32> = kept.iter().copied().chain(wrong).collect();
                let found = verify(&mut model, 1, start, &window);
                same(&what, &found[..once.len()], &once);
                model.keep(1, end);
                ingest(&mut model, 1, start, 0, kept.len());
                Shown::of(&mut model, 1, end).same(&what, &expected);
            }
        }
    }
}

/// A state restored into another slot goes on as in the first.
pub fn exact_restored_is_saved<D: Device>(device: impl Fn(usize) -> D) {
    let tokens = prompt("p200");
    for caches in CACHES {
        let mut model = narrow(caches, &device);
        fill(&mut model, 3, &prompt("p40"), &[24]);
        for len in [1, 2, 15, 41, 64, 199] {
            let what = format!("{len} positions, {caches:?}");
            model.release(0);
            fill(&mut model, 0, &tokens[..len], &[24]);
            let saved = model.save(0, len).unwrap();
            let expected = Shown::of(&mut model, 0, len);
            model.restore(3, &saved).unwrap();
            assert_eq!(model.save(3, len).unwrap(), saved, "{what}");
            Shown::of(&mut model, 3, len).same(&what, &expected);
        }
    }
}

/// A state saved by one model goes on the same in another.
pub fn exact_restored_elsewhere<D: Device>(device: impl Fn(usize) -> D) {
    let tokens = prompt("p200");
    for caches in CACHES {
        let mut first = tiny(caches, &device);
        fill(&mut first, 2, &tokens[..131], &[131]);
        let saved = first.save(2, 131).unwrap();
        let mut second = tiny(caches, &device);
        second.restore(1, &saved).unwrap();
        let expected = Shown::of(&mut first, 2, 131);
        Shown::of(&mut second, 1, 131).same(&format!("{caches:?}"), &expected);
    }
}

/// A released slot is as good as new.
pub fn exact_release_leaves_nothing<D: Device>(device: impl Fn(usize) -> D) {
    let (long, short) = (prompt("p200"), prompt("p40"));
    for caches in CACHES {
        let what = format!("{caches:?}");
        let mut fresh = narrow(caches, &device);
        let expected = (fill(&mut fresh, 1, &short, &[24]), Shown::of(&mut fresh, 1, 40));
        let mut used = narrow(caches, &device);
        fill(&mut used, 1, &long, &[24]);
        propose(&mut used, 1, 200, PROBE);
        verify(&mut used, 1, 200, &long[..16]);
        used.release(1);
        same(&what, &fill(&mut used, 1, &short, &[24]), &expected.0);
        Shown::of(&mut used, 1, 40).same(&what, &expected.1);

        let nothing = fresh.state_hash(0).unwrap();
        used.release(1);
        assert_eq!(used.state_hash(1).unwrap(), nothing, "{what}");
        let refused =
            used.propose(&[Ask { slot: 1, position: 41, token: PROBE, sampling: &Sampling::greedy() }]);
        assert!(refused.is_err(), "{what}: drafts without context");
    }
}

/// An observer changes no bit.
pub fn exact_observed_is_unobserved<D: Device>(device: impl Fn(usize) -> D) {
    let tokens = prompt("p200");
    for caches in CACHES {
        let what = format!("{caches:?}");
        let run = |model: &mut Model<D>| {
            model.release(0);
            let mut logits = fill(model, 0, &tokens[..101], &[24]);
            logits.extend(verify(model, 0, 101, &tokens[101..108]));
            model.keep(0, 104);
            model.ingest(&[Ingest { slot: 0, start: 101, row: 0, count: 3 }]).unwrap();
            (logits, Shown::of(model, 0, 104))
        };
        let mut model = narrow(caches, &device);
        let expected = run(&mut model);
        let recorder = Recorder::attach(&mut model);
        let found = run(&mut model);
        same(&what, &found.0, &expected.0);
        found.1.same(&what, &expected.1);
        assert_eq!(recorder.0.lock().unwrap().drafts.len(), 1, "{what}");
        model.observe(None);
        let found = run(&mut model);
        same(&what, &found.0, &expected.0);
        found.1.same(&what, &expected.1);
    }
}
