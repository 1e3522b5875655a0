//! Random workloads on random engines, with cancels, lost states and any depths: every reply that ends by itself equals the serial one.

mod common;

use common::{config, filtered, prompt, sampled, serial, start, submit, warm};
use proptest::prelude::*;
use std::collections::HashMap;
use tokenfare_lanes::testkit::{Bound, Call, FakeConfig, Fault, RandomDepth, Repeat, Words, collect};
use tokenfare_lanes::{Finish, LanesConfig, Reply, Report, Request, Sampling, TargetInfo, ThinkingBudget};
use tokenfare_pricing::{DepthConfig, Joint, Rule, Skip};

/// One request of a workload, in numbers that proptest can shrink.
#[derive(Debug, Clone)]
struct Plan {
    prompt: u32,
    len: usize,
    max_new: usize,
    profile: u8,
    seed: Option<u64>,
    end: u8,
    draft: bool,
    marks: Vec<usize>,
    /// Cancelled from outside at some moment.
    cancel: bool,
}

fn plan() -> impl Strategy<Value = Plan> {
    let shape = (0u32..3, 1usize..70, 0usize..40, 0u8..3, prop::option::of(0u64..3));
    let rest = (
        0u8..5,
        prop::bool::weighted(0.8),
        prop::collection::vec(1usize..70, 0..3),
        prop::bool::weighted(0.15),
    );
    (shape, rest).prop_map(|((prompt, len, max_new, profile, seed), (end, draft, marks, cancel))| Plan {
        prompt,
        len,
        max_new,
        profile,
        seed,
        end,
        draft,
        marks,
        cancel,
    })
}

impl Plan {
    fn request(&self) -> Request {
        let sampling = [Sampling::greedy(), warm(0), filtered(0)][self.profile as usize].clone();
        // Prompts of one number are prefixes of each other, so kept states meet.
        let mut request = sampled(prompt(self.prompt, self.len), self.max_new, sampling, self.seed);
        request.draft = self.draft;
        request.marks = self.marks.clone();
        request.report = Report { logprobs: (self.end == 1).then_some(2), prompt_logprobs: None };
        match self.end {
            1 => request.stop_tokens = vec![5, 17, 33],
            2 => request.text = Box::new(Words::with_stops(&["a", "bc", "def", "zz"])),
            3 => {
                request.text = Box::new(Words::thinking(38, 39));
                request.thinking = Some(ThinkingBudget { tokens: 7, close: 39 });
            }
            4 => request.text = Box::new(Words::bound(Bound::new(4, 23))),
            _ => {}
        }
        request
    }
}

fn rule() -> impl Strategy<Value = Rule> {
    let skip = prop::sample::select(vec![Skip::On, Skip::Off]);
    let joint = prop::sample::select(vec![Joint::Together, Joint::Separate]);
    prop_oneof![
        (0usize..8).prop_map(|depth| Rule::Static { depth }),
        (0usize..8, skip, joint).prop_map(|(cap, skip, joint)| Rule::Cost { cap, skip, joint }),
    ]
}

fn fake() -> impl Strategy<Value = FakeConfig> {
    let shape = (1usize..=8, 1usize..40, 1usize..20);
    let right = prop::collection::vec(0usize..=5, 1..6);
    let repeat = prop::option::of((4usize..9).prop_map(|period| Repeat { period, strength: 7.0 }));
    (shape, right, repeat).prop_map(|((slots, window_rows, piece_rows), right, repeat)| FakeConfig {
        info: TargetInfo { slots, window_rows, piece_rows, ..FakeConfig::default().info },
        right,
        repeat,
    })
}

/// `TOKENFARE_EXACT=full` asks for the widest matrix.
fn cases() -> ProptestConfig {
    let full = std::env::var("TOKENFARE_EXACT").is_ok_and(|v| v == "full");
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if full { 4000 } else { 96 }) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn exact_in_any_mix_of_drafts_streams_pieces_and_states(
        fake in fake(),
        rule in rule(),
        oracle in prop::option::of(any::<u64>()),
        (plain_streams, copied_rows, lookup_min) in (0usize..4, 2usize..17, 1usize..9),
        (piece_rows, piece_share) in (1usize..20, 0u32..=100),
        budget in prop::sample::select(vec![0usize, 300, 2000, 1 << 20]),
        lost in prop::collection::vec((any::<bool>(), 0usize..6), 0..3),
        plans in prop::collection::vec(plan(), 1..14),
    ) {
        let depth = DepthConfig { rule, copied_rows, plain_streams, ..DepthConfig::default() };
        let oracle = oracle.map(|seed| Box::new(RandomDepth { seed }) as Box<_>);
        let settings = LanesConfig {
            depth, lookup_min, piece_rows, piece_share, oracle, prompt_cache_bytes: budget, ..config()
        };
        let (lanes, probe) = start(fake.clone(), settings);
        for (restore, number) in lost {
            probe.fault(if restore { Call::Restore } else { Call::Save }, number, Fault::Error);
        }
        let handle = lanes.handle();
        let replies: Vec<Reply> = plans.iter().map(|plan| submit(&handle, plan.request())).collect();
        for (plan, reply) in plans.iter().zip(&replies) {
            if plan.cancel {
                reply.cancel();
            }
        }
        let mut known = HashMap::new();
        for (plan, reply) in plans.iter().zip(replies) {
            let found = collect(reply);
            let expected = known.entry(format!("{plan:?}")).or_insert_with(|| serial(&fake, plan.request()));
            if plan.cancel && found.finish == Some(Finish::Cancelled) {
                prop_assert!(expected.ids.starts_with(&found.ids));
            } else {
                prop_assert!(found.same_reply(expected), "{:?}\nfound    {:?}\nexpected {:?}", plan, found, expected);
            }
        }
        prop_assert!(handle.stats().cache_bytes <= budget);
        drop(lanes);
        prop_assert_eq!((probe.occupied(), probe.violations()), (0, vec![]));
    }
}
