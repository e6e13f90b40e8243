//! The memory that this process can still get, and its limit.
//!
//! The kernel kills a process that exceeds the memory of a cgroup or of the machine, at the first
//! touch of a page and without an error. An allocation beyond `ulimit -v` fails, and often aborts
//! the process. So callers check the room here before they allocate large memory.

use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cgroup::{self, Version};
use crate::file;
use crate::mmap::{HUGE_PAGE, page_size};

/// The tightest limit on the memory of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Free and reclaimable memory of the machine.
    Machine,
    /// The limit of the cgroup in this directory.
    Cgroup(PathBuf),
    /// RLIMIT_AS.
    AddressSpace,
    /// RLIMIT_DATA.
    Data,
}

/// The least growth of malloc(3)'s memory.
#[cfg(target_env = "gnu")]
const HEAP_STEP: libc::c_int = 1 << 20;

/// More than any machine has.
const UNLIMITED: u64 = 1 << 60;

/// The memory that this process can still allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// The limit that ends the process or refuses memory beyond this.
    pub limit: Limit,
}

impl Limit {
    /// A sentence for users: `had` instead of `wanted`, because of this limit.
    pub fn note(&self, had: impl fmt::Display, wanted: impl fmt::Display) -> String {
        format!("{had} instead of {wanted}: {self} allows no more")
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => f.write_str("the machine's memory"),
            Self::Cgroup(directory) => {
                // As a process in its mount namespace sees it.
                let mut parts = directory.components();
                if directory.starts_with("/proc") {
                    parts.nth(3);
                }
                let path = Path::new("/").join(parts.as_path());
                write!(f, "the memory limit of the cgroup {}", path.display())
            }
            Self::AddressSpace => f.write_str("the limit of the address space (ulimit -v)"),
            Self::Data => f.write_str("the limit of the data segment (ulimit -d)"),
        }
    }
}

/// The memory that is available now, in reserved huge pages or in other pages. Unreadable limits
/// are ignored.
pub fn room() -> Room {
    if cfg!(miri) {
        return Room { bytes: u64::MAX, limit: Limit::Machine };
    }
    let pages = [machine(), cgroups()].into_iter().flatten().min_by_key(|room| room.bytes);
    let mut room = pages.unwrap_or(Room { bytes: u64::MAX, limit: Limit::Machine });
    // They are already taken from the machine, and charged to no cgroup.
    room.bytes = room.bytes.max(free_huge_pages());
    [Some(room), address_space()]
        .into_iter()
        .flatten()
        .min_by_key(|room| room.bytes)
        .unwrap_or(Room { bytes: u64::MAX, limit: Limit::Machine })
}

/// The memory that can still be mapped, used or not; `None` without a limit.
pub fn address_space() -> Option<Room> {
    if cfg!(miri) {
        return None;
    }
    let is_limited = |resource| getrlimit(resource).current.is_some();
    if ![Resource::As, Resource::Data].into_iter().any(is_limited) {
        return None;
    }
    let statm = file::small("/proc/self/statm").unwrap_or_default();
    let of = |resource, field: usize, limit| {
        let most = getrlimit(resource).current?;
        let pages = statm.split(' ').nth(field).and_then(|pages| pages.parse::<u64>().ok());
        // Without /proc, assume that half of it is used.
        let used = pages.map_or(most / 2, |pages| pages * page_size() as u64);
        Some(Room { bytes: most.saturating_sub(used), limit })
    };
    // Fields of statm (proc(5)): all pages, and the pages of data and stack.
    let rooms = [of(Resource::As, 0, Limit::AddressSpace), of(Resource::Data, 5, Limit::Data)];
    rooms.into_iter().flatten().min_by_key(|room| room.bytes)
}

