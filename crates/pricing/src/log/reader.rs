//! Reading an accept log line by line.

use crate::log::{FORMAT, LoggedChoice, LoggedCommit, LoggedStart, Record};
use std::fmt;

/// One round with all that is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedRound {
    /// The choices.
    pub choice: LoggedChoice,
    /// What became of its windows; a window whose stream failed has none.
    pub commits: Vec<LoggedCommit>,
    /// Milliseconds that it took.
    pub ms: f64,
}

/// What a line completes.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// An engine started.
    Start(LoggedStart),
    /// A round ended.
    Round(LoggedRound),
}

/// A line that is no part of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct LogError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub cause: String,
}

/// Something left out that takes nothing from the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// A line that was cut short when its writer died.
    Torn {
        /// Number of the line, from 1.
        line: usize,
    },
    /// A round without an end.
    Unfinished {
        /// Number of the round since its start.
        round: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn { line } => write!(f, "line {line} is cut short and left out"),
            Self::Unfinished { round } => write!(f, "round {round} has no end and is left out"),
        }
    }
}

/// Puts rounds together from lines. A line that does not parse is accepted where a writer may have died: before a
/// `start` record and at the end.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    line: usize,
    started: bool,
    open: Option<LoggedRound>,
    torn: Option<LogError>,
    warnings: Vec<Warning>,
}

impl Reader {
    /// A reader before the first line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next line, without its end; says what it completes.
    ///
    /// # Errors
    /// A line that belongs to no log of this format.
    pub fn line(&mut self, text: &str) -> Result<Option<Item>, LogError> {
        self.line += 1;
        if text.trim().is_empty() {
            return Ok(None);
        }
        let record = serde_json::from_str(text);
        if let Some(torn) = self.torn.take() {
            if !matches!(record, Ok(Record::Start(_))) {
                return Err(torn);
            }
            self.warnings.push(Warning::Torn { line: torn.line });
        }
        match record {
            Ok(record) => self.record(record),
            Err(cause) => {
                self.torn = Some(self.error(cause.to_string()));
                Ok(None)
            }
        }
    }

    /// Ends the log; gives what was left out of it.
    pub fn finish(mut self) -> Vec<Warning> {
        self.drop_open();
        self.warnings.extend(self.torn.map(|torn| Warning::Torn { line: torn.line }));
        self.warnings
    }

    fn error(&self, cause: String) -> LogError {
        LogError { line: self.line, cause }
    }

    fn drop_open(&mut self) {
        self.warnings.extend(self.open.take().map(|open| Warning::Unfinished { round: open.choice.r }));
    }

