//! Lines of the accept log.

use crate::{CostTable, DepthConfig, Rule, RuleError, SamplingClass, Source, TableError};
use serde::{Deserialize, Serialize};

/// The format that this build writes and reads.
pub const FORMAT: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Record {
    /// An engine starts; what was learnt before is forgotten.
    Start(LoggedStart),
    /// The depths of a round.
    Choose(LoggedChoice),
    /// What became of one window.
    Commit(LoggedCommit),
    /// The end of a round.
    Round(LoggedEnd),
}

/// What rounds are chosen by from here on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoggedStart {
    /// Format of the lines that follow: [`FORMAT`].
    pub format: u32,
    /// Short name of the rule.
    pub rule: String,
    /// Most rows of a window whose drafts are copied.
    pub copied_rows: usize,
    /// Live streams from which shared rounds draft nothing; 0 is never.
    pub plain_streams: usize,
    /// Most rows of one launch.
    pub row_cap: usize,
    /// Drafts of one drafter pass.
    pub block: usize,
    /// One round in so many is explored; 0 is none.
    pub explore: u64,
    /// The prices.
    pub table: Prices,
}

impl LoggedStart {
    /// The record of an engine that starts now.
    pub fn new(config: &DepthConfig, table: &CostTable, block: usize, explore: u64) -> Self {
        Self {
            format: FORMAT,
            rule: config.rule.to_string(),
            copied_rows: config.copied_rows,
            plain_streams: config.plain_streams,
            row_cap: config.row_cap,
            block,
            explore,
            table: Prices::from(table),
        }
    }

    /// How depths were chosen.
    ///
    /// # Errors
    /// A rule without such a name.
    pub fn config(&self) -> Result<DepthConfig, RuleError> {
        let rule: Rule = self.rule.parse()?;
        let Self { copied_rows, plain_streams, row_cap, .. } = *self;
        Ok(DepthConfig { rule, copied_rows, plain_streams, row_cap })
    }
}

/// A cost table as it is written: the fields of [`CostTable::new`], in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// Entry `r - 1`: a window of `r` rows.
    pub verify: Vec<f64>,
    /// One drafter pass.
    pub draft: f64,
    /// Each further stream in one launch.
    pub slot: f64,
}

impl Prices {
    /// The table of these prices.
    ///
    /// # Errors
    /// Numbers that make no table.
    pub fn table(&self) -> Result<CostTable, TableError> {
        CostTable::new(&self.verify, self.draft, self.slot)
    }
}

impl From<&CostTable> for Prices {
    fn from(table: &CostTable) -> Self {
        Self { verify: table.verify().to_vec(), draft: table.draft_ms(), slot: table.slot_ms() }
    }
}

/// A round before its launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoggedChoice {
    /// Number of the round since the start.
    pub r: u64,
    /// Seconds on the engine's clock.
    pub t: f64,
    /// Windows in the launch.
    pub windows: usize,
    /// Rows in all.
    pub rows: usize,
    /// Rows of windows that hold no drafts.
    pub others: usize,
    /// Every window.
    pub asks: Vec<LoggedAsk>,
}

/// One window's choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoggedAsk {
    /// The lane.
    pub slot: usize,
    /// Number of the request, in order of admission.
    pub req: u64,
    /// How its tokens are drawn.
    pub class: SamplingClass,
    /// Whose drafts are verified.
    pub kind: Source,
    /// Position of the pending token.
    pub start: usize,
    /// Most drafts allowed.
    pub most: usize,
    /// Drafts verified.
    pub k: usize,
    /// Whether the depth was not the rule's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub explored: bool,
    /// Length of the match that a copy continues; 0 for the drafter's drafts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub matched: usize,
    /// Tokens a millisecond that rows were priced at.
    pub lambda: f64,
    /// Confidence of each of the drafter's drafts, also where a copy is verified.
    pub conf: Vec<f64>,
    /// Probability of each draft of `kind` as priced.
    pub q: Vec<f64>,
}

/// What became of one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoggedCommit {
    /// Number of the round.
    pub r: u64,
    /// Seconds on the engine's clock.
    pub t: f64,
    /// The lane.
    pub slot: usize,
    /// Rows verified.
    pub rows: usize,
    /// Tokens committed.
    pub keep: usize,
    /// Drafts verified.
    pub drafted: usize,
    /// Drafts that equalled the target's tokens, from the first on.
    pub accepted: usize,
    /// Where all verified drafts were kept: whether the next of the drafter's, unverified, equalled the last token too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<bool>,
    /// Whether the reply ended.
    pub finished: bool,
    /// Tokens of the reply so far.
    pub generated: usize,
    /// Most tokens of the reply.
    pub max_new: usize,
}

/// The end of a round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoggedEnd {
    /// Number of the round.
    pub r: u64,
    /// Milliseconds that it took.
    pub ms: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(record: &Record) -> String {
        serde_json::to_string(record).unwrap()
    }

    #[test]
    fn records_are_short_lines_that_read_back() {
        let ask = LoggedAsk {
            slot: 1,
            req: 7,
            class: SamplingClass::Cool,
            kind: Source::Drafter,
            start: 40,
            most: 2,
            k: 1,
            explored: false,
            matched: 0,
            lambda: 0.05,
            conf: vec![0.1 + 0.2, 0.5],
            q: vec![0.25, 0.5],
        };
        let choice = LoggedChoice { r: 3, t: 0.5, windows: 1, rows: 2, others: 0, asks: vec![ask] };
        let choose = Record::Choose(choice);
        let expected = concat!(
            r#"{"event":"choose","r":3,"t":0.5,"windows":1,"rows":2,"others":0,"asks":[{"slot":1,"req":7,"#,
            r#""class":"cool","kind":"dspark","start":40,"most":2,"k":1,"lambda":0.05,"#,
            r#""conf":[0.30000000000000004,0.5],"q":[0.25,0.5]}]}"#
        );
        assert_eq!(line(&choose), expected);
        let commit = Record::Commit(LoggedCommit {
            r: 3,
            t: 0.625,
            slot: 1,
            rows: 2,
            keep: 2,
            drafted: 1,
            accepted: 1,
            beyond: Some(false),
            finished: true,
            generated: 9,
            max_new: 9,
        });
        let start = Record::Start(LoggedStart::new(&DepthConfig::default(), &CostTable::built_in(), 5, 16));
        let end = Record::Round(LoggedEnd { r: 3, ms: 12.5 });
        assert_eq!(line(&end), r#"{"event":"round","r":3,"ms":12.5}"#);
        for record in [choose, commit, start, end] {
            assert_eq!(serde_json::from_str::<Record>(&line(&record)).unwrap(), record);
        }
    }

    #[test]
    fn a_start_names_rule_and_table() {
        let start = LoggedStart::new(&DepthConfig::default(), &CostTable::built_in(), 5, 0);
        assert_eq!(
            (start.config(), start.table.table()),
            (Ok(DepthConfig::default()), Ok(CostTable::built_in()))
        );
        let other = LoggedStart { rule: "price".into(), ..start };
        assert!(other.config().is_err());
    }
}
