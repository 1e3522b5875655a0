//! Which windows a measurement times.

use std::fmt;

/// Rows of a prompt that is fed before the windows.
pub const PROMPT_ROWS: usize = 2;
/// Rows of one stream's longest window.
pub const WINDOW_ROWS: usize = 16;
/// Rows of each window of the launch that gives the slot term.
const PAIR_ROWS: usize = 4;
/// Rows that a lone stream's windows of drafts have: always timed, never joined.
pub const LONE_ROWS: usize = 6;
/// Timed beyond those: the rest of a stream's longest window, and two streams' launches.
const FURTHER_ROWS: [usize; 4] = [8, 16, 17, 32];

/// What a model can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Streams held at once.
    pub slots: usize,
    /// Positions of a stream.
    pub context: usize,
    /// Rows of one launch of windows.
    pub window_rows: usize,
    /// Rows beyond which a launch is dearer by a step; the row after it is timed, so that no join crosses it.
    pub launch_bound: usize,
}

/// One launch of windows in slots 0, 1, ...
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Launch {
    /// So many rows: windows of 16, and one of the rest.
    Rows(usize),
    /// Two windows of four rows.
    Pair,
}

/// One window of as many rows as the pair has.
pub const PAIR_AS_ONE: Launch = Launch::Rows(2 * PAIR_ROWS);

impl Launch {
    /// Rows of the window in each slot.
    pub fn windows(self) -> Vec<usize> {
        match self {
            Self::Pair => vec![PAIR_ROWS; 2],
            Self::Rows(rows) => {
                let full = std::iter::repeat_n(WINDOW_ROWS, rows / WINDOW_ROWS);
                full.chain(Some(rows % WINDOW_ROWS).filter(|&rest| rest > 0)).collect()
            }
        }
    }

    fn fits(self, room: &Room) -> bool {
        let windows = self.windows();
        let (rows, longest) = (windows.iter().sum::<usize>(), windows.iter().copied().max().unwrap_or(0));
        windows.len() <= room.slots && rows <= room.window_rows && PROMPT_ROWS + longest <= room.context
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "{rows}"),
            Self::Pair => write!(f, "{PAIR_ROWS}+{PAIR_ROWS}"),
        }
    }
}

/// The row counts that a model with this room is timed at, ascending. A device whose plan is another one (more slots, row
/// buckets of its own) gets another list here; the order and the rules stay.
pub fn timed_rows(room: &Room) -> Vec<usize> {
    let mut rows: Vec<usize> = (1..=LONE_ROWS).chain(FURTHER_ROWS).collect();
    // One lane's table ends with its longest window; further rows go on by slope.
    rows.retain(|&r| Launch::Rows(r).fits(room));
    let edge = room.launch_bound.max(1) + 1;
    if rows.last().is_some_and(|&last| edge < last) && !rows.contains(&edge) {
        rows.push(edge);
        rows.sort_unstable();
    }
    rows
}

/// The launch of the slot term, where it and the window of as many rows that it is held against fit.
pub fn pair(room: &Room) -> Option<Launch> {
    Some(Launch::Pair).filter(|pair| pair.fits(room) && PAIR_AS_ONE.fits(room))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const ROOM: Room = Room { slots: 4, context: 4096, window_rows: 64, launch_bound: 16 };

    #[rstest]
    #[case(ROOM, &[1, 2, 3, 4, 5, 6, 8, 16, 17, 32])]
    #[case(Room { slots: 1, ..ROOM }, &[1, 2, 3, 4, 5, 6, 8, 16])]
    #[case(Room { launch_bound: 8, ..ROOM }, &[1, 2, 3, 4, 5, 6, 8, 9, 16, 17, 32])]
    #[case(Room { launch_bound: 20, ..ROOM }, &[1, 2, 3, 4, 5, 6, 8, 16, 17, 21, 32])]
    #[case(Room { launch_bound: 256, ..ROOM }, &[1, 2, 3, 4, 5, 6, 8, 16, 17, 32])]
    #[case(Room { launch_bound: 3, ..ROOM }, &[1, 2, 3, 4, 5, 6, 8, 16, 17, 32])]
    #[case(Room { window_rows: 24, ..ROOM }, &[1, 2, 3, 4, 5, 6, 8, 16, 17])]
    #[case(Room { window_rows: 16, ..ROOM }, &[1, 2, 3, 4, 5, 6, 8, 16])]
    #[case(Room { context: 9, ..ROOM }, &[1, 2, 3, 4, 5, 6])]
    #[case(Room { context: 17, ..ROOM }, &[1, 2, 3, 4, 5, 6, 8])]
    #[case(Room { context: 4, ..ROOM }, &[1, 2])]
    #[case(Room { context: 2, ..ROOM }, &[])]
    fn what_is_timed_follows_the_room(#[case] room: Room, #[case] rows: &[usize]) {
        assert_eq!(timed_rows(&room), rows);
    }

    #[test]
    fn launches_are_windows_of_sixteen_and_the_rest() {
        assert_eq!(Launch::Rows(5).windows(), [5]);
        assert_eq!(Launch::Rows(16).windows(), [16]);
        assert_eq!(Launch::Rows(17).windows(), [16, 1]);
        assert_eq!(Launch::Rows(32).windows(), [16, 16]);
        assert_eq!(Launch::Rows(33).windows(), [16, 16, 1]);
        assert_eq!(Launch::Pair.windows(), [4, 4]);
        assert_eq!((pair(&ROOM), pair(&Room { slots: 1, ..ROOM })), (Some(Launch::Pair), None));
        assert_eq!(pair(&Room { window_rows: 7, ..ROOM }), None);
        assert_eq!(pair(&Room { context: 9, ..ROOM }), None);
    }
}
