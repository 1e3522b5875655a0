//! The exactness contract as a suite that any model can run.

use super::{Collected, RandomDepth, collect, run};
use crate::{Drafter, Drafts, Finish, Lanes, LanesConfig, LanesHandle, Request, Target};
use std::fmt;
use tokenfare_pricing::{CostTable, DepthConfig, Joint, Rule, Skip};

/// How many ways of serving are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breadth {
    /// One way of each kind.
    Covering,
    /// Every way.
    Full,
}

impl Breadth {
    /// The ways to try of all of one kind, the most telling one last.
    fn of<T>(self, all: &[T]) -> &[T] {
        match self {
            Self::Covering => &all[all.len() - 1..],
            Self::Full => all,
        }
    }
}

/// Requests whose replies must not depend on how they are served.
pub struct Workload {
    /// Builds each request anew.
    pub requests: Vec<Box<dyn Fn() -> Request>>,
}

/// Two replies that should be the same.
#[derive(Debug, Clone)]
pub struct Mismatch {
    /// How the request was served.
    pub served: String,
    /// Which request of the workload.
    pub request: usize,
    /// Served alone, undrafted, whole and uncached.
    pub expected: Box<Collected>,
    /// As served.
    pub found: Box<Collected>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { served, request, expected, found } = self;
        write!(f, "{served}: request {request} differs:\nexpected {expected:?}\nfound    {found:?}")
    }
}

impl std::error::Error for Mismatch {}

/// How many replies were compared, and what the comparisons rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compared {
    /// Replies that equalled their serial ones.
    pub replies: usize,
    /// Drafts verified in them.
    pub drafted: usize,
    /// Drafts kept in them.
    pub accepted: usize,
    /// Copied drafts verified in them.
    pub copied: usize,
    /// Prompt tokens that were resumed.
    pub cached: usize,
}

struct Suite<'a, F> {
    model: F,
    workload: &'a Workload,
    serial: Vec<Collected>,
    compared: Compared,
    table: &'a CostTable,
}

impl<M: Target + Drafter, F: Fn() -> M> Suite<'_, F> {
    fn start(&self, config: LanesConfig) -> Result<Lanes, Box<dyn std::error::Error>> {
        Ok(Lanes::start((self.model)(), LanesConfig { table: self.table.clone(), ..config })?)
    }

    /// Serves every request alone, without drafts, whole and uncached: what every other way must equal.
    fn serial(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let lanes = self.start(undrafted(uncached()))?;
        self.serial = self.workload.requests.iter().map(|make| run(&lanes.handle(), make())).collect();
        let failed = self.serial.iter().find_map(|reply| match &reply.finish {
            Some(Finish::Failed(words)) => Some(words.clone()),
            _ => None,
        });
        failed.map_or(Ok(()), |words| Err(words.into()))
    }

    fn compare(&mut self, served: &str, request: usize, found: Collected) -> Result<(), Mismatch> {
        let expected = &self.serial[request];
        if !expected.same_reply(&found) {
            return Err(Mismatch {
                served: served.to_owned(),
                request,
                expected: Box::new(expected.clone()),
                found: Box::new(found),
            });
        }
        self.compared.replies += 1;
        self.compared.drafted += found.stats.drafted;
        self.compared.accepted += found.stats.accepted;
        self.compared.copied += found.stats.copied.0;
        self.compared.cached += found.stats.cached_tokens;
        Ok(())
    }

    /// One request after the other.
    fn alone(&mut self, served: &str, lanes: &LanesHandle) -> Result<(), Mismatch> {
        for i in 0..self.workload.requests.len() {
            let found = run(lanes, (self.workload.requests[i])());
            self.compare(served, i, found)?;
        }
        Ok(())
    }

    /// `streams` at a time, submitted together.
    fn together(&mut self, served: &str, lanes: &LanesHandle, streams: usize) -> Result<(), Mismatch> {
        let all: Vec<usize> = (0..self.workload.requests.len()).collect();
        for group in all.chunks(streams) {
            let submit = |&i: &usize| {
                let valid = (self.workload.requests[i])().validate(lanes.info());
                valid.ok().and_then(|valid| lanes.submit(valid).ok())
            };
            let replies: Vec<_> = group.iter().map(submit).collect();
            for (&i, reply) in group.iter().zip(replies) {
                self.compare(served, i, reply.map(collect).unwrap_or_default())?;
            }
        }
        Ok(())
    }
}

fn uncached() -> LanesConfig {
    LanesConfig { prompt_cache_bytes: 0, ..LanesConfig::default() }
}

fn undrafted(config: LanesConfig) -> LanesConfig {
    LanesConfig { drafts: Drafts::Off, ..config }
}

fn with_rule(rule: Rule) -> LanesConfig {
    LanesConfig { depth: DepthConfig { rule, ..DepthConfig::default() }, ..uncached() }
}

