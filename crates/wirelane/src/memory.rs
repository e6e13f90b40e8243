//! Checks memory before it is allocated. Ports use a part of the memory that a cgroup, `ulimit -v`
//! or the machine leaves, with smaller rings if necessary. A request that does not fit is refused
//! with a reason.
//!
//! The kernel kills a process that exceeds its cgroup or the machine's memory, and under `ulimit
//! -v` an allocation failure aborts it. So a ring of the default size takes at most half of the
//! remaining memory, with a note. A size that the user requests is allocated or refused, with the
//! available amount. Threads are checked in the same way.

use std::sync::{Mutex, MutexGuard};

use rustix::io::Errno;
use wirelane_os::clock;
use wirelane_os::memory::{Limit, Room, address_space, room};

use crate::error::{Error, Result};
use crate::sync::lock;

/// The memory left now, for [`WriterOptions::room`](wirelane_pcap::WriterOptions::room).
#[must_use]
pub fn for_writers() -> wirelane_pcap::Room {
    let Room { bytes, limit } = room();
    wirelane_pcap::Room { bytes, limit: limit.to_string() }
}

/// Amounts below this are not checked.
const SMALL: usize = 256 << 10;
/// For amounts up to this, only the limit of the address space is checked: a process uses more
/// anyway, and checking the other limits takes longer than using the memory.
const LITTLE: u64 = 8 << 20;
/// Reserved for memory that is not checked, such as the kernel's memory for this process.
const KEPT: u64 = 3 << 20;
/// Bytes that a thread maps: its stack, a signal stack, and some pages around them.
const THREAD: u64 = (2 << 20) + (128 << 10);
/// Reserved for two later threads and other mappings.
const RESERVE: u64 = 2 * THREAD + (4 << 20);

/// Checking the limits reads dozens of system files. A request below this part of the remaining
/// memory uses a recent result, less the memory taken since.
const PART: u64 = 16;
/// The age of a recent result, in nanoseconds.
const MOMENT: u64 = 500_000_000;

/// A budget of memory.
pub(crate) struct Allotment {
    pub(crate) bytes: usize,
    limit: Limit,
}

impl Allotment {
    /// Half of the remaining memory; the rest is for threads, buffers and later ports.
    pub(crate) fn of_rest() -> Self {
        Self::of_rest_for(usize::MAX)
    }

    /// As [`Allotment::of_rest`], for a caller that needs at most `bytes`.
    pub(crate) fn of_rest_for(bytes: usize) -> Self {
        let Room { bytes, limit } = room_for(bytes as u64);
        Self { bytes: usize::try_from(bytes / 2).unwrap_or(usize::MAX), limit }
    }

    /// One of `parts` equal parts.
    pub(crate) fn part(self, parts: usize) -> Self {
        Self { bytes: self.bytes / parts.max(1), ..self }
    }

    /// A budget of `bytes`, which were already allocated for this purpose.
    pub(crate) fn or_taken(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// `wanted`, halved until its `bytes` fit the budget, with a minimum of `least`.
    pub(crate) fn fit(&self, wanted: u32, least: u32, bytes: impl Fn(u32) -> usize) -> u32 {
        let mut count = wanted;
        while bytes(count) > self.bytes && count / 2 >= least {
            count /= 2;
        }
        count
    }

    /// A note that there are fewer than usual.
    pub(crate) fn note(
        &self,
        what: &str,
        wanted: impl TryInto<u64>,
        had: impl TryInto<u64>,
    ) -> Option<String> {
        let (wanted, had) = (wanted.try_into().ok()?, had.try_into().ok()?);
        (had < wanted).then(|| self.limit.note(format_args!("{had} {what}"), wanted))
    }
}

/// Checks that `bytes` can be allocated for `object`. No other thread passes this check before the
/// result is dropped.
///
/// # Errors
/// They cannot be allocated. The error names the limit and the remaining memory.
pub(crate) fn ask(
    object: impl FnOnce() -> String,
    bytes: usize,
) -> Result<Option<MutexGuard<'static, ()>>> {
    static TAKING: Mutex<()> = Mutex::new(());
    if bytes < SMALL {
        return Ok(None);
    }
    let alone = lock(&TAKING);
    let room = room_for(bytes as u64);
    grant(object, bytes as u64, Room { bytes: room.bytes.saturating_sub(KEPT), ..room })?;
    Ok(Some(alone))
}

