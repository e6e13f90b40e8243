//! Opening many sockets at once.

use std::io;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

use crate::error::Result;
use crate::memory;

/// Most sockets to open at a time.
const AT_ONCE: usize = 32;

/// Opens something for each of `items`, given with its place, several at a time: for every ring that it
/// makes, the kernel waits until no processor is at the socket (synchronize_net in packet_set_ring), tens
/// of milliseconds. Side by side they wait together.
///
/// # Errors
/// The first one; then nothing stays open.
pub(super) fn side_by_side<I: Sync, T: Send>(
    items: &[I],
    open: impl Fn(usize, &I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    // Where address space is limited, a thread that has no room ends the process.
    let at_once = AT_ONCE.min(memory::room_for_threads() / 4);
    if at_once < 2 {
        return items.iter().enumerate().map(|(place, item)| open(place, item)).collect();
    }
    let open = &open;
    let mut opened = Vec::with_capacity(items.len());
    for group in items.chunks(at_once) {
        let first = opened.len();
        let results: Vec<Result<T>> = thread::scope(|scope| {
            let spawn = |(place, item)| {
                let spawned = thread::Builder::new().spawn_scoped(scope, move || open(place, item));
                (place, item, spawned)
            };
            let threads: Vec<_> = (first..).zip(group).map(spawn).collect();
            let finish =
                |(place, item, spawned): (usize, _, io::Result<ScopedJoinHandle<'_, _>>)| {
                    match spawned.map(ScopedJoinHandle::join) {
                        Ok(Ok(result)) => result,
                        Ok(Err(panic)) => resume_unwind(panic),
                        // Where no thread can be had, it is done here.
                        Err(_) => open(place, item),
                    }
                };
            threads.into_iter().map(finish).collect()
        });
        for result in results {
            opened.push(result?);
        }
    }
    Ok(opened)
}
