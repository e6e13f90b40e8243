//! The bounded-window merge: queues captured in parallel become one stream in order of time.

use std::collections::VecDeque;

/// Merges the items of several queues by their timestamps while they arrive.
///
/// An item leaves when nothing older can come any more: every other queue holds an item at least as new, or has said by
/// [`WindowMerge::watermark`] that it is past that time. The window is bounded by its user, who calls
/// [`WindowMerge::force_pop`] when [`WindowMerge::len`] or the age of [`WindowMerge::oldest`] is too large; an item that
/// comes after a newer one has left is passed on at once and counted in [`WindowMerge::violations`].
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
