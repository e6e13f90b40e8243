//! Handles for C: numbers, each of which identifies one object for ever.
//!
//! ```text
//!   id = generation ‖ kind ‖ index        slot: key = generation ‖ users, value
//!                              └────────▶ another generation: the object was closed
//! ```
//!
//! A slot is reused under the next generation, so a closed handle never identifies another object,
//! and its use is an error instead of undefined behaviour. The same word counts the threads inside:
//! an object for one thread at a time refuses a second one.
#![allow(unsafe_code)]

use std::borrow::{Borrow, BorrowMut};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Slots per chunk. Chunks are allocated when needed, and never freed.
const CHUNK: usize = 64;
const CHUNKS: usize = 1024;

const _: () = assert!(CHUNK * CHUNKS <= 1 << 16, "an index has 16 bits");

/// Instead of the number of users: one thread uses the object exclusively.
const EXCLUSIVE: u32 = u32::MAX;
/// Instead of the number of users: there is no object.
const VACANT: u32 = u32::MAX - 1;
const MOST_USERS: u32 = VACANT - 2;

/// Why a handle cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleRefusal {
    /// It was closed, or was never a handle.
    Closed,
    /// Another thread is using it.
    Busy,
    /// There are too many handles.
    Full,
}

/// One object, on separate cache lines, so that threads with different objects share none.
#[repr(align(128))]
struct ObjectSlot<T> {
    key: AtomicU64,
    /// Initialised unless the key is [`VACANT`].
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: `key` admits one thread at a time, or several if `T` is `Sync` (`HandleTable::shared`).
unsafe impl<T: Send> Sync for ObjectSlot<T> {}

/// All objects of one kind.
pub(crate) struct HandleTable<T: 'static> {
    kind: u16,
    chunks: [OnceLock<Box<[ObjectSlot<T>]>>; CHUNKS],
    free: Mutex<Free>,
}

struct Free {
    /// Slots of closed objects.
    indices: Vec<u16>,
    /// The first slot that was never used.
    next: usize,
}

impl<T: Send> HandleTable<T> {
    /// A table whose handles contain `kind`, so that it refuses handles of other tables.
    pub(crate) const fn new(kind: u16) -> Self {
        Self {
            kind,
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::new(Free { indices: Vec::new(), next: 0 }),
        }
    }

    /// Stores `value`, and returns its handle.
    pub(crate) fn insert(&self, value: T) -> Result<u64, HandleRefusal> {
        let index = self.take_vacant().ok_or(HandleRefusal::Full)?;
        let at = usize::from(index);
        let chunk = self.chunks.get(at / CHUNK).ok_or(HandleRefusal::Full)?;
        let slot = chunk.get_or_init(new_chunk).get(at % CHUNK).ok_or(HandleRefusal::Full)?;
        let generation = slot.key.load(Ordering::Acquire) >> 32;
        // SAFETY: the slot is vacant, and the list of free slots gave it to this thread alone.
        unsafe { (*slot.value.get()).write(value) };
        slot.key.store(generation << 32, Ordering::Release);
        Ok(generation << 32 | u64::from(self.kind) << 16 | u64::from(index))
    }

    fn take_vacant(&self) -> Option<u16> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.indices.pop().or_else(|| {
            let index = u16::try_from(free.next).ok().filter(|_| free.next < CHUNK * CHUNKS)?;
            free.next += 1;
            Some(index)
        })
    }

    /// Locks the object for this thread.
    #[inline]
    pub(crate) fn exclusive(&self, id: u64) -> Result<ExclusiveObject<'_, T>, HandleRefusal> {
        let (slot, generation) = self.find(id)?;
        let idle = generation << 32;
        slot.key
            .compare_exchange(
                idle,
                idle | u64::from(EXCLUSIVE),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .map_err(|key| refusal(key, generation))?;
        Ok(ExclusiveObject { slot, idle, alone: PhantomData })
    }

    /// Removes the object, and invalidates its handle.
    pub(crate) fn remove(&self, id: u64) -> Result<T, HandleRefusal> {
        let object = self.exclusive(id)?;
        let slot = object.slot;
        // The key stays locked: no other thread can enter.
        std::mem::forget(object);
        // SAFETY: it is initialised, and will be vacant.
        let value = unsafe { (*slot.value.get()).assume_init_read() };
        let next = ((id >> 32) + 1) & u64::from(u32::MAX);
        slot.key.store(next << 32 | u64::from(VACANT), Ordering::Release);
        // After the last generation the slot stays vacant: no handle is reused.
        if next != 0 {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.indices.push(id as u16);
        }
        Ok(value)
    }

    #[inline]
    fn find(&self, id: u64) -> Result<(&ObjectSlot<T>, u64), HandleRefusal> {
        let index = usize::from(id as u16);
        let chunk = self.chunks.get(index / CHUNK).and_then(OnceLock::get);
        let slot = chunk.and_then(|slots| slots.get(index % CHUNK));
        let slot = slot.filter(|_| (id >> 16) as u16 == self.kind).ok_or(HandleRefusal::Closed)?;
        Ok((slot, id >> 32))
    }
}

impl<T: Send + Sync> HandleTable<T> {
    /// Uses the object together with other threads.
    pub(crate) fn shared(&self, id: u64) -> Result<SharedObject<'_, T>, HandleRefusal> {
        let (slot, generation) = self.find(id)?;
        slot.key
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |key| {
                (key >> 32 == generation && key as u32 <= MOST_USERS).then_some(key + 1)
            })
            .map_err(|key| refusal(key, generation))?;
        Ok(SharedObject { slot })
    }
}

