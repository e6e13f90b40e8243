//! Who still uses a block of a mapped ring, and the ring itself.
//!
//! A block changes hands as a whole, but its packets are dropped one by one and on any thread.
//! So each block counts its users: one per packet, and one for the receiver while it walks the
//! block. Whoever ends the last use gives the block back, exactly once, after all others are done
//! with it, and then says so: until then one use stays counted, so that the receiver cannot take
//! the old contents for new ones. The ring counts its users the same way, but per *open block*: a
//! packet on its own costs the ring nothing.

use crate::sync::{AtomicU32, CachePadded, Ordering};

/// The use that remains while the block is given back.
const GIVING_BACK: u32 = 1;

/// The users of each block.
pub(crate) struct Blocks(Box<[CachePadded<AtomicU32>]>);

impl Blocks {
    /// `count` blocks that nobody uses.
    pub(crate) fn new(count: u32) -> Self {
        Self((0..count).map(|_| CachePadded(AtomicU32::new(0))).collect())
    }

    /// The receiver begins to walk `block`, which nobody uses, with `packets` packets in it: that
    /// many users, and itself.
    #[inline]
    pub(crate) fn open(&self, block: usize, packets: u32) {
        // Whoever gives packets back got them from this thread, and so sees this store.
        self.0[block].store(packets + 1 + GIVING_BACK, Ordering::Relaxed);
    }

    /// `users` users of `block` are done with it; true if they were the last, who then give it back
    /// and call [`Blocks::given_back`].
    #[inline]
    pub(crate) fn close(&self, block: usize, users: u32) -> bool {
        // Release: what we did to the packets comes first. Acquire: the last one gives away what
        // all others have used.
        self.0[block].fetch_sub(users, Ordering::AcqRel) == users + GIVING_BACK
    }

    /// The block's new owner knows that it has it.
    #[inline]
    pub(crate) fn given_back(&self, block: usize) {
        self.0[block].store(0, Ordering::Release);
    }

    /// Whether `block` is in use; if not, it has been given back.
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

    /// One more; the caller is a user, so the ring is there.
    #[inline]
    pub(crate) fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less; true if it was the last, which then frees the ring.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// Whether the accesses to the cells are sound is what these models find out.
#[cfg(all(test, loom))]
#[allow(unsafe_code, clippy::undocumented_unsafe_blocks)]
mod loom_tests {
    use super::*;
    use crate::sync::{Arc, UnsafeCell};
    use loom::thread;

    const KERNEL: u32 = 0;
    const USER: u32 = 1;

    /// One ring of one block, with the block's status word, its bytes, and a count of frees.
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

        /// What the ring does with packets that come back.
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
                // Freeing touches everything; loom complains if anybody still might.
                for cell in &self.bytes {
                    cell.with_mut(|byte| unsafe { *byte = 0 });
                }
            }
        }
    }

    /// Two threads drop the packets while the receiver ends its walk and goes: the block is
    /// released once, the ring freed once, and the memory only after the last use.
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

    /// The receiver looks at a block whose last packet is being dropped: it never takes the old
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

    /// The kernel takes a released block and writes to it: only after every packet is dropped.
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
