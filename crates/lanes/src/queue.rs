//! Requests that wait for a lane.

use crate::Priority;
use std::collections::VecDeque;

/// Whom a request is for, as far as fairness goes: an opaque number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ClientId(pub u64);

/// Waiting items of one class: clients take turns, each client's items go in order of arrival.
#[derive(Debug)]
struct Class<T> {
    turns: VecDeque<(ClientId, VecDeque<T>)>,
}

impl<T> Class<T> {
    fn new() -> Self {
        Self { turns: VecDeque::new() }
    }

    fn push(&mut self, client: ClientId, item: T) {
        match self.turns.iter_mut().find(|(id, _)| *id == client) {
            Some((_, items)) => items.push_back(item),
            None => self.turns.push_back((client, VecDeque::from([item]))),
        }
    }

    fn pop(&mut self) -> Option<T> {
        let (client, mut items) = self.turns.pop_front()?;
        let item = items.pop_front();
        if !items.is_empty() {
            self.turns.push_back((client, items));
        }
        item
    }

    fn len(&self) -> usize {
        self.turns.iter().map(|(_, items)| items.len()).sum()
    }

    fn remove(&mut self, gone: &mut impl FnMut(&T) -> bool, removed: &mut Vec<T>) {
        for (_, items) in &mut self.turns {
            for item in std::mem::take(items) {
                if gone(&item) { removed.push(item) } else { items.push_back(item) }
            }
        }
        self.turns.retain(|(_, items)| !items.is_empty());
    }
}

/// A bounded queue: foreground before background; within a class clients take turns.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    limit: usize,
    foreground: Class<T>,
    background: Class<T>,
}

impl<T> Queue<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, foreground: Class::new(), background: Class::new() }
    }

    /// Adds behind the client's own items of its class; gives the item back when the queue is full.
    pub(crate) fn push(&mut self, priority: Priority, client: ClientId, item: T) -> Result<(), T> {
        if self.len() >= self.limit {
            return Err(item);
        }
        match priority {
            Priority::Foreground => self.foreground.push(client, item),
            Priority::Background => self.background.push(client, item),
        }
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.foreground.pop().or_else(|| self.background.pop())
    }

    pub(crate) fn len(&self) -> usize {
        self.foreground.len() + self.background.len()
    }

    /// Takes out every item that `gone` holds for.
    pub(crate) fn remove(&mut self, mut gone: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        self.foreground.remove(&mut gone, &mut removed);
        self.background.remove(&mut gone, &mut removed);
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Priority::{Background, Foreground};

    const ONE: ClientId = ClientId(1);

    #[test]
    fn foreground_goes_first_in_order_of_arrival() {
        let mut q = Queue::new(4);
        for (priority, item) in [(Background, 'a'), (Foreground, 'b'), (Background, 'c'), (Foreground, 'd')] {
            assert_eq!(q.push(priority, ONE, item), Ok(()));
        }
        assert_eq!(q.push(Foreground, ONE, 'e'), Err('e'));
        let order: String = std::iter::from_fn(|| q.pop()).collect();
        assert_eq!(order, "bdac");
        assert_eq!(q.len(), 0);
    }

    #[test]
    fn clients_of_a_class_take_turns() {
        let mut q = Queue::new(16);
        for (client, item) in [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'p'), (3, 'x'), (2, 'q'), (1, 'd')] {
            assert_eq!(q.push(Foreground, ClientId(client), item), Ok(()));
        }
        let order: String = std::iter::from_fn(|| q.pop()).collect();
        assert_eq!(order, "apxbqcd");
    }

    #[test]
    fn a_client_that_comes_back_waits_its_turn() {
        let mut q = Queue::new(16);
        for item in ['a', 'b'] {
            assert_eq!(q.push(Foreground, ClientId(1), item), Ok(()));
        }
        assert_eq!(q.pop(), Some('a'));
        assert_eq!(q.push(Foreground, ClientId(2), 'x'), Ok(()));
        assert_eq!(q.push(Foreground, ClientId(1), 'c'), Ok(()));
        let order: String = std::iter::from_fn(|| q.pop()).collect();
        assert_eq!(order, "bxc");
    }

    #[test]
    fn removed_items_make_room() {
        let mut q = Queue::new(3);
        for item in 1..=3 {
            assert_eq!(q.push(Background, ONE, item), Ok(()));
        }
        assert_eq!(q.remove(|i| i % 2 == 1), [1, 3]);
        assert_eq!((q.len(), q.push(Foreground, ClientId(2), 9)), (1, Ok(())));
        assert_eq!((q.pop(), q.pop(), q.pop()), (Some(9), Some(2), None));
    }
}