/// Lifts RLIMIT_MEMLOCK as far as this process may: io_uring counts registered buffers against it,
/// unless the process has CAP_IPC_LOCK. Call this before CAP_SYS_RESOURCE is dropped. False if even
/// the hard limit is refused.
pub fn lift_lock_limit() -> bool {
    let hard = getrlimit(Resource::Memlock).maximum;
    // `None` is no limit; every process may raise its limit to the hard limit.
    [None, hard].into_iter().any(|limit| {
        let maximum = limit.and(hard);
        setrlimit(Resource::Memlock, Rlimit { current: limit, maximum }).is_ok()
    })
}

/// Makes threads share one heap of malloc(3) if the address space is limited: each separate heap
/// takes 64 MiB of it. Does nothing once there are other threads.
pub fn spare_address_space() {
    if getrlimit(Resource::As).current.is_some() {
        share_heap();
    }
}

/// Makes threads share one heap of malloc(3): for a program whose threads allocate little, so that
/// separate heaps would cost more than they save. Does nothing once there are other threads.
pub fn share_heap() {
    if !is_alone() {
        return;
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets numbers that malloc(3) reads, and no other thread is there to call it.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        // Request memory from the system less often.
        libc::mallopt(libc::M_TOP_PAD, HEAP_STEP);
    }
}

/// Whether this thread is the only one of the process; false if the number is unknown.
fn is_alone() -> bool {
    let Ok(status) = file::small("/proc/self/status") else { return false };
    field(&status, "Threads:") == Some(1)
}

/// Tells the CPU to load the cache line where `place` begins, and does not wait for it. Does
/// nothing on CPUs other than x86-64 and aarch64.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    let place = std::ptr::from_ref(place);
    if cfg!(miri) {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction; it reads and changes nothing that a program can
    // see.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: it reads and changes nothing that a program can see.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{place}]",
            place = in(reg) place,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
}

/// Requests transparent huge pages for memory that was not written to yet: a large table with
/// random accesses then takes few TLB entries. Does nothing if the memory is too small for two huge
/// pages, or without kernel support.
pub fn prefer_huge_pages<T>(memory: &mut [MaybeUninit<T>]) {
    let len = size_of_val(memory);
    let skipped = memory.as_ptr().addr().wrapping_neg() % page_size();
    let whole = len.saturating_sub(skipped) / page_size() * page_size();
    if whole < 2 * HUGE_PAGE || cfg!(miri) {
        return;
    }
    // SAFETY: whole pages within memory that is borrowed here; the advice changes none of its
    // contents.
    unsafe {
        let first = memory.as_mut_ptr().cast::<u8>().add(skipped);
        // Only kernels without transparent huge pages refuse it, and then there is no gain.
        libc::madvise(first.cast(), whole, libc::MADV_HUGEPAGE);
    }
}

fn machine() -> Option<Room> {
    let text = file::small("/proc/meminfo").ok()?;
    let kilobytes = field(&text, "MemAvailable:")?;
    Some(Room { bytes: kilobytes.saturating_mul(1024), limit: Limit::Machine })
}

/// The least room in the process's cgroup and its ancestors.
fn cgroups() -> Option<Room> {
    // Opened once and kept open: after dropping privileges, the process may not be able to open
    // them.
    static LEVELS: OnceLock<Vec<Level>> = OnceLock::new();
    LEVELS.get_or_init(levels).iter().filter_map(Level::left).min_by_key(|room| room.bytes)
}

/// A cgroup with memory accounting.
struct Level {
    directory: OwnedFd,
    path: PathBuf,
    version: Version,
}

fn levels() -> Vec<Level> {
    let Some((own, version)) = cgroup::own("memory") else { return Vec::new() };
    own.ancestors().map_while(|path| Level::open(path, version)).collect()
}

