//! Bounds the memory of compression by the available memory.
//!
//! The kernel kills a process that exceeds the memory limit of its cgroup. Writers that compress
//! therefore share half of the available memory. They first reduce the number of threads, which
//! costs only time, and then the length of chunks. Each chunk is a compression window, so shorter
//! chunks make larger files.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::compression::{Compression, CompressionOptions};
use crate::pcapng::MAX_PACKET;
use crate::room::Room;

/// Pending chunks per thread: one is being compressed, one waits for its compression or for being
/// written.
pub(crate) const PER_THREAD: usize = 2;

/// The shortest chunk.
const LEAST: usize = 256 << 10;
/// Reserved for allocations that are not checked.
const KEPT: u64 = 4 << 20;
/// Bytes of a thread without tables and chunks.
const THREAD: usize = 3 << 20;

/// How one writer compresses.
#[derive(Debug)]
pub(crate) struct Fit {
    pub(crate) threads: u8,
    /// Bytes of a chunk before compression.
    pub(crate) chunk: usize,
    /// A sentence if it is less than requested.
    pub(crate) note: Option<String>,
    /// Reserves its memory until it is dropped.
    _share: Reservation,
}

impl CompressionOptions {
    /// Reduces the number of threads to the number that fits into `bytes`, for pieces of up to
    /// `longest` bytes. `None` if there is no room for one thread.
    #[must_use]
    pub fn within(self, bytes: usize, longest: usize) -> Option<Self> {
        let fits = |threads: &u8| usize::from(*threads) * self.bytes(longest) <= bytes;
        let threads = (1..=self.threads.max(1)).rev().find(fits)?;
        Some(Self { threads, ..self })
    }

    /// The largest memory use of a thread for pieces of up to `longest` bytes, without the pieces.
    #[must_use]
    pub fn bytes(self, longest: usize) -> usize {
        // As the library reports them; its tables are at most as large as the window, rounded up to
        // a power of two.
        let tables = match (self.compression, self.level) {
            (Compression::Gzip | Compression::Lz4, _) | (Compression::Zstd, ..=3) => 1 << 20,
            (Compression::Zstd, ..=8) => 4 << 20,
            (Compression::Zstd, ..=11) => 20 << 20,
            (Compression::Zstd, ..=18) => 64 << 20,
            (Compression::Zstd, 19) => 80 << 20,
            (Compression::Zstd, 20) => 96 << 20,
            (Compression::Zstd, _) => 128 << 20,
        };
        THREAD + tables.min(longest.next_power_of_two().saturating_mul(16))
    }

    /// The best compression that fits into the current room.
    ///
    /// # Errors
    /// There is not enough memory for one thread with the shortest chunks.
    pub(crate) fn fit(self, room: fn() -> Room) -> io::Result<Fit> {
        let mut shares = shares();
        let room = room();
        let left = shares.left(room.bytes);
        let (threads, chunk) = self
            .fit_into(left / 2)
            .or_else(|| {
                // The minimum may exceed the writer's share.
                let most = left.saturating_sub(KEPT);
                (self.taken(1, LEAST) <= most).then_some((1, LEAST))
            })
            .ok_or_else(|| self.refuse(&room, left))?;
        let note = self.note(threads, chunk, &room);
        Ok(Fit {
            threads,
            chunk,
            note,
            _share: shares.take(self.taken(threads, chunk), room.bytes),
        })
    }

    fn fit_into(self, bytes: u64) -> Option<(u8, usize)> {
        let wanted = self.threads.max(1);
        let full = self.compression.chunk();
        let threads = (1..=wanted).rev().map(|threads| (threads, full));
        // With the packet that fills it, a chunk is at most as long as a window.
        let shorter = |halved: u32| (full >> halved).saturating_sub(MAX_PACKET);
        let chunks = (0..).map(shorter).take_while(|chunk| *chunk >= LEAST).map(|chunk| (1, chunk));
        threads.chain(chunks).find(|(threads, chunk)| self.taken(*threads, *chunk) <= bytes)
    }

    /// Bytes of a writer in all.
    fn taken(self, threads: u8, chunk: usize) -> u64 {
        // Before compression, and at worst a little longer after it; one more chunk is being
        // filled.
        let longest = chunk + MAX_PACKET;
        let thread = self.bytes(longest) + PER_THREAD * (2 * longest + longest / 64);
        (usize::from(threads) * thread + longest) as u64
    }

    fn note(self, threads: u8, chunk: usize, room: &Room) -> Option<String> {
        let full = self.compression.chunk();
        let what = |threads: u8, chunk: usize| {
            let more = if threads == 1 { "" } else { "s" };
            format!("{threads} thread{more} and frames of {} KiB", chunk >> 10)
        };
        let (wanted, had) = (what(self.threads.max(1), full), what(threads, chunk));
        let name = self.compression.name();
        (wanted != had).then(|| room.note(format_args!("{name} with {had}"), wanted))
    }

