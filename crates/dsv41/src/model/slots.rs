//! Host bookkeeping of the streams: their tokens, and which positions the rings still hold.

/// Positions `low..end` that a ring holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Span {
    pub low: usize,
    pub end: usize,
}

impl Span {
    /// Rows `start..end` go into a ring of `ring` rows; they replace whatever stood at `start` and beyond.
    pub fn write(&mut self, start: usize, end: usize, ring: usize) {
        if start < self.low || start > self.end {
            self.low = start;
        }
        self.low = self.low.max(end.saturating_sub(ring));
        self.end = end;
    }

    /// Positions from `len` on are forgotten.
    pub fn keep(&mut self, len: usize) {
        self.low = self.low.min(len);
        self.end = self.end.min(len);
    }
}

/// One lane's stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Slot {
    /// Tokens of all positions. After a restore, those that no hash can look back to are zeros.
    pub tokens: Vec<u32>,
    /// Window rows.
    pub window: Span,
    /// Drafter context rows.
    pub context: Span,
}

impl Slot {
    /// Whether tokens can be fed at `start`: without a gap, and without reaching back beyond the ring.
    pub fn check(&self, start: usize, window: usize) -> Result<(), String> {
        if start > self.tokens.len() {
            return Err(format!("position {start} is fed, expected at most {}", self.tokens.len()));
        }
        let needed = start.saturating_sub(window - 1);
        if start > 0 && needed < self.window.low {
            let low = self.window.low;
            return Err(format!("position {start} needs rows from {needed} on, kept from {low} on"));
        }
        Ok(())
    }

    /// Takes tokens at `start..`, where [`Self::check`] allows it.
    pub fn feed(&mut self, start: usize, tokens: &[u32], ring: usize) {
        self.tokens.truncate(start);
        self.tokens.extend_from_slice(tokens);
        self.window.write(start, self.tokens.len(), ring);
    }

    /// Forgets positions from `len` on.
    pub fn keep(&mut self, len: usize) {
        self.tokens.truncate(len);
        self.window.keep(len);
        self.context.keep(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_holds_its_last_rows() {
        let mut span = Span::default();
        span.write(0, 10, 24);
        assert_eq!(span, Span { low: 0, end: 10 });
        span.write(10, 30, 24);
        assert_eq!(span, Span { low: 6, end: 30 });
        span.keep(20);
        assert_eq!(span, Span { low: 6, end: 20 });
        span.write(20, 21, 24);
        assert_eq!(span, Span { low: 6, end: 21 });
    }

    #[test]
    fn a_gap_or_a_restart_drops_what_stood_before() {
        let mut span = Span { low: 6, end: 30 };
        span.write(40, 42, 24);
        assert_eq!(span, Span { low: 40, end: 42 });
        span.write(0, 5, 24);
        assert_eq!(span, Span { low: 0, end: 5 });
    }

    #[test]
    fn feeding_refuses_gaps_and_lost_rows() {
        let mut slot = Slot::default();
        assert_eq!(slot.check(1, 4).unwrap_err(), "position 1 is fed, expected at most 0");
        for start in (0..20).step_by(4) {
            slot.check(start, 4).unwrap();
            slot.feed(start, &[1, 2, 3, 4], 8);
        }
        assert_eq!(slot.window, Span { low: 12, end: 20 });
        assert_eq!(slot.check(14, 4).unwrap_err(), "position 14 needs rows from 11 on, kept from 12 on");
        slot.keep(17);
        slot.check(16, 4).unwrap();
        slot.feed(16, &[9, 9], 8);
        assert_eq!((slot.tokens.len(), slot.window), (18, Span { low: 12, end: 18 }));
        slot.check(0, 4).unwrap();
        slot.feed(0, &[5], 8);
        assert_eq!((slot.tokens.as_slice(), slot.window), ([5].as_slice(), Span { low: 0, end: 1 }));
    }
}
