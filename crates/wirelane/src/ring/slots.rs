//! The slots of a ring, aligned to cache lines and followed by a guard line.
//!
//! The guard separates the last slots from the following heap object: they share neither a cache
//! line nor a pair of lines that the adjacent-line prefetcher loads.
#![allow(unsafe_code)]

/// Slots in plain memory, copied in runs.
#[cfg(not(loom))]
mod imp {
    use std::alloc::{self, Layout};
    use std::ptr::NonNull;

    /// A pair of cache lines, as in [`CachePadded`](crate::sync::CachePadded).
    const LINES: usize = 128;

    pub(in super::super) struct Slots<T> {
        first: NonNull<T>,
        mask: usize,
        layout: Layout,
    }

    // SAFETY: this is memory; its users determine which thread owns which slot (see the methods).
    unsafe impl<T: Send> Send for Slots<T> {}
    // SAFETY: as above.
    unsafe impl<T: Send> Sync for Slots<T> {}

    impl<T> Slots<T> {
        /// `size` slots, a power of two. Like `Vec`, it panics if the size exceeds the address
        /// space, and aborts if memory runs out.
        pub(in super::super) fn new(size: usize) -> Self {
            debug_assert!(size.is_power_of_two());
            let slots = Layout::array::<T>(size).and_then(|slots| slots.align_to(LINES));
            let guarded = slots.and_then(|slots| Ok(slots.extend(Layout::new::<[u8; LINES]>())?.0));
            let Ok(layout) = guarded else {
                panic!("a ring of {size} elements: capacity overflow")
            };
            // SAFETY: the guard makes the size at least a line.
            let Some(first) = NonNull::new(unsafe { alloc::alloc(layout) }) else {
                alloc::handle_alloc_error(layout)
            };
            Self { first: first.cast(), mask: size - 1, layout }
        }

        /// The number of slots.
        #[inline(always)]
        pub(in super::super) fn size(&self) -> u64 {
            self.mask as u64 + 1
        }

        /// # Safety
        /// The caller owns the slot of `index` and nothing that is still needed is in it.
        #[inline(always)]
        pub(in super::super) unsafe fn write(&self, index: u64, item: T) {
            // SAFETY: the mask keeps it inside; owned by contract.
            unsafe { self.first.add(index as usize & self.mask).write(item) }
        }

        /// # Safety
        /// The caller owns the slot of `index`, an element is in it, and it is read only once.
        #[inline(always)]
        pub(in super::super) unsafe fn read(&self, index: u64) -> T {
            // SAFETY: the mask keeps it inside; owned and initialised by contract.
            unsafe { self.first.add(index as usize & self.mask).read() }
        }

        /// # Safety
        /// As [`Slots::write`], for the `count` slots from `index` on, at most all of them; there
        /// are as many elements at `from`, which the caller gives up.
        #[inline(always)]
        pub(in super::super) unsafe fn copy_in(&self, index: u64, from: *const T, count: usize) {
            let at = index as usize & self.mask;
            let run = count.min(self.mask + 1 - at);
            self.fetch_ahead(index, count);
            // SAFETY: both runs are inside; owned by contract, so nothing else points there.
            unsafe {
                self.first.add(at).as_ptr().copy_from_nonoverlapping(from, run);
                if run < count {
                    let rest = from.add(run);
                    self.first.as_ptr().copy_from_nonoverlapping(rest, count - run);
                }
            }
        }

        /// Prefetches the lines of the batch after the next one for writing. The consumers' core
        /// has them, and a compare-and-swap would wait until the previous writes have them here.
        #[inline(always)]
        fn fetch_ahead(&self, index: u64, count: usize) {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
                let ahead = (index as usize).wrapping_add(2 * count) & self.mask;
                let from: *const i8 = self.first.as_ptr().wrapping_add(ahead).cast();
                for line in (0..count * size_of::<T>()).step_by(64) {
                    // SAFETY: a hint, for any address; it reads and writes nothing.
                    unsafe { _mm_prefetch::<_MM_HINT_ET0>(from.wrapping_add(line)) };
                }
            }
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            let _ = (index, count);
        }

        /// # Safety
        /// As [`Slots::read`], for the `count` slots from `index` on, at most all of them; there
        /// is room for as many elements at `to`.
        #[inline(always)]
        pub(in super::super) unsafe fn copy_out(&self, index: u64, to: *mut T, count: usize) {
            let at = index as usize & self.mask;
            let run = count.min(self.mask + 1 - at);
            // SAFETY: both runs are inside; owned by contract, so nothing else points there.
            unsafe {
                to.copy_from_nonoverlapping(self.first.add(at).as_ptr(), run);
                if run < count {
                    to.add(run).copy_from_nonoverlapping(self.first.as_ptr(), count - run);
                }
            }
        }
    }

    impl<T> Drop for Slots<T> {
        fn drop(&mut self) {
            // SAFETY: allocated in `new` with this layout.
            unsafe { alloc::dealloc(self.first.as_ptr().cast(), self.layout) }
        }
    }
}

/// The same with loom's cells, which detect concurrent accesses to a slot.
#[cfg(loom)]
mod imp {
    use crate::sync::UnsafeCell;
    use std::mem::MaybeUninit;

    pub(in super::super) struct Slots<T>(Box<[UnsafeCell<MaybeUninit<T>>]>);

    // SAFETY: this is memory; its users determine which thread owns which slot.
    unsafe impl<T: Send> Send for Slots<T> {}
    // SAFETY: as above.
    unsafe impl<T: Send> Sync for Slots<T> {}

    impl<T> Slots<T> {
        pub(in super::super) fn new(size: usize) -> Self {
            Self((0..size).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect())
        }

        pub(in super::super) fn size(&self) -> u64 {
            self.0.len() as u64
        }

        fn slot(&self, index: u64) -> &UnsafeCell<MaybeUninit<T>> {
            &self.0[index as usize & (self.0.len() - 1)]
        }

        /// # Safety
        /// The caller owns the slot of `index`.
        pub(in super::super) unsafe fn write(&self, index: u64, item: T) {
            // SAFETY: owned by contract.
            self.slot(index).with_mut(|slot| unsafe { (*slot).write(item) });
        }

        /// # Safety
        /// The caller owns the slot of `index`, with an element in it that is read only once.
        pub(in super::super) unsafe fn read(&self, index: u64) -> T {
            // SAFETY: by contract. A mutable access, because no other thread may read it, either.
            self.slot(index).with_mut(|slot| unsafe { (*slot).assume_init_read() })
        }

        /// # Safety
        /// As [`Slots::write`] for `count` slots; the elements at `from` are given up.
        pub(in super::super) unsafe fn copy_in(&self, index: u64, from: *const T, count: usize) {
            for i in 0..count {
                // SAFETY: by contract.
                unsafe { self.write(index.wrapping_add(i as u64), from.add(i).read()) };
            }
        }

        /// # Safety
        /// As [`Slots::read`] for `count` slots; there is room at `to`.
        pub(in super::super) unsafe fn copy_out(&self, index: u64, to: *mut T, count: usize) {
            for i in 0..count {
                // SAFETY: by contract.
                unsafe { to.add(i).write(self.read(index.wrapping_add(i as u64))) };
            }
        }
    }
}

pub(super) use imp::Slots;
