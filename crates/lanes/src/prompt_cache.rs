//! Kept prompt states by token prefix.

use crate::SavedState;

/// Names an entry for as long as it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EntryId(u64);

#[derive(Debug)]
struct Entry {
    id: EntryId,
    tokens: Vec<u32>,
    state: SavedState,
    last_used: u64,
    /// Live streams that resumed from it.
    users: usize,
}

impl Entry {
    fn bytes(&self) -> usize {
        entry_bytes(&self.tokens, &self.state)
    }
}

fn entry_bytes(tokens: &[u32], state: &SavedState) -> usize {
    state.bytes.len() + size_of_val(tokens)
}

/// What is known about a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The longest entry that is a prefix of the prompt and leaves a token to feed.
    Hit(EntryId, usize),
    /// None; the best candidate shares this many tokens with the prompt.
    Miss(usize),
}

/// What became of a state that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Insertion {
    pub(crate) kept: bool,
    pub(crate) evicted: usize,
}

/// Least recently used entries leave first, those that a longer entry extends before all others; entries in use stay.
#[derive(Debug)]
pub(crate) struct PromptCache {
    /// Most bytes; 0 keeps nothing.
    budget: usize,
    bytes: usize,
    entries: Vec<Entry>,
    tick: u64,
}

impl PromptCache {
    pub(crate) fn new(budget: usize) -> Self {
        Self { budget, bytes: 0, entries: Vec::new(), tick: 0 }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.budget > 0
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn lookup(&self, prompt: &[u32]) -> Lookup {
        let usable = |e: &&Entry| e.tokens.len() < prompt.len() && prompt.starts_with(&e.tokens);
        match self.entries.iter().filter(usable).max_by_key(|e| e.tokens.len()) {
            Some(entry) => Lookup::Hit(entry.id, entry.tokens.len()),
            None => Lookup::Miss(self.entries.iter().map(|e| shared(&e.tokens, prompt)).max().unwrap_or(0)),
        }
    }

    /// Marks an entry as used by one more stream and gives its state.
    pub(crate) fn acquire(&mut self, id: EntryId) -> Option<&SavedState> {
        self.tick += 1;
        let entry = self.entries.iter_mut().find(|e| e.id == id)?;
        entry.last_used = self.tick;
        entry.users += 1;
        Some(&entry.state)
    }

    pub(crate) fn release(&mut self, id: EntryId) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.id == id) {
            entry.users -= 1;
        }
    }

    pub(crate) fn remove(&mut self, id: EntryId) {
        if let Some(index) = self.entries.iter().position(|e| e.id == id) {
            self.bytes -= self.entries.swap_remove(index).bytes();
        }
    }

    /// Whether exactly these tokens are kept; if so they count as used now.
    pub(crate) fn touch(&mut self, tokens: &[u32]) -> bool {
        self.tick += 1;
        let entry = self.entries.iter_mut().find(|e| e.tokens == tokens);
        entry.map(|e| e.last_used = self.tick).is_some()
    }

    /// Keeps a state, evicting others as needed; a state that cannot fit evicts nothing.
    pub(crate) fn insert(&mut self, tokens: &[u32], state: SavedState) -> Insertion {
        let bytes = entry_bytes(tokens, &state);
        let in_use: usize = self.entries.iter().filter(|e| e.users > 0).map(Entry::bytes).sum();
        if self.touch(tokens) || in_use + bytes > self.budget {
            return Insertion { kept: false, evicted: 0 };
        }
        let id = EntryId(self.tick);
        self.entries.push(Entry { id, tokens: tokens.to_vec(), state, last_used: self.tick, users: 0 });
        self.bytes += bytes;
        let mut evicted = 0;
        while self.bytes > self.budget
            && let Some(victim) = self.victim(id)
        {
            self.remove(victim);
            evicted += 1;
        }
        Insertion { kept: true, evicted }
    }

    fn victim(&self, newest: EntryId) -> Option<EntryId> {
        let extended = |e: &Entry| {
            self.entries.iter().any(|o| o.tokens.len() > e.tokens.len() && o.tokens.starts_with(&e.tokens))
        };
        let free = self.entries.iter().filter(|e| e.users == 0 && e.id != newest);
        free.min_by_key(|e| (!extended(e), e.last_used)).map(|e| e.id)
    }
}