    fn record(&mut self, record: Record) -> Result<Option<Item>, LogError> {
        if !self.started && !matches!(record, Record::Start(_)) {
            return Err(self.error("a record before any start".into()));
        }
        match record {
            Record::Start(start) => {
                if start.format != FORMAT {
                    return Err(self.error(format!("format {}, expected {FORMAT}", start.format)));
                }
                self.drop_open();
                self.started = true;
                Ok(Some(Item::Start(start)))
            }
            Record::Choose(choice) => {
                self.drop_open();
                self.open = Some(LoggedRound { choice, commits: Vec::new(), ms: 0.0 });
                Ok(None)
            }
            Record::Commit(commit) => {
                let (line, r) = (self.line, commit.r);
                let open = self.open.as_mut().filter(|open| open.choice.r == r);
                let asked = |open: &&mut LoggedRound| open.choice.asks.iter().any(|a| a.slot == commit.slot);
                let cause =
                    || format!("a commit of slot {} in round {r}, which chose nothing for it", commit.slot);
                open.filter(asked).ok_or_else(|| LogError { line, cause: cause() })?.commits.push(commit);
                Ok(None)
            }
            Record::Round(end) => match self.open.take().filter(|open| open.choice.r == end.r) {
                Some(open) => Ok(Some(Item::Round(LoggedRound { ms: end.ms, ..open }))),
                None => Err(self.error(format!("the end of round {}, which has not begun", end.r))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LoggedEnd;
    use crate::{CostTable, DepthConfig};
    use proptest::prelude::*;

    fn start() -> String {
        let start = LoggedStart::new(&DepthConfig::default(), &CostTable::built_in(), 5, 0);
        serde_json::to_string(&Record::Start(start)).unwrap()
    }

    fn choose(r: u64) -> String {
        format!(
            r#"{{"event":"choose","r":{r},"t":0.1,"windows":1,"rows":1,"others":1,"asks":[{{"slot":0,"req":1,"class":"greedy","kind":"dspark","start":4,"most":0,"k":0,"lambda":0.1,"conf":[],"q":[]}}]}}"#
        )
    }

    fn commit(r: u64, slot: usize) -> String {
        format!(
            r#"{{"event":"commit","r":{r},"t":0.2,"slot":{slot},"rows":1,"keep":1,"drafted":0,"accepted":0,"finished":false,"generated":2,"max_new":9}}"#
        )
    }

    fn end(r: u64) -> String {
        serde_json::to_string(&Record::Round(LoggedEnd { r, ms: 2.5 })).unwrap()
    }

    fn read(lines: &[String]) -> Result<(Vec<Item>, Vec<Warning>), LogError> {
        let mut reader = Reader::new();
        let items: Vec<Option<Item>> = lines.iter().map(|l| reader.line(l)).collect::<Result<_, _>>()?;
        Ok((items.into_iter().flatten().collect(), reader.finish()))
    }

    fn refusal(lines: &[String]) -> String {
        read(lines).unwrap_err().to_string()
    }

    #[test]
    fn rounds_are_put_together() {
        let (items, warnings) = read(&[start(), choose(1), commit(1, 0), end(1), String::new()]).unwrap();
        assert!(warnings.is_empty());
        let [Item::Start(_), Item::Round(round)] = &items[..] else { panic!("{items:?}") };
        assert_eq!((round.choice.r, round.commits.len(), round.ms), (1, 1, 2.5));
    }

    #[test]
    fn torn_lines_are_left_out_where_a_writer_died() {
        let torn = choose(2)[..60].to_owned();
        let (items, warnings) = read(&[start(), choose(1), end(1), torn.clone()]).unwrap();
        assert_eq!((items.len(), &warnings[..]), (2, &[Warning::Torn { line: 4 }][..]));
        let again = [start(), choose(1), torn.clone(), start(), choose(1), end(1)];
        let (items, warnings) = read(&again).unwrap();
        assert_eq!(items.len(), 3);
        assert_eq!(warnings, [Warning::Torn { line: 3 }, Warning::Unfinished { round: 1 }]);
        assert!(refusal(&[start(), torn, choose(3)]).starts_with("line 2: "));
    }

    #[test]
    fn what_is_no_log_is_named_by_line() {
        assert_eq!(refusal(&[choose(1)]), "line 1: a record before any start");
        let other = start().replace(r#""format":1"#, r#""format":2"#);
        assert_eq!(refusal(&[other]), "line 1: format 2, expected 1");
        let expected = "line 3: a commit of slot 4 in round 1, which chose nothing for it";
        assert_eq!(refusal(&[start(), choose(1), commit(1, 4)]), expected);
        let expected = "line 2: the end of round 9, which has not begun";
        assert_eq!(refusal(&[start(), end(9)]), expected);
    }

    proptest! {
        #[test]
        fn a_log_cut_anywhere_reads_back_up_to_the_cut(rounds in 1u64..6, cut in 0.0f64..1.0) {
            let rounds = (1..=rounds).flat_map(|r| [choose(r), commit(r, 0), end(r)]);
            let text: String = [start()].into_iter().chain(rounds).map(|l| l + "\n").collect();
            let least = start().len() + 1;
            let at = least + ((text.len() - least) as f64 * cut) as usize;
            let lines: Vec<String> = text[..at].lines().map(String::from).collect();
            let whole = text[..at].matches(r#""ms""#).count();
            let (items, warnings) = read(&lines).unwrap();
            prop_assert!(items.len() == 1 + whole || items.len() == whole);
            prop_assert!(warnings.len() <= 2);
        }
    }
}
