//! The bounded-window merge: queues captured in parallel become one stream in order of time.

use std::collections::VecDeque;

/// Merges the items of several queues by their timestamps while they arrive.
///
/// An item leaves when nothing older can come any more: every other queue holds an item at least
/// as new, or has said by [`WindowMerge::watermark`] that it is past that time. The window is
/// bounded by its user, who calls [`WindowMerge::force_pop`] when [`WindowMerge::len`] or the age of
/// [`WindowMerge::oldest`] is too large; an item that comes after a newer one has left is passed on
/// at once and counted in [`WindowMerge::violations`].
///
/// Items of one queue that arrive out of order are put in order if they are still in the window. Of the items in the
/// window with equal time, those of a lower queue number leave first, and within a queue those that arrived first.
pub struct WindowMerge<T> {
    queues: Vec<VecDeque<(u64, T)>>,
    /// Timestamp of each queue's first item; `u64::MAX` if it has none.
    heads: Vec<u64>,
    /// Watermark of each queue.
    marks: Vec<u64>,
    /// Watermark of each queue that is empty; `u64::MAX` for others. What the window waits for is their minimum.
    waits: Vec<u64>,
    len: usize,
    /// Newest timestamp that left.
    passed: u64,
    violations: u64,
    /// The queue that gave the last item, and a time up to which it may go on without looking at the others.
    run: (usize, u64),
}

impl<T> WindowMerge<T> {
    /// A merge of `queues` queues, numbered from 0. No queue has a watermark yet.
    #[must_use]
    pub fn new(queues: usize) -> Self {
        Self {
            queues: (0..queues).map(|_| VecDeque::new()).collect(),
            heads: vec![u64::MAX; queues],
            marks: vec![0; queues],
            waits: vec![0; queues],
            len: 0,
            passed: 0,
            violations: 0,
            run: (0, 0),
        }
    }

    /// Adds an item. One of a queue that does not exist is given back.
    ///
    /// # Errors
    /// There is no such queue.
    #[inline]
    pub fn push(&mut self, queue: usize, timestamp: u64, item: T) -> Result<(), T> {
        let (Some(items), Some(head), Some(wait)) =
            (self.queues.get_mut(queue), self.heads.get_mut(queue), self.waits.get_mut(queue))
        else {
            return Err(item);
        };
        match items.back() {
            Some((newest, _)) if *newest > timestamp => {
                let place = items.partition_point(|(other, _)| *other <= timestamp);
                items.insert(place, (timestamp, item));
                if place == 0 {
                    *head = timestamp;
                    self.run = (queue, 0);
                }
            }
            Some(_) => items.push_back((timestamp, item)),
            None => {
                items.push_back((timestamp, item));
                *head = timestamp;
                *wait = u64::MAX;
                // Only an item older than its queue's watermark could be older than what the run was measured by.
                if timestamp < self.run.1 {
                    self.run.1 = 0;
                }
            }
        }
        self.len += 1;
        Ok(())
    }

    /// Promises that `queue` will bring nothing older than `timestamp`; `u64::MAX` when it is finished.
    #[inline]
    pub fn watermark(&mut self, queue: usize, timestamp: u64) {
        let (Some(mark), Some(items), Some(wait)) =
            (self.marks.get_mut(queue), self.queues.get(queue), self.waits.get_mut(queue))
        else {
            return;
        };
        *mark = timestamp.max(*mark);
        if items.is_empty() {
            *wait = *mark;
        }
    }

    /// The next item in order of time, if it is certain that none before it can come.
    #[inline]
    pub fn pop_ready(&mut self) -> Option<T> {
        let (queue, limit) = self.run;
        if let Some(&head) = self.heads.get(queue)
            && head < limit
        {
            return self.take(queue);
        }
        self.pop(false)
    }

    /// The oldest item, whether or not an older one can still come.
    pub fn force_pop(&mut self) -> Option<T> {
        self.pop(true)
    }

