//! Counts the users of the blocks of a mapped ring, and of the ring itself.
//!
//! Blocks are returned as a whole, but their packets are dropped one by one and on any thread. So
//! each block counts its users: one per packet, and the receiver while it reads the block. The last
//! user returns the block, exactly once, and then marks it as returned. Until then, one use remains
//! counted, so that the receiver cannot mistake the old contents for new ones. The ring counts its
//! users in the same way, but per *open block*, so packets alone do not change that count.

use crate::sync::{AtomicU32, CachePadded, Ordering};

/// The use that remains until the block has been returned.
const GIVING_BACK: u32 = 1;

/// The users of each block.
pub(crate) struct Blocks(Box<[CachePadded<AtomicU32>]>);

impl Blocks {
    /// `count` unused blocks.
    pub(crate) fn new(count: u32) -> Self {
        Self((0..count).map(|_| CachePadded(AtomicU32::new(0))).collect())
    }

    /// The receiver starts to read the unused `block` with `packets` packets. Its users are
    /// the packets and the receiver.
    #[inline]
    pub(crate) fn open(&self, block: usize, packets: u32) {
        // Threads that return packets got them from this thread, and so see this store.
        self.0[block].store(packets + 1 + GIVING_BACK, Ordering::Relaxed);
    }

    /// Removes `users` users of `block`. True if they were the last: the caller must return the
    /// block and then call [`Blocks::given_back`].
    #[inline]
    pub(crate) fn close(&self, block: usize, users: u32) -> bool {
        // Release: our accesses to the packets happen before. Acquire: the last user returns memory
        // that all others have used.
        self.0[block].fetch_sub(users, Ordering::AcqRel) == users + GIVING_BACK
    }

    /// Marks the block as returned, after its new owner has it.
    #[inline]
    pub(crate) fn given_back(&self, block: usize) {
        self.0[block].store(0, Ordering::Release);
    }

    /// Whether `block` is in use. If not, it has been returned.
    #[inline]
    pub(crate) fn in_use(&self, block: usize) -> bool {
        self.0[block].load(Ordering::Acquire) != 0
    }
}

/// The users of a ring: handles to it, and open blocks.
pub(crate) struct Users(AtomicU32);

impl Users {
    /// One user.
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(1))
    }

    /// Adds a user. The caller is a user, so the ring exists.
    #[inline]
    pub(crate) fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a user. True if it was the last: the caller must free the ring.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// These models check that the accesses to the cells are sound.
#[cfg(all(test, loom))]
#[allow(unsafe_code, clippy::undocumented_unsafe_blocks)]
mod loom_tests {
    use super::*;
    use crate::sync::{Arc, UnsafeCell};
    use loom::thread;

    const KERNEL: u32 = 0;
    const USER: u32 = 1;

    /// One ring of one block, with the block's status word, its bytes, and counts of releases and
    /// frees.
    struct Model {
        blocks: Blocks,
        users: Users,
        status: AtomicU32,
        bytes: [UnsafeCell<u32>; 2],
        released: AtomicU32,
        freed: AtomicU32,
    }

    // SAFETY: loom checks every access to the cells.
    unsafe impl Sync for Model {}
    // SAFETY: as above.
    unsafe impl Send for Model {}

    impl Model {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                blocks: Blocks::new(1),
                users: Users::new(),
                status: AtomicU32::new(USER),
                bytes: [UnsafeCell::new(0), UnsafeCell::new(0)],
                released: AtomicU32::new(0),
                freed: AtomicU32::new(0),
            })
        }

        /// The ring's handling of returned packets.
        fn give(&self, users: u32) {
            if self.blocks.close(0, users) {
                self.released.fetch_add(1, Ordering::Relaxed);
                self.status.store(KERNEL, Ordering::Release);
                self.blocks.given_back(0);
                self.leave();
            }
        }

        fn leave(&self) {
            if self.users.leave() {
                self.freed.fetch_add(1, Ordering::Relaxed);
                // Freeing accesses everything; loom reports other possible accesses.
                for cell in &self.bytes {
                    cell.with_mut(|byte| unsafe { *byte = 0 });
                }
            }
        }
    }

    /// Two threads drop the packets while the receiver stops reading and leaves: the block is
    /// released once, the ring is freed once, and the memory only after the last use.
    #[test]
    fn loom_released_once_and_freed_once() {
        loom::model(|| {
            let ring = Model::new();
            ring.users.enter();
            ring.blocks.open(0, 2);
            let droppers: Vec<_> = (0..2)
                .map(|packet| {
                    let ring = Arc::clone(&ring);
                    thread::spawn(move || {
                        ring.bytes[packet].with_mut(|byte| unsafe { *byte += 1 });
                        ring.give(1);
                    })
                })
                .collect();
            ring.give(1);
            ring.leave();
            droppers.into_iter().for_each(|dropper| dropper.join().unwrap());
            assert_eq!(ring.released.load(Ordering::Relaxed), 1);
            assert_eq!(ring.freed.load(Ordering::Relaxed), 1);
            assert_eq!(ring.status.load(Ordering::Relaxed), KERNEL);
        });
    }

    /// The receiver checks a block whose last packet is being dropped: it never mistakes the old
    /// contents for new ones.
    #[test]
    fn loom_old_contents_are_not_new_ones() {
        loom::model(|| {
            let ring = Model::new();
            ring.users.enter();
            ring.blocks.open(0, 1);
            let dropper = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || ring.give(1))
            };
            ring.give(1);
            if !ring.blocks.in_use(0) {
                assert_eq!(ring.status.load(Ordering::Acquire), KERNEL);
            }
            dropper.join().unwrap();
            assert!(!ring.blocks.in_use(0));
        });
    }

    /// The kernel takes a released block and writes to it, only after every packet was dropped.
    #[test]
    fn loom_the_kernel_waits_for_the_last_packet() {
        loom::model(|| {
            let ring = Model::new();
            ring.users.enter();
            ring.blocks.open(0, 1);
            let dropper = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    ring.bytes[0].with_mut(|byte| unsafe { *byte += 1 });
                    ring.give(1);
                })
            };
            let kernel = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    if ring.status.load(Ordering::Acquire) == KERNEL {
                        ring.bytes[0].with_mut(|byte| unsafe { *byte = 7 });
                        ring.bytes[1].with_mut(|byte| unsafe { *byte = 7 });
                    }
                })
            };
            // The receiver reads the whole block while it walks.
            ring.bytes[1].with(|byte| assert_eq!(unsafe { *byte }, 0));
            ring.give(1);
            dropper.join().unwrap();
            kernel.join().unwrap();
            assert_eq!(ring.released.load(Ordering::Relaxed), 1);
            assert_eq!(ring.freed.load(Ordering::Relaxed), 0);
        });
    }
}
