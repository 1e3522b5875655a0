//! Which stored table fits a start.

use std::fmt;

/// The id of a table whose maker named none.
pub const NO_ID: &str = "0";

/// What a table was measured for. As text, `slots=4 world=1 dspark=1 context=4096`: part of a stored table's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableShape {
    /// Streams held at once.
    pub slots: usize,
    /// Processes that share the model.
    pub world: usize,
    /// Whether the drafter runs.
    pub dspark: bool,
    /// Positions of a stream.
    pub context: usize,
}

impl fmt::Display for TableShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slots, world, dspark, context } = self;
        write!(f, "slots={slots} world={world} dspark={} context={context}", u8::from(*dspark))
    }
}

/// A stored table as far as the choice depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// What it was measured for.
    pub shape: TableShape,
    /// Whose it is.
    pub id: &'a str,
    /// Entries of its row times.
    pub rows: usize,
    /// When it was made, in any unit that grows with time.
    pub made: u64,
}

/// Which of the tables that fit is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference {
    /// The closest shape, then the newest.
    Closest,
    /// The newest.
    Newest,
}

/// What a start asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Its shape.
    pub shape: TableShape,
    /// Its identity; [`NO_ID`] takes tables of any.
    pub id: &'a str,
}

impl Wanted<'_> {
    /// How well a table fits: 0 not at all, else 1, and 2 more for as many slots, and 1 more for the same context.
    ///
    /// A table fits with the same id and world, at least as many slots, the drafter alike, and two rows or more.
    pub fn rank(&self, table: &Candidate<'_>) -> u32 {
        let (found, shape) = (table.shape, self.shape);
        let fits = (self.id == NO_ID || table.id == self.id)
            && found.world == shape.world
            && found.slots >= shape.slots
            && found.dspark == shape.dspark
            && table.rows >= 2;
        if !fits {
            return 0;
        }
        1 + 2 * u32::from(found.slots == shape.slots) + u32::from(found.context == shape.context)
    }

    /// The number of the table to read, the first of equals; `None` when none fits.
    pub fn choose(&self, tables: &[Candidate<'_>], preference: Preference) -> Option<usize> {
        let mut best: Option<((u32, u64), usize)> = None;
        for (number, table) in tables.iter().enumerate() {
            let rank = self.rank(table);
            let key = match preference {
                Preference::Closest => (rank, table.made),
                Preference::Newest => (rank.min(1), table.made),
            };
            if rank > 0 && best.is_none_or(|(kept, _)| key > kept) {
                best = Some((key, number));
            }
        }
        best.map(|(_, number)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const SHAPE: TableShape = TableShape { slots: 2, world: 1, dspark: true, context: 4096 };
    const TABLE: Candidate<'static> = Candidate { shape: SHAPE, id: "a", rows: 16, made: 10 };
    const WANTED: Wanted<'static> = Wanted { shape: SHAPE, id: "a" };

    fn shaped(slots: usize, context: usize, made: u64) -> Candidate<'static> {
        Candidate { shape: TableShape { slots, context, ..SHAPE }, made, ..TABLE }
    }

    #[test]
    fn the_shape_as_text() {
        assert_eq!(SHAPE.to_string(), "slots=2 world=1 dspark=1 context=4096");
    }

    #[rstest]
    #[case(TABLE, 4)]
    #[case(shaped(2, 8, 0), 3)]
    #[case(shaped(3, 4096, 0), 2)]
    #[case(shaped(3, 8, 0), 1)]
    #[case(shaped(1, 4096, 0), 0)]
    #[case(Candidate { id: "b", ..TABLE }, 0)]
    #[case(Candidate { id: NO_ID, ..TABLE }, 0)]
    #[case(Candidate { rows: 1, ..TABLE }, 0)]
    #[case(Candidate { shape: TableShape { world: 2, ..SHAPE }, ..TABLE }, 0)]
    #[case(Candidate { shape: TableShape { dspark: false, ..SHAPE }, ..TABLE }, 0)]
    fn ranks(#[case] table: Candidate<'_>, #[case] rank: u32) {
        assert_eq!(WANTED.rank(&table), rank);
    }

    #[test]
    fn the_closest_then_the_newest_or_the_newest_outright() {
        let tables =
            [shaped(3, 8, 99), shaped(2, 8, 5), shaped(2, 8, 7), shaped(2, 8, 7), shaped(1, 4096, 500)];
        assert_eq!(WANTED.choose(&tables, Preference::Closest), Some(2));
        assert_eq!(WANTED.choose(&tables, Preference::Newest), Some(0));
        assert_eq!(WANTED.choose(&tables[4..], Preference::Newest), None);
        assert_eq!(WANTED.choose(&[], Preference::Closest), None);
    }

    #[test]
    fn a_start_without_an_identity_takes_any() {
        let any = Wanted { id: NO_ID, ..WANTED };
        assert_eq!(any.choose(&[Candidate { id: "b", ..TABLE }], Preference::Closest), Some(0));
        assert_eq!(any.rank(&shaped(1, 4096, 0)), 0);
    }
}