impl Level {
    /// `None` for a directory that is no cgroup, or for the root, which has no limit.
    fn open(path: &Path, version: Version) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, path, flags, Mode::empty()).ok()?;
        let level = Self { directory, path: path.to_owned(), version };
        level.read(level.usage()).is_some().then_some(level)
    }

    fn usage(&self) -> &'static str {
        match self.version {
            Version::One => "memory.usage_in_bytes",
            Version::Two => "memory.current",
        }
    }

    /// The room under its limit, if it has one.
    fn left(&self) -> Option<Room> {
        let number = |file| self.read(file).and_then(|text| text.trim().parse::<u64>().ok());
        let (limits, prefix): (&[_], _) = match self.version {
            Version::One => (&["memory.limit_in_bytes"], "total_"),
            Version::Two => (&["memory.max", "memory.high"], ""),
        };
        // "max" is no number; version 1 has a huge number for it.
        let limit = limits.iter().copied().filter_map(number).min();
        let most = limit.filter(|most| *most < UNLIMITED)?;
        let statistics = self.read("memory.stat").unwrap_or_default();
        // The kernel reclaims the page cache when it needs memory.
        let files = ["inactive_file", "active_file"]
            .map(|name| field(&statistics, &format!("{prefix}{name}")).unwrap_or(0));
        let used = number(self.usage()).unwrap_or(0).saturating_sub(files.iter().sum());
        let limit = Limit::Cgroup(self.path.clone());
        Some(Room { bytes: most.saturating_sub(used), limit })
    }

    fn read(&self, file: &str) -> Option<String> {
        file::small_in(&self.directory, file).ok()
    }
}

fn free_huge_pages() -> u64 {
    let read = |file: &str| {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{file}");
        file::small(path).ok()?.trim().parse::<u64>().ok()
    };
    let free = read("free_hugepages").unwrap_or(0);
    free.saturating_sub(read("resv_hugepages").unwrap_or(0)) * HUGE_PAGE as u64
}

/// The number after a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn there_is_room_for_this_test() {
        let room = room();
        assert!(room.bytes > 1 << 20, "{room:?}");
        assert!(!room.limit.to_string().is_empty());
    }

    #[test]
    fn advice_reaches_the_pages_of_large_memory() {
        // 64 bytes after the start of a page, as malloc(3) aligns it.
        let mut large = Vec::<[u64; 8]>::with_capacity(4 * HUGE_PAGE / 64);
        prefer_huge_pages(large.spare_capacity_mut());
        let inside = large.as_ptr().addr() + HUGE_PAGE;
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_there = false;
        let flags = maps.lines().find_map(|line| {
            if let Some((begin, rest)) = line.split_once('-')
                && let Ok(begin) = usize::from_str_radix(begin, 16)
                && let Some((end, _)) = rest.split_once(' ')
            {
                let end = usize::from_str_radix(end, 16).unwrap();
                is_there = (begin..end).contains(&inside);
            }
            line.strip_prefix("VmFlags:").filter(|_| is_there)
        });
        let has_them = Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert_eq!(flags.unwrap().contains(" hg"), has_them, "{flags:?}");
        // Small and empty memory is left unchanged.
        prefer_huge_pages(Vec::<u64>::with_capacity(1000).spare_capacity_mut());
        prefer_huge_pages::<u64>(&mut []);
    }

    #[test]
    fn what_files_have_in_memory_can_be_had() {
        let directory = std::env::temp_dir().join(format!("wl-memory-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let write = |file: &str, text: &str| fs::write(directory.join(file), text).unwrap();
        assert!(Level::open(&directory, Version::Two).is_none());
        write("memory.current", "60\n");
        write("memory.max", "max\n");
        let level = Level::open(&directory, Version::Two).unwrap();
        assert_eq!(level.left(), None);
        write("memory.max", "100\n");
        write("memory.stat", "anon 30\ninactive_file 10\nactive_file 20\n");
        assert_eq!(level.left().unwrap().bytes, 70);
        write("memory.high", "80\n");
        assert_eq!(level.left().unwrap().bytes, 50);
        write("memory.usage_in_bytes", "200\n");
        write("memory.limit_in_bytes", "100\n");
        let level = Level::open(&directory, Version::One).unwrap();
        assert_eq!(level.left().unwrap().bytes, 0);
        write("memory.stat", "inactive_file 0\ntotal_inactive_file 130\n");
        assert_eq!(level.left().unwrap().bytes, 30);
        fs::remove_dir_all(&directory).unwrap();
    }
}