/// Length of the common prefix.
fn shared(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(len: usize, bytes: usize) -> SavedState {
        SavedState { len, bytes: vec![0; bytes] }
    }

    /// Adds an entry of `100` bytes in all.
    fn add(cache: &mut PromptCache, tokens: &[u32]) -> Insertion {
        cache.insert(tokens, state(tokens.len(), 100 - 4 * tokens.len()))
    }

    const KEPT: Insertion = Insertion { kept: true, evicted: 0 };
    const EVICTED_ONE: Insertion = Insertion { kept: true, evicted: 1 };
    const REFUSED: Insertion = Insertion { kept: false, evicted: 0 };

    fn hit(cache: &PromptCache, prompt: &[u32]) -> usize {
        match cache.lookup(prompt) {
            Lookup::Hit(_, len) => len,
            Lookup::Miss(_) => 0,
        }
    }

    #[test]
    fn the_longest_prefix_that_leaves_a_token_is_found() {
        let mut cache = PromptCache::new(1000);
        for tokens in [&[1, 2][..], &[1, 2, 3, 4], &[1, 2, 3], &[7]] {
            assert_eq!(add(&mut cache, tokens), KEPT);
        }
        assert_eq!(hit(&cache, &[1, 2, 3, 4]), 3);
        assert_eq!(hit(&cache, &[1, 2, 3, 4, 5]), 4);
        assert_eq!(hit(&cache, &[7, 8]), 1);
        assert_eq!(cache.lookup(&[7]), Lookup::Miss(1));
        assert_eq!(cache.lookup(&[9]), Lookup::Miss(0));
        assert_eq!(cache.bytes(), 400);
    }

    #[test]
    fn a_miss_says_where_the_best_candidate_diverged() {
        let mut cache = PromptCache::new(1000);
        add(&mut cache, &[1, 2, 3, 4, 5]);
        add(&mut cache, &[1, 9]);
        assert_eq!(cache.lookup(&[1, 2, 3, 9, 9, 9]), Lookup::Miss(3));
    }

    #[test]
    fn least_recently_used_goes_first() {
        let mut cache = PromptCache::new(300);
        for tokens in [[1], [2], [3]] {
            add(&mut cache, &tokens);
        }
        assert!(cache.touch(&[1]));
        assert_eq!(add(&mut cache, &[4]), EVICTED_ONE);
        let left = [1, 2, 3, 4].map(|t| hit(&cache, &[t, 0]));
        assert_eq!(left, [1, 0, 1, 1]);
    }

    #[test]
    fn entries_that_a_longer_one_extends_go_before_older_ones() {
        let mut cache = PromptCache::new(300);
        add(&mut cache, &[9]);
        add(&mut cache, &[1]);
        add(&mut cache, &[1, 2]);
        assert_eq!(add(&mut cache, &[5]), EVICTED_ONE);
        assert_eq!([hit(&cache, &[9, 0]), hit(&cache, &[1, 0]), hit(&cache, &[1, 2, 0])], [1, 0, 2]);
        add(&mut cache, &[1, 2, 3]);
        assert_eq!([hit(&cache, &[9, 0]), hit(&cache, &[5, 0]), hit(&cache, &[1, 2, 0])], [1, 1, 0]);
    }

    #[test]
    fn entries_in_use_stay() {
        let mut cache = PromptCache::new(200);
        add(&mut cache, &[1]);
        add(&mut cache, &[2]);
        let Lookup::Hit(first, 1) = cache.lookup(&[1, 0]) else { panic!("kept") };
        assert_eq!(cache.acquire(first), Some(&state(1, 96)));
        cache.touch(&[2]);
        assert_eq!(add(&mut cache, &[3]), EVICTED_ONE);
        assert_eq!([hit(&cache, &[1, 0]), hit(&cache, &[2, 0])], [1, 0]);
        let Lookup::Hit(third, 1) = cache.lookup(&[3, 0]) else { panic!("kept") };
        cache.acquire(third);
        assert_eq!(add(&mut cache, &[4]), REFUSED);
        cache.release(first);
        assert_eq!(add(&mut cache, &[4]), EVICTED_ONE);
        assert_eq!(hit(&cache, &[1, 0]), 0);
    }

    #[test]
    fn a_state_over_the_budget_evicts_nothing() {
        let mut cache = PromptCache::new(150);
        add(&mut cache, &[1]);
        assert_eq!(cache.insert(&[2], state(1, 200)), REFUSED);
        assert_eq!((cache.len(), cache.bytes()), (1, 100));
        let Lookup::Hit(id, 1) = cache.lookup(&[1, 2]) else { panic!("kept") };
        cache.remove(id);
        assert_eq!((cache.len(), cache.bytes()), (0, 0));
        assert!(!PromptCache::new(0).is_on());
    }
}
