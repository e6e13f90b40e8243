//! The list of chunks returned to a pool.
//!
//! A stack of chunk indices: any thread pushes a chain with one compare-and-swap, and the owner
//! takes the whole stack with one swap. No thread pops single elements, so a stack that changed and
//! changed back is equivalent to an unchanged one: there is no ABA problem.
#![allow(unsafe_code)]

use crate::sync::{AtomicU64, CachePadded, Ordering, UnsafeCell};

/// The state word: `closed:1 | count:31 | first:32`. With the count, the thread that returns the
/// last chunk of a closed pool detects this in the same atomic operation.
const CLOSED: u64 = 1 << 63;
const ONE: u64 = 1 << 32;
const COUNT: u64 = CLOSED - ONE;
const FIRST: u64 = ONE - 1;

pub(super) struct Returns {
    state: CachePadded<AtomicU64>,
    /// For each chunk, the next one in its list.
    links: Box<[UnsafeCell<u32>]>,
}

// SAFETY: a link belongs to the owner of its chunk; `state` transfers chunks, with release on the
// giving and acquire on the taking side.
unsafe impl Sync for Returns {}
// SAFETY: as above.
unsafe impl Send for Returns {}

impl Returns {
    /// An empty list. The links chain all `chunks` from 0 on, as the owner's first free list.
    /// `None` if memory runs out.
    pub(super) fn new(chunks: u32) -> Option<Self> {
        let mut links = Vec::new();
        links.try_reserve_exact(chunks as usize).ok()?;
        links.extend((0..chunks).map(|index| UnsafeCell::new(index + 1)));
        Some(Self { state: CachePadded(AtomicU64::new(0)), links: links.into() })
    }

    /// The chunk after `index`. For the last chunk, the value is arbitrary.
    ///
    /// # Safety
    /// The caller owns the chunk `index`.
    #[inline(always)]
    pub(super) unsafe fn next(&self, index: u32) -> u32 {
        // SAFETY: the caller owns the chunk and so its link.
        self.links[index as usize].with(|link| unsafe { *link })
    }

    /// Returns `chunks`. True if the pool is closed and these were the last of its `size`.
    ///
    /// # Safety
    /// The caller owns the chunks, each once, and gives them up.
    #[inline]
    pub(super) unsafe fn give(&self, chunks: impl Iterator<Item = u32>, size: u32) -> bool {
        let (mut first, mut last, mut count) = (None, 0, 0u64);
        for index in chunks {
            match first {
                None => first = Some(index),
                // SAFETY: the caller owns it.
                Some(_) => unsafe { self.link(last, index) },
            }
            last = index;
            count += 1;
        }
        let Some(first) = first else { return false };
        // SAFETY: a chain of chunks that the caller owns.
        unsafe { self.push(first, last, count, 0, size) }
    }

    /// Takes all returned chunks: the first one, and their number.
    pub(super) fn take_all(&self) -> (u32, u32) {
        // Only the owner takes, and only the owner closes, so the closed bit is not set here.
        let state = if self.state.load(Ordering::Relaxed) & COUNT == 0 {
            0
        } else {
            self.state.swap(0, Ordering::Acquire)
        };
        ((state & FIRST) as u32, (state >> 32) as u32)
    }

    /// Puts the chain of `count` chunks from `first` on, which [`Returns::take_all`] returned,
    /// before the chain that starts with `then`.
    ///
    /// # Safety
    /// The caller owns both.
    pub(super) unsafe fn join(&self, first: u32, count: u32, then: u32) {
        // SAFETY: the caller owns the chain.
        unsafe {
            let last = self.last(first, count);
            self.link(last, then);
        }
    }

    /// The number of returned chunks that were not taken.
    pub(super) fn count(&self) -> u32 {
        ((self.state.load(Ordering::Relaxed) & COUNT) >> 32) as u32
    }

    /// Returns the free list of the owner, `count` chunks from `first` on, and closes the pool.
    /// True if no chunk of the pool's `size` is in use.
    ///
    /// # Safety
    /// The caller is the owner, of the list as well.
    pub(super) unsafe fn close(&self, first: u32, count: u32, size: u32) -> bool {
        if count == 0 {
            let before = self.state.fetch_or(CLOSED, Ordering::AcqRel);
            return (before & COUNT) >> 32 == u64::from(size);
        }
        // SAFETY: the caller owns the chain.
        unsafe {
            let last = self.last(first, count);
            self.push(first, last, u64::from(count), CLOSED, size)
        }
    }

    /// The last of a chain of `count` chunks.
    ///
    /// # Safety
    /// The caller owns the chain.
    unsafe fn last(&self, first: u32, count: u32) -> u32 {
        // SAFETY: by contract.
        (1..count).fold(first, |last, _| unsafe { self.next(last) })
    }

    /// Pushes a chain. True if the pool is closed and complete.
    ///
    /// # Safety
    /// The caller owns the chain and gives it up.
    #[inline]
    unsafe fn push(&self, first: u32, last: u32, count: u64, close: u64, size: u32) -> bool {
        let mut old = self.state.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller owns it until it is in front.
            unsafe { self.link(last, (old & FIRST) as u32) };
            let new = ((old & !FIRST) + count * ONE) | close | u64::from(first);
            // Acquire as well, because the thread that returns the last chunk frees memory that all
            // others have used.
            match self.state.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return new & !FIRST == CLOSED | (u64::from(size) * ONE),
                Err(now) => old = now,
            }
        }
    }

    /// # Safety
    /// The caller owns the chunk `index`.
    #[inline(always)]
    unsafe fn link(&self, index: u32, next: u32) {
        // SAFETY: the caller owns the chunk and so its link.
        self.links[index as usize].with_mut(|link| unsafe { *link = next });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::Arc;
    use loom::thread;

    /// Two threads give while the owner takes: every chunk arrives exactly once.
    #[test]
    fn loom_give_and_take() {
        loom::model(|| {
            let returns = Arc::new(Returns::new(3).unwrap());
            let givers: Vec<_> = [vec![0, 1], vec![2]]
                .into_iter()
                .map(|chunks| {
                    let returns = Arc::clone(&returns);
                    // SAFETY: only this thread has these chunks.
                    thread::spawn(move || unsafe {
                        assert!(!returns.give(chunks.into_iter(), 3));
                    })
                })
                .collect();
            let mut seen = [0; 3];
            let mut walk = |returns: &Returns| {
                let (mut at, count) = returns.take_all();
                for _ in 0..count {
                    seen[at as usize] += 1;
                    // SAFETY: it was taken.
                    at = unsafe { returns.next(at) };
                }
            };
            walk(&returns);
            givers.into_iter().for_each(|giver| giver.join().unwrap());
            walk(&returns);
            assert_eq!(seen, [1; 3]);
        });
    }

    /// The owner closes while two threads give their last chunks: exactly one of the three is last.
    #[test]
    fn loom_exactly_one_is_last() {
        loom::model(|| {
            let returns = Arc::new(Returns::new(3).unwrap());
            let givers: Vec<_> = [0, 1]
                .into_iter()
                .map(|chunk| {
                    let returns = Arc::clone(&returns);
                    // SAFETY: only this thread has this chunk.
                    thread::spawn(move || unsafe { returns.give(std::iter::once(chunk), 3) })
                })
                .collect();
            // SAFETY: the others have the chunks before it.
            let mut last = u32::from(unsafe { returns.close(2, 1, 3) });
            for giver in givers {
                last += u32::from(giver.join().unwrap());
            }
            assert_eq!(last, 1);
        });
    }
}