/// Serves every request of the workload alone, without drafts, whole and uncached, then in every other way, and
/// compares the replies: static depths 0 to 5, the priced rule with each setting, copies, depths at random, 2 to 8
/// streams at once, prompts in pieces of 1 to 7 tokens, and prompts resumed from kept states.
///
/// `model` makes a model with nothing in it.
///
/// # Errors
///
/// The first [`Mismatch`], or what kept the engine from starting.
pub fn exactness<M: Target + Drafter>(
    model: impl Fn() -> M,
    workload: &Workload,
    breadth: Breadth,
) -> Result<Compared, Box<dyn std::error::Error>> {
    exactness_priced(model, workload, breadth, &CostTable::built_in())
}

/// [`exactness`] with every round priced by `table`.
///
/// # Errors
///
/// The first [`Mismatch`], or what kept the engine from starting.
pub fn exactness_priced<M: Target + Drafter>(
    model: impl Fn() -> M,
    workload: &Workload,
    breadth: Breadth,
    table: &CostTable,
) -> Result<Compared, Box<dyn std::error::Error>> {
    let mut suite = Suite { model, workload, serial: Vec::new(), compared: Compared::default(), table };
    suite.serial()?;
    for &depth in breadth.of(&[0, 1, 2, 3, 4, 5]) {
        let lanes = suite.start(with_rule(Rule::Static { depth }))?;
        suite.alone(&format!("static depth {depth}"), &lanes.handle())?;
        suite.together(&format!("static depth {depth}, 3 streams"), &lanes.handle(), 3)?;
    }
    for &(skip, joint) in
        breadth.of(&[(Skip::On, Joint::Separate), (Skip::Off, Joint::Together), (Skip::On, Joint::Together)])
    {
        let lanes = suite.start(with_rule(Rule::Cost { cap: 5, skip, joint }))?;
        suite.alone(&format!("cost, {skip:?}, {joint:?}"), &lanes.handle())?;
        suite.together(&format!("cost, {skip:?}, {joint:?}, 4 streams"), &lanes.handle(), 4)?;
    }
    for &lookup_min in breadth.of(&[64, 1]) {
        let lanes = suite.start(LanesConfig { lookup_min, ..uncached() })?;
        suite.alone(&format!("copies from {lookup_min}"), &lanes.handle())?;
        suite.together(&format!("copies from {lookup_min}, 8 streams"), &lanes.handle(), 8)?;
    }
    for &seed in breadth.of(&[0, 1, 2]) {
        let lanes =
            suite.start(LanesConfig { oracle: Some(Box::new(RandomDepth { seed })), ..uncached() })?;
        for &streams in breadth.of(&[1, 2, 6, 7, 5]) {
            suite.together(&format!("random depths {seed}, {streams} streams"), &lanes.handle(), streams)?;
        }
    }
    for &(piece_rows, piece_share) in breadth.of(&[(1, 0), (2, 25), (3, 100), (7, 25)]) {
        let lanes = suite.start(LanesConfig { piece_rows, piece_share, ..uncached() })?;
        suite.alone(&format!("pieces of {piece_rows}"), &lanes.handle())?;
        suite.together(&format!("pieces of {piece_rows}, 4 streams"), &lanes.handle(), 4)?;
    }
    let lanes = suite.start(LanesConfig::default())?;
    for served in ["kept states, first", "kept states, again"] {
        suite.alone(served, &lanes.handle())?;
        suite.together(&format!("{served}, 4 streams"), &lanes.handle(), 4)?;
    }
    Ok(suite.compared)
}

/// [`exactness`] for long prompts, each way fed few times: whole prompts against pieces of each of `pieces` rows
/// without drafts, drafts at the full depth over whole prompts, priced drafts and copies in shared rounds, and prompts
/// resumed from the kept state of their first three quarters, then from their own.
///
/// # Errors
///
/// The first [`Mismatch`], or what kept the engine from starting.
pub fn exactness_of_prompts<M: Target + Drafter>(
    model: impl Fn() -> M,
    workload: &Workload,
    pieces: &[usize],
) -> Result<Compared, Box<dyn std::error::Error>> {
    let table = &CostTable::built_in();
    let mut suite = Suite { model, workload, serial: Vec::new(), compared: Compared::default(), table };
    suite.serial()?;
    for &piece_rows in pieces {
        let lanes = suite.start(undrafted(LanesConfig { piece_rows, ..uncached() }))?;
        suite.alone(&format!("pieces of {piece_rows}, no drafts"), &lanes.handle())?;
    }
    let lanes = suite.start(with_rule(Rule::Static { depth: 5 }))?;
    suite.alone("static depth 5", &lanes.handle())?;
    let lanes = suite.start(LanesConfig { lookup_min: 1, ..uncached() })?;
    suite.together("cost, copies from 1, 8 streams", &lanes.handle(), 8)?;
    let lanes = suite.start(LanesConfig::default())?;
    for make in &workload.requests {
        let mut start = make();
        start.prompt.truncate((start.prompt.len() * 3 / 4).max(1));
        start.max_new = 1;
        run(&lanes.handle(), start);
    }
    suite.alone("resumed from a part", &lanes.handle())?;
    suite.alone("resumed from the whole", &lanes.handle())?;
    Ok(suite.compared)
}
