//! Opens or closes many sockets in parallel.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::error::Result;
use crate::memory;

/// Calls `act` with each of `items` and its index, `at_once` at a time. For every ring that the
/// kernel sets up or removes, it waits tens of milliseconds until no processor uses the socket
/// (synchronize_net in packet_set_ring). In parallel these waits overlap. Each thread costs CPU
/// time.
///
/// # Errors
/// The first error.
pub(super) fn in_parallel<I: Sync, T: Send>(
    items: &[I],
    at_once: usize,
    act: impl Fn(usize, &I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else { return done };
            let result = act(place, item);
            if result.is_err() {
                // Work not started yet would be wasted.
                next.store(items.len(), Ordering::Relaxed);
            }
            done.push((place, result));
        }
    };
    // If address space is limited, a thread without room ends the process.
    let at_once = at_once.min(items.len()).min(memory::room_for_threads() / 4);
    let mut done = thread::scope(|scope| {
        // If a thread cannot be created, the others do its part.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let threads: Vec<_> = (1..at_once).filter_map(spawn).collect();
        let mut done = work();
        for thread in threads {
            match thread.join() {
                Ok(more) => done.extend(more),
                Err(panic) => resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn all_are_done_in_order_however_many_at_once() {
        let items: Vec<usize> = (10..30).collect();
        for at_once in [0, 1, 2, 7, 100] {
            let done = in_parallel(&items, at_once, |place, item| {
                assert_eq!(*item, place + 10);
                Ok(place)
            });
            assert_eq!(done.unwrap(), (0..20).collect::<Vec<_>>());
            let refuse = |place, _: &_| match place {
                3 => Err(Error::failed("x", "refused")),
                _ => Ok(()),
            };
            assert_eq!(in_parallel(&items, at_once, refuse).unwrap_err().to_string(), "x: refused");
        }
    }
}
