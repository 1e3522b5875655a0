//! Requests that wait for a lane.

use crate::Priority;
use std::collections::VecDeque;

/// A bounded queue: foreground before background, each in order of arrival.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    limit: usize,
    foreground: VecDeque<T>,
    background: VecDeque<T>,
}

impl<T> Queue<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, foreground: VecDeque::new(), background: VecDeque::new() }
    }

    /// Adds at the end of its class; gives the item back when the queue is full.
    pub(crate) fn push(&mut self, priority: Priority, item: T) -> Result<(), T> {
        if self.len() >= self.limit {
            return Err(item);
        }
        match priority {
            Priority::Foreground => self.foreground.push_back(item),
            Priority::Background => self.background.push_back(item),
        }
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.foreground.pop_front().or_else(|| self.background.pop_front())
    }

    pub(crate) fn len(&self) -> usize {
        self.foreground.len() + self.background.len()
    }

    /// Takes out every item that `gone` holds for.
    pub(crate) fn remove(&mut self, mut gone: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        for class in [&mut self.foreground, &mut self.background] {
            for item in std::mem::take(class) {
                if gone(&item) { removed.push(item) } else { class.push_back(item) }
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Priority::{Background, Foreground};

    #[test]
    fn foreground_goes_first_in_order_of_arrival() {
        let mut q = Queue::new(4);
        for (priority, item) in [(Background, 'a'), (Foreground, 'b'), (Background, 'c'), (Foreground, 'd')] {
            assert_eq!(q.push(priority, item), Ok(()));
        }
        assert_eq!(q.push(Foreground, 'e'), Err('e'));
        let order: String = std::iter::from_fn(|| q.pop()).collect();
        assert_eq!(order, "bdac");
        assert_eq!(q.len(), 0);
    }

    #[test]
    fn removed_items_make_room() {
        let mut q = Queue::new(3);
        for item in 1..=3 {
            assert_eq!(q.push(Background, item), Ok(()));
        }
        assert_eq!(q.remove(|i| i % 2 == 1), [1, 3]);
        assert_eq!((q.len(), q.push(Foreground, 9)), (1, Ok(())));
        assert_eq!((q.pop(), q.pop(), q.pop()), (Some(9), Some(2), None));
    }
}