/// The remaining memory, for a caller that may take `bytes` of it.
fn room_for(bytes: u64) -> Room {
    if bytes <= LITTLE {
        return address_space().unwrap_or(Room { bytes: u64::MAX, limit: Limit::Machine });
    }
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    let (now, mut known) = (clock::monotonic_ns(), lock(&KNOWN));
    if let Some(room) = known.as_mut().and_then(|known| known.room_for(bytes, now)) {
        return room;
    }
    known.insert(Known { room: room(), at: now }).room.clone()
}

/// A past result.
struct Known {
    room: Room,
    /// Monotonic time.
    at: u64,
}

impl Known {
    /// The least remaining memory, if `bytes` are a small part of it. Deducts them.
    fn room_for(&mut self, bytes: u64, now: u64) -> Option<Room> {
        if now.saturating_sub(self.at) > MOMENT || bytes > self.room.bytes / PART {
            return None;
        }
        let room = self.room.clone();
        self.room.bytes -= bytes;
        Some(room)
    }
}

/// Checks that `count` threads can be started: a thread without a signal stack aborts the process.
///
/// # Errors
/// They cannot be started.
pub(crate) fn ask_for_threads(count: usize) -> Result<()> {
    let Some(room) = address_space() else { return Ok(()) };
    grant(|| format!("threads ({count})"), THREAD * count as u64 + RESERVE, room)
}

/// How many threads can be started.
pub(crate) fn room_for_threads() -> usize {
    let threads = |room: Room| room.bytes.saturating_sub(RESERVE) / THREAD;
    address_space().map_or(usize::MAX, |room| threads(room) as usize)
}

fn grant(object: impl FnOnce() -> String, bytes: u64, room: Room) -> Result<()> {
    if bytes <= room.bytes {
        return Ok(());
    }
    let Room { bytes: left, limit } = room;
    let cause = format!("{} are needed, and {limit} leaves {}", size(bytes), size(left));
    let source = wirelane_os::OsError::from_errno("memory", "", Errno::NOMEM.raw_os_error());
    let help = "name fewer queues, smaller rings or fewer frames, or raise the limit";
    Err(Error::failed(object(), cause).help(help).caused_by(source))
}

fn size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn budget(bytes: usize) -> Allotment {
        Allotment { bytes, limit: Limit::AddressSpace }
    }

    #[test]
    fn what_does_not_fit_is_halved() {
        for (bytes, count) in [(1 << 20, 1024), (1 << 19, 512), (600_000, 512), (1, 64), (0, 64)] {
            assert_eq!(budget(bytes).fit(1024, 64, |count| count as usize * 1024), count);
        }
        assert_eq!(budget(0).fit(3, 4, |_| 1), 3);
        assert_eq!(budget(0).note("frames", 8, 8), None);
        let note = budget(0).note("frames", 8, 4).unwrap();
        assert!(note.contains("4 frames instead of 8") && note.contains("ulimit -v"), "{note}");
    }

    #[test]
    fn little_is_taken_from_what_was_left_a_moment_ago() {
        let room = Room { bytes: 32 << 20, limit: Limit::Machine };
        let mut known = Known { room, at: 7 };
        let mut ask =
            |bytes: u64, now| known.room_for(bytes << 20, now).map(|room| room.bytes >> 20);
        assert_eq!(
            [ask(2, 7), ask(1, 8), ask(2, 8), ask(1, 8)],
            [Some(32), Some(30), None, Some(29)]
        );
        assert_eq!([ask(1, 7 + MOMENT), ask(1, 8 + MOMENT)], [Some(28), None]);
    }

    #[test]
    fn what_cannot_be_had_is_refused_in_words() {
        assert!(ask(|| "x".into(), SMALL).is_ok());
        assert!(ask_for_threads(1).is_ok() && room_for_threads() > 1);
        let error = ask(|| "frames".into(), usize::MAX / 2).unwrap_err().to_string();
        assert!(
            error.starts_with("frames: ") && error.contains(" MiB are needed, and "),
            "{error}"
        );
        let room = Room { bytes: 5 << 10, limit: Limit::Cgroup("/x".into()) };
        let error = grant(|| "y".into(), 7 << 20, room).unwrap_err();
        assert_eq!(error.errno(), Some(12));
        assert!(
            error.cause().ends_with("the memory limit of the cgroup /x leaves 5 KiB"),
            "{error}"
        );
    }
}