    fn refuse(self, room: &Room, left: u64) -> io::Error {
        let (name, needed) = (self.compression.name(), (self.taken(1, LEAST) + KEPT) >> 10);
        let Room { limit, .. } = room;
        let cause = format!(
            "{name} at level {} needs {needed} KiB of memory, and {limit} leaves {} KiB",
            self.level,
            left >> 10
        );
        io::Error::new(io::ErrorKind::OutOfMemory, cause)
    }
}

/// Memory reserved by all writers of this process. They use it later than they reserve it, so the
/// free memory does not account for it.
#[derive(Debug)]
struct Shares {
    taken: u64,
    /// The free memory before the first writer.
    before: u64,
}

static SHARES: Mutex<Shares> = Mutex::new(Shares { taken: 0, before: 0 });

fn shares() -> MutexGuard<'static, Shares> {
    SHARES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shares {
    /// Bytes available to another writer, if `now` bytes are free in the system.
    fn left(&self, now: u64) -> u64 {
        if self.taken == 0 { now } else { now.min(self.before.saturating_sub(self.taken)) }
    }

    fn take(&mut self, bytes: u64, now: u64) -> Reservation {
        if self.taken == 0 {
            self.before = now;
        }
        self.taken += bytes;
        Reservation(bytes)
    }
}

/// A reservation in [`Shares`], until it is dropped.
#[derive(Debug)]
struct Reservation(u64);

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut shares = shares();
        shares.taken = shares.taken.saturating_sub(self.0);
    }
}

#[cfg(test)]
mod tests {
    use zstd_safe::{CCtx, CParameter};

    use super::*;

    fn options(text: &str) -> CompressionOptions {
        CompressionOptions::parse(text).unwrap().unwrap()
    }

    /// Compared with the memory use that the library reports.
    #[test]
    fn no_level_takes_more_than_is_reckoned() {
        for level in Compression::Zstd.levels() {
            for piece in [LEAST, 1 << 20, 2 << 20, 4 << 20] {
                let data = vec![7; piece + MAX_PACKET];
                let mut context = CCtx::create();
                context.set_parameter(CParameter::CompressionLevel(level.into())).unwrap();
                let mut out = Vec::with_capacity(zstd_safe::compress_bound(data.len()));
                context.compress2(&mut out, &data).unwrap();
                let (taken, most) = (context.sizeof(), options(&format!("zstd:{level}")));
                assert!(taken <= most.bytes(data.len()), "{level} {piece}: {taken}");
            }
        }
    }

    #[test]
    fn fewer_threads_come_before_shorter_frames() {
        let zstd = options("zstd:19,threads=4");
        let fit = |megabytes: u64| zstd.fit_into(megabytes << 20);
        assert_eq!(fit(1024), Some((4, 4 << 20)));
        assert_eq!(fit(250), Some((2, 4 << 20)));
        assert_eq!(fit(125), Some((1, 4 << 20)));
        assert_eq!(fit(90), Some((1, (4 << 20) - MAX_PACKET)));
        assert_eq!(fit(60), Some((1, (2 << 20) - MAX_PACKET)));
        assert_eq!([fit(16), fit(12)], [Some((1, LEAST)), None]);
        let room = Room { bytes: 5 << 20, limit: "the machine's memory".to_owned() };
        let note = zstd.note(1, 2 << 20, &room).unwrap();
        let expected = "zstd with 1 thread and frames of 2048 KiB instead of 4 threads and frames \
                        of 4096 KiB: the machine's memory allows no more";
        assert_eq!((note.as_str(), zstd.note(4, 4 << 20, &room)), (expected, None));
        assert!(zstd.refuse(&room, 5 << 20).to_string().ends_with("memory leaves 5120 KiB"));
    }

    #[test]
    fn pieces_of_one_length_have_as_many_threads_as_fit() {
        let zstd = options("zstd:19,threads=4");
        let each = zstd.bytes(1 << 20);
        assert_eq!(zstd.within(2 * each, 1 << 20).map(|fit| fit.threads), Some(2));
        assert_eq!(zstd.within(each - 1, 1 << 20), None);
    }

    #[test]
    fn writers_share_what_was_left_before_them() {
        let mut shares = Shares { taken: 0, before: 0 };
        assert_eq!(shares.left(100), 100);
        std::mem::forget(shares.take(40, 100));
        assert_eq!([shares.left(100), shares.left(30)], [60, 30]);
    }
}
