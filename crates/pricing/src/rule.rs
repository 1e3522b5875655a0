//! The rules that choose depths, and their short names.

use std::fmt;
use std::str::FromStr;

/// Deepest draft that a rule can be named with.
const DEEPEST: usize = 15;

/// The rule that chooses a depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The depth that is worth most at the cost table's prices.
    Cost {
        /// Most drafts of a drafter's window; 0 verifies no drafts at all, copies included.
        cap: usize,
        /// Whether a lone window may verify none.
        skip: Skip,
        /// How windows of one launch are priced.
        joint: Joint,
    },
    /// Always the same depth.
    Static {
        /// Drafts of every window that holds as many; 0 verifies no drafts at all, copies included.
        depth: usize,
    },
}

impl Rule {
    /// Most drafts of a drafter's window.
    pub fn cap(self) -> usize {
        match self {
            Self::Cost { cap, .. } => cap,
            Self::Static { depth } => depth,
        }
    }
}

/// Whether a lone window may verify no draft when none pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// It may.
    On,
    /// It verifies at least one of the drafts it holds.
    Off,
}

/// How windows of one launch are priced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// All together: rows go to the likeliest drafts of any stream.
    Together,
    /// Each as if it were alone.
    Separate,
}

/// The rule's short name, which [`Rule::from_str`] reads back: `cost:5`, `cost:5,skip-off,joint-0` or `static:3`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Static { depth } => write!(f, "static:{depth}"),
            Self::Cost { cap, skip, joint } => {
                write!(f, "cost:{cap}")?;
                if skip == Skip::Off {
                    write!(f, ",skip-off")?;
                }
                if joint == Joint::Separate {
                    write!(f, ",joint-0")?;
                }
                Ok(())
            }
        }
    }
}

/// A text that names no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?}: expected cost[:CAP][,skip-off][,joint-0] or static[:K], with CAP and K from 0 to {DEEPEST}")]
pub struct RuleError(String);

impl FromStr for Rule {
    type Err = RuleError;

    /// Reads a short name; without a number the cap is 5 and the fixed depth 3.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        let refused = || RuleError(text.to_owned());
        let mut words = text.trim().split(',');
        let head = words.next().unwrap_or_default();
        let (name, number) = head.split_once(':').map_or((head, None), |(name, n)| (name, Some(n)));
        let number =
            number.map(|n| n.parse().ok().filter(|&n| n <= DEEPEST).ok_or_else(refused)).transpose()?;
        let mut rule = match name {
            "cost" => Self::Cost { cap: number.unwrap_or(5), skip: Skip::On, joint: Joint::Together },
            "static" => Self::Static { depth: number.unwrap_or(3) },
            _ => return Err(refused()),
        };
        for word in words {
            match (word, &mut rule) {
                ("skip-off", Self::Cost { skip, .. }) => *skip = Skip::Off,
                ("joint-0", Self::Cost { joint, .. }) => *joint = Joint::Separate,
                _ => return Err(refused()),
            }
        }
        Ok(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("cost", "cost:5")]
    #[case("cost:8", "cost:8")]
    #[case(" cost:0,skip-off ", "cost:0,skip-off")]
    #[case("cost,joint-0,skip-off", "cost:5,skip-off,joint-0")]
    #[case("static", "static:3")]
    #[case("static:15", "static:15")]
    fn short_names_read_back(#[case] text: &str, #[case] name: &str) {
        let rule: Rule = text.parse().unwrap();
        assert_eq!(rule.to_string(), name);
        assert_eq!(name.parse(), Ok(rule));
    }

    #[rstest]
    fn other_words_are_refused(
        #[values(
            "",
            "price",
            "cost:",
            "cost:16",
            "static:-1",
            "static,skip-off",
            "cost,joint-1",
            "cost:5:5"
        )]
        text: &str,
    ) {
        let error = text.parse::<Rule>().unwrap_err();
        let expected = "expected cost[:CAP][,skip-off][,joint-0] or static[:K], with CAP and K from 0 to 15";
        assert_eq!(error.to_string(), format!("{text:?}: {expected}"));
    }
}