    /// Items in the window.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the window is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Timestamp of the oldest item in the window.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        (self.len > 0).then(|| self.heads.iter().copied().min()).flatten()
    }

    /// Time up to which everything has left that was promised: nothing older can come, unless as a violation.
    #[must_use]
    pub fn horizon(&self) -> u64 {
        let pairs = self.heads.iter().zip(&self.waits);
        pairs.map(|(head, wait)| *head.min(wait)).min().unwrap_or(u64::MAX)
    }

    /// Items that left after a newer one.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.violations
    }

    fn pop(&mut self, force: bool) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        // One pass: the queue with the oldest head, the next oldest head, and what the empty queues wait for.
        let (mut queue, mut head, mut second, mut wait) = (0, u64::MAX, u64::MAX, u64::MAX);
        let mut found = false;
        for (index, (&candidate, &waits)) in self.heads.iter().zip(&self.waits).enumerate() {
            wait = wait.min(waits);
            if candidate < head {
                (second, head, queue, found) = (head, candidate, index, true);
            } else {
                second = second.min(candidate);
            }
        }
        if !found {
            // Only timestamps of u64::MAX are left, which look like empty queues.
            queue = self.queues.iter().position(|items| !items.is_empty())?;
        }
        if !force && head > wait && head >= self.passed {
            return None;
        }
        self.run = (queue, second.min(wait));
        self.take(queue)
    }

    #[inline]
    fn take(&mut self, queue: usize) -> Option<T> {
        let items = self.queues.get_mut(queue)?;
        let (timestamp, item) = items.pop_front()?;
        let next = items.front().map(|(next, _)| *next);
        if let (Some(head), Some(wait), Some(mark)) =
            (self.heads.get_mut(queue), self.waits.get_mut(queue), self.marks.get_mut(queue))
        {
            *head = next.unwrap_or(u64::MAX);
            // What has left was a promise too, unless it was late.
            *mark = timestamp.max(*mark);
            *wait = if next.is_none() { *mark } else { u64::MAX };
        }
        self.len -= 1;
        if timestamp < self.passed {
            self.violations += 1;
        } else {
            self.passed = timestamp;
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn waits_for_every_queue() {
        let mut merge = WindowMerge::new(3);
        merge.push(0, 10, 'a').unwrap();
        merge.push(1, 20, 'b').unwrap();
        assert_eq!(merge.pop_ready(), None, "queue 2 may still bring something older");
        merge.watermark(2, 9);
        assert_eq!(merge.pop_ready(), None);
        merge.watermark(2, 10);
        assert_eq!(merge.horizon(), 10);
        assert_eq!(merge.pop_ready(), Some('a'));
        assert_eq!(merge.pop_ready(), None, "queue 0 has promised 10 only");
        merge.watermark(0, u64::MAX);
        merge.watermark(2, u64::MAX);
        assert_eq!(merge.pop_ready(), Some('b'));
        assert_eq!((merge.pop_ready(), merge.violations(), merge.len()), (None, 0, 0));
        assert_eq!(merge.push(3, 1, 'x'), Err('x'));
        merge.watermark(3, 1);
    }

    #[test]
    fn late_items_leave_at_once_and_are_counted() {
        let mut merge = WindowMerge::new(2);
        merge.push(0, 10, 'a').unwrap();
        merge.push(0, 30, 'c').unwrap();
        assert_eq!((merge.oldest(), merge.force_pop()), (Some(10), Some('a')));
        merge.push(1, 5, 'l').unwrap();
        assert_eq!((merge.pop_ready(), merge.violations()), (Some('l'), 1));
        assert_eq!(merge.pop_ready(), None, "30 still waits for queue 1");
        // Out of order within a queue, but in time.
        merge.push(0, 20, 'b').unwrap();
        merge.watermark(1, 100);
        assert_eq!([merge.pop_ready(), merge.pop_ready()], [Some('b'), Some('c')]);
        assert_eq!((merge.violations(), merge.force_pop()), (1, None));
        merge.push(0, u64::MAX, 'z').unwrap();
        assert_eq!((merge.pop_ready(), merge.len()), (None, 1));
        assert_eq!(merge.force_pop(), Some('z'));
    }

    proptest! {
        /// Queues that keep their promises come out sorted, whole and as early as possible.
        #[test]
        fn equals_a_sort(
            steps in proptest::collection::vec((0..5usize, 0..4u64, 0..4u8), 0..300),
        ) {
            let mut merge = WindowMerge::new(5);
            let mut clocks = [0u64; 5];
            let (mut pushed, mut popped) = (Vec::new(), Vec::new());
            for (number, (queue, gap, action)) in steps.into_iter().enumerate() {
                clocks[queue] += gap;
                match action {
                    0 => merge.watermark(queue, clocks[queue]),
                    _ => {
                        pushed.push((clocks[queue], queue, number));
                        merge.push(queue, clocks[queue], (clocks[queue], queue, number)).unwrap();
                    }
                }
                while let Some(item) = merge.pop_ready() {
                    popped.push(item);
                }
                prop_assert_eq!(merge.len(), pushed.len() - popped.len());
                if let Some(oldest) = merge.oldest() {
                    // Whatever is left waits for an empty queue that is behind it.
                    prop_assert!(merge.waits.iter().any(|wait| *wait < oldest));
                }
            }
            for queue in 0..5 {
                merge.watermark(queue, u64::MAX);
            }
            while let Some(item) = merge.pop_ready() {
                popped.push(item);
            }
            prop_assert_eq!(merge.violations(), 0);
            prop_assert!(popped.is_sorted_by_key(|(time, ..)| *time));
            for queue in 0..5 {
                prop_assert!(popped.iter().filter(|item| item.1 == queue).is_sorted_by_key(|item| item.2));
            }
            popped.sort_unstable();
            pushed.sort_unstable();
            prop_assert_eq!(popped, pushed);
        }

        /// Whatever comes, nothing is lost, and violations are the items that leave after a newer one.
        #[test]
        fn anything_is_conserved(
            steps in proptest::collection::vec((0..4usize, 0..50u64, 0..6u8), 0..300),
        ) {
            let mut merge = WindowMerge::new(4);
            let (mut pushed, mut popped) = (0, Vec::new());
            for (queue, time, action) in steps {
                match action {
                    0 => merge.watermark(queue, time),
                    1 => popped.extend(merge.force_pop()),
                    2 | 3 => popped.extend(merge.pop_ready()),
                    _ => {
                        merge.push(queue, time, time).unwrap();
                        pushed += 1;
                    }
                }
            }
            while let Some(time) = merge.force_pop() {
                popped.push(time);
            }
            prop_assert_eq!(popped.len(), pushed);
            let mut newest = 0;
            let mut late = 0;
            for time in popped {
                late += u64::from(time < newest);
                newest = newest.max(time);
            }
            prop_assert_eq!(merge.violations(), late);
        }
    }
}