fn new_chunk<T>() -> Box<[ObjectSlot<T>]> {
    let vacant = || AtomicU64::new(1 << 32 | u64::from(VACANT));
    (0..CHUNK)
        .map(|_| ObjectSlot { key: vacant(), value: UnsafeCell::new(MaybeUninit::uninit()) })
        .collect()
}

/// Why `key` refuses a thread.
fn refusal(key: u64, generation: u64) -> HandleRefusal {
    if key >> 32 != generation || key as u32 == VACANT {
        HandleRefusal::Closed
    } else {
        HandleRefusal::Busy
    }
}

/// An object that this thread uses exclusively.
pub(crate) struct ExclusiveObject<'a, T> {
    slot: &'a ObjectSlot<T>,
    /// The key without users.
    idle: u64,
    alone: PhantomData<&'a mut T>,
}

impl<T> Deref for ExclusiveObject<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: it is initialised, and by the key only this thread uses it.
        unsafe { (*self.slot.value.get()).assume_init_ref() }
    }
}

impl<T> DerefMut for ExclusiveObject<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: it is initialised, and by the key only this thread uses it.
        unsafe { (*self.slot.value.get()).assume_init_mut() }
    }
}

impl<T> Borrow<T> for ExclusiveObject<'_, T> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T> BorrowMut<T> for ExclusiveObject<'_, T> {
    fn borrow_mut(&mut self) -> &mut T {
        self
    }
}

impl<T> Drop for ExclusiveObject<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.slot.key.store(self.idle, Ordering::Release);
    }
}

/// An object that several threads may use.
pub(crate) struct SharedObject<'a, T> {
    slot: &'a ObjectSlot<T>,
}

impl<T: Sync> Deref for SharedObject<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: it is initialised, and by the key no thread uses it exclusively.
        unsafe { (*self.slot.value.get()).assume_init_ref() }
    }
}

impl<T> Drop for SharedObject<'_, T> {
    fn drop(&mut self) {
        self.slot.key.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_handle_never_names_another_object() {
        let table = HandleTable::<u8>::new(1);
        let first = table.insert(1).unwrap();
        assert_eq!(table.remove(first), Ok(1));
        let second = table.insert(2).unwrap();
        assert_ne!(first, second);
        assert_eq!(first as u32, second as u32, "the slot is used again");
        for id in [first, 0, u64::MAX, second + (1 << 32), second + (1 << 16), 5 << 32 | 3] {
            assert_eq!(table.exclusive(id).err(), Some(HandleRefusal::Closed), "{id:x}");
            assert_eq!(table.shared(id).err(), Some(HandleRefusal::Closed), "{id:x}");
            assert_eq!(table.remove(id), Err(HandleRefusal::Closed), "{id:x}");
        }
        assert_eq!(*table.exclusive(second).unwrap(), 2);
    }

    #[test]
    fn one_alone_or_several_together() {
        let table = HandleTable::<u8>::new(1);
        let id = table.insert(1).unwrap();
        let alone = table.exclusive(id).unwrap();
        assert_eq!(table.exclusive(id).err(), Some(HandleRefusal::Busy));
        assert_eq!(table.shared(id).err(), Some(HandleRefusal::Busy));
        assert_eq!(table.remove(id), Err(HandleRefusal::Busy));
        drop(alone);
        let together = (table.shared(id).unwrap(), table.shared(id).unwrap());
        assert_eq!(table.exclusive(id).err(), Some(HandleRefusal::Busy));
        drop(together);
        assert_eq!(table.remove(id), Ok(1));
    }

    #[test]
    fn threads_never_meet_inside() {
        let table = HandleTable::<u64>::new(1);
        let id = table.insert(0).unwrap();
        let entered: u64 = std::thread::scope(|scope| {
            let add = || {
                let tries = (0..if cfg!(miri) { 50 } else { 20_000 })
                    .filter_map(|_| table.exclusive(id).ok());
                tries.map(|mut value| *value += 1).count() as u64
            };
            let threads = [scope.spawn(add), scope.spawn(add)];
            threads.map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(table.remove(id), Ok(entered));
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes there")]
    fn there_are_only_so_many() {
        let table = HandleTable::<()>::new(1);
        let ids: Vec<u64> = (0..CHUNK * CHUNKS).map(|_| table.insert(()).unwrap()).collect();
        assert_eq!(table.insert(()), Err(HandleRefusal::Full));
        assert_eq!(table.remove(ids[77]), Ok(()));
        assert!(table.insert(()).is_ok());
    }

    #[test]
    fn after_all_generations_a_slot_stays_vacant() {
        let table = HandleTable::<u8>::new(1);
        let first = table.insert(1).unwrap();
        table.remove(first).unwrap();
        let slot = &table.chunks[0].get().unwrap()[0];
        slot.key.store(u64::from(u32::MAX) << 32 | u64::from(VACANT), Ordering::Release);
        let last = table.insert(2).unwrap();
        assert_eq!((last >> 32, last as u32), (u64::from(u32::MAX), 1 << 16));
        table.remove(last).unwrap();
        assert_eq!(table.insert(3).unwrap() as u16, 1);
    }
}
