//! Numbers that a program publishes without a thread, a file or a socket. They are in a memfd,
//! which readers find among the program's descriptors.
//!
//! ```text
//!   Board::set ─▶ memfd "wirelane-board" ◀─ /proc/PID/fd/N ◀─ of_process
//! ```
//!
//! The kernel removes the memory when the program ends in any way. The program may change its user,
//! its root directory or its system call filter: setting a number is a store to memory. A child
//! inherits the descriptor and shares the pages. They contain the ID of the process that made them,
//! and only that process writes to them.
//!
//! Processes that may trace the program for reading (ptrace(2)) may open its descriptors: root, and
//! processes of the same user, unless the program has changed its user since its start.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread;
use std::time::Duration;

use rustix::fs::{FallocateFlags, FileType, MemfdFlags, Mode, OFlags, SealFlags, Stat};
use rustix::process::Resource;

use crate::error::{OsError, Result};
use crate::fork;
use crate::mmap::Mapping;

const NAME: &str = "wirelane-board";
/// The target of such a descriptor's link in /proc.
const TARGET: &str = "/memfd:wirelane-board (deleted)";
/// The first eight bytes of a board.
const MAGIC: u64 = u64::from_be_bytes(*b"WLBOARD1");
/// Process ID, length of the text, count of the numbers, and a counter of changes.
const HEADER: usize = 64;
const PROCESS: usize = 8;
const LENGTH: usize = 12;
const COUNT: usize = 16;
const CHANGES: usize = 24;
/// The longest text, in bytes; it follows the numbers. Longer texts are not read.
const LONGEST: usize = 1 << 20;
const MOST: usize = 1 << 16;
/// The most boards of one process, and their most bytes in total, that are read: any user can
/// publish boards that root reads.
const BOARDS: usize = 1024;
const BYTES: usize = 4 << 20;
/// The most attempts to read while numbers change.
const LOOKS: u32 = 100;
/// After this number of looks, the writer was probably preempted during a change: sleep, so that it
/// can continue.
const EAGER: u32 = 20;
const NAP: Duration = Duration::from_micros(200);

/// Publishes a text and numbers.
#[derive(Debug)]
pub struct Board {
    mapping: Mapping,
    count: usize,
    /// The fork generation of the process that made it, by which a copy recognizes itself.
    generation: u64,
    /// `None` once another owner has the descriptor.
    fd: Option<OwnedFd>,
    /// Identity of the memory, even if the program closes its descriptors.
    identity: (u64, u64),
}

impl Board {
    /// Publishes `text` and `count` numbers, all 0.
    ///
    /// # Errors
    /// There is no descriptor or memory left, or files may not be that long (`EFBIG`).
    pub fn new(text: &str, count: usize) -> Result<Self> {
        let generation = fork::generation();
        let fail = |call| move |errno| OsError::new(call, NAME, errno);
        let too_long = || OsError::from_errno("fallocate", NAME, libc::EFBIG);
        if text.len() > LONGEST || count > MOST {
            return Err(too_long());
        }
        let len = HEADER + 8 * count + text.len();
        // A larger file would cause SIGXFSZ.
        let limit = rustix::process::getrlimit(Resource::Fsize).current;
        if limit.is_some_and(|limit| limit < len as u64) {
            return Err(too_long());
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(NAME, flags).map_err(fail("memfd_create"))?;
        // Lack of memory is an error here; later it would cause a SIGBUS.
        rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, len as u64)
            .map_err(fail("fallocate"))?;
        // A process that truncated the file would cause SIGBUS here. Without seals, any process
        // with the descriptor could do so.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        let _ = rustix::fs::fcntl_add_seals(&fd, seals);
        let identity = rustix::fs::fstat(&fd).map(identity).map_err(fail("fstat"))?;
        let mapping = Mapping::of_fd(&fd, len, 0, true)?;
        let (length, number) = (text.len() as u32, count as u32);
        let mut board = Self { mapping, count, generation, fd: Some(fd), identity };
        board.write(HEADER + 8 * count, text.as_bytes());
        board.write(PROCESS, &std::process::id().to_ne_bytes());
        board.write(LENGTH, &length.to_ne_bytes());
        board.write(COUNT, &number.to_ne_bytes());
        // Last: a reader that sees the magic number also sees the other fields.
        board.word(0).store(MAGIC, Ordering::Release);
        Ok(board)
    }

    /// Sets the numbers from index `first` on. Ignores numbers beyond the end, and all calls in a
    /// copy of the process ([`Board::is_inherited`]). Makes no system call.
    #[inline]
    pub fn set(&mut self, first: usize, numbers: impl IntoIterator<Item = u64>) {
        if self.is_inherited() {
            return;
        }
        let changes = self.word(CHANGES);
        let before = changes.load(Ordering::Relaxed);
        // Odd while numbers change. A reader that sees a number set after this store also sees this
        // store.
        changes.store(before.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for (position, number) in (first..self.count).zip(numbers) {
            self.word(HEADER + 8 * position).store(number, Ordering::Relaxed);
        }
        changes.store(before.wrapping_add(2), Ordering::Release);
    }

    /// Whether this process is a copy of the board's process, and needs a new board.
    #[inline]
    pub fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }

    /// The word at this offset, a multiple of 8 within the header and the numbers.
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8));
        let offset = offset.min(HEADER - 8 + 8 * self.count);
        // SAFETY: mappings begin at a page, so the word is aligned; it lies within the header and
        // the numbers, whose length is part of the mapping's. This process reads and writes them as
        // atomic words only, but for the header before anybody else can have read the magic number.
        unsafe { &*self.mapping.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Writes constant data, before the magic number.
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.mapping.len());
        // SAFETY: within the mapping, as was just checked; this process reads none of it, and
        // others read copies.
        unsafe {
            let to = self.mapping.as_ptr().add(offset);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }
}

impl Drop for Board {
    /// A program may have closed all descriptors and reused their numbers for other files: those
    /// are not closed.
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take()
            && rustix::fs::fstat(&fd).map(identity) != Ok(self.identity)
        {
            let _ = fd.into_raw_fd();
        }
    }
}

fn identity(status: Stat) -> (u64, u64) {
    (status.st_dev, status.st_ino)
}

/// The contents of a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its text.
    pub text: String,
    /// Its numbers.
    pub numbers: Vec<u64>,
}

/// The boards of process `pid`, in the order of their descriptors, without boards that it inherited
/// from another process. Reading any contents is bounded and never blocks.
///
/// # Errors
/// `NotFound` if there is no such process, `PermissionDenied` if its descriptors may not be seen.
pub fn of_process(pid: u32) -> io::Result<Vec<Shown>> {
    let mut descriptors: Vec<u32> = fs::read_dir(format!("/proc/{pid}/fd"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    descriptors.sort_unstable();
    let mut owner = None;
    let mut found: Vec<((u64, u64), Shown)> = Vec::new();
    let mut left = BYTES;
    for descriptor in descriptors {
        let path = format!("/proc/{pid}/fd/{descriptor}");
        if found.len() >= BOARDS || !leads_to_one(&path) {
            continue;
        }
        let owner = *owner.get_or_insert_with(|| inner(pid));
        // The descriptor may lead to another file now.
        if let Ok((file, identity)) = open(&path)
            && found.iter().all(|(other, _)| *other != identity)
            && let Ok((by, shown)) = read(&file, left)
            && owner == Some(by)
        {
            left = left.saturating_sub(shown.text.len() + 8 * shown.numbers.len());
            found.push((identity, shown));
        }
    }
    Ok(found.into_iter().map(|(_, shown)| shown).collect())
}

fn leads_to_one(path: &str) -> bool {
    fs::read_link(path).is_ok_and(|target| target == Path::new(TARGET))
}

/// The ID of process `pid` in its innermost PID namespace.
fn inner(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // A kernel without PID namespaces does not report it.
    numbers.map_or(Some(pid), |numbers| numbers.split_whitespace().last()?.parse().ok())
}

/// Opens a board for reading, after checking that it is a memfd: opening another file might block,
/// or have side effects.
fn open(path: &str) -> io::Result<(File, (u64, u64))> {
    let flags = OFlags::CLOEXEC | OFlags::PATH;
    let found = rustix::fs::open(path, flags, Mode::empty())?;
    let status = rustix::fs::fstat(&found)?;
    let own = format!("/proc/self/fd/{}", found.as_fd().as_raw_fd());
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile || !leads_to_one(&own) {
        return Err(ErrorKind::NotFound.into());
    }
    let flags = OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NONBLOCK;
    Ok((rustix::fs::open(own, flags, Mode::empty())?.into(), identity(status)))
}

/// The process that wrote the board, and its contents of at most `most` bytes. The contents are
/// untrusted.
fn read(file: &File, most: usize) -> io::Result<(u32, Shown)> {
    let invalid = || io::Error::from(ErrorKind::InvalidData);
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0)?;
    let half = |at| part(&header, at).map(u32::from_ne_bytes).ok_or_else(invalid);
    let magic = part(&header, 0).map(u64::from_ne_bytes);
    let (owner, length, count) = (half(PROCESS)?, half(LENGTH)? as usize, half(COUNT)? as usize);
    if magic != Some(MAGIC) || length > LONGEST || count > MOST {
        return Err(invalid());
    }
    // Allocate no memory for bytes that the file does not have, beyond its end or in a hole.
    let shown = 8 * count + length;
    if shown > most || file.metadata()?.blocks().saturating_mul(512) < (HEADER + shown) as u64 {
        return Err(invalid());
    }
    let mut text = vec![0; length];
    file.read_exact_at(&mut text, (HEADER + 8 * count) as u64)?;
    let text = String::from_utf8(text).map_err(|_| invalid())?;
    let mut bytes = vec![0; 8 * count];
    for look in 0..LOOKS {
        if look >= EAGER {
            thread::sleep(NAP);
        }
        let before = changes(file)?;
        file.read_exact_at(&mut bytes, HEADER as u64)?;
        fence(Ordering::Acquire);
        if before.is_multiple_of(2) && changes(file)? == before {
            break;
        }
        // If the writer was stopped during a change, the numbers are from different moments.
    }
    let (numbers, _) = bytes.as_chunks();
    let numbers = numbers.iter().map(|number| u64::from_ne_bytes(*number)).collect();
    Ok((owner, Shown { text, numbers }))
}

fn changes(file: &File) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, CHANGES as u64)?;
    fence(Ordering::Acquire);
    Ok(u64::from_ne_bytes(bytes))
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;
    use std::process::Command;

    /// The boards of this process with this text. Other tests also have boards.
    fn own(text: &str) -> Vec<Vec<u64>> {
        let all = of_process(std::process::id()).unwrap();
        all.into_iter().filter(|shown| shown.text == text).map(|shown| shown.numbers).collect()
    }

    #[test]
    fn others_see_what_is_set_until_it_is_dropped() {
        let mut board = Board::new("set {ä}", 5).unwrap();
        let mut other = Board::new("set other", 1).unwrap();
        assert_eq!(own("set {ä}"), [[0; 5]]);
        board.set(1, [10, 20]);
        board.set(3, [30]);
        board.set(4, [u64::MAX, 1, 2]);
        board.set(5, [7]);
        board.set(usize::MAX, [7]);
        other.set(0, [3]);
        assert_eq!(own("set {ä}"), [[0, 10, 20, 30, u64::MAX]]);
        assert_eq!(own("set other"), [[3]]);
        drop(board);
        assert!(own("set {ä}").is_empty());
        assert_eq!(own("set other"), [[3]]);
    }

    /// Sets a flag when dropped.
    struct OnDrop<'a>(&'a std::sync::atomic::AtomicBool);

    impl Drop for OnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn numbers_that_are_set_together_are_read_together() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut board = Board::new("together", 100).unwrap();
            let stop = &stop;
            scope.spawn(move || {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    board.set(0, [n; 100]);
                    // Leaves a moment without a change.
                    (0..2000).for_each(|_| std::hint::spin_loop());
                }
            });
            // The other thread ends with this one, also after a panic.
            let _end = OnDrop(stop);
            let (mut seen, mut missed) = (0, 0);
            while seen < 200 {
                // A reader gives up if the writer is always in the middle of a change.
                let Some(numbers) = own("together").pop() else {
                    missed += 1;
                    assert!(missed < 10_000, "{seen} read");
                    continue;
                };
                assert_eq!(numbers, [numbers[0]; 100]);
                seen += 1;
            }
        });
    }

    #[test]
    fn a_program_may_close_its_descriptor_and_use_the_number_for_another() {
        let mut board = Board::new("closed", 1).unwrap();
        let number = board.fd.as_ref().unwrap().as_raw_fd();
        let file = File::open("/proc/self/status").unwrap();
        let copy = rustix::io::fcntl_dupfd_cloexec(&file, 0).unwrap();
        // SAFETY: takes the number from the board, as a program may that knows nothing of it; the
        // board does not close it afterwards, and the test does.
        let mut taken = unsafe { OwnedFd::from_raw_fd(number) };
        rustix::io::dup2(&copy, &mut taken).unwrap();
        board.set(0, [1]);
        assert!(own("closed").is_empty());
        drop(board);
        assert!(rustix::fs::fstat(&taken).is_ok());
    }

    /// A board of a length that files may not have is an error, and causes no signal.
    #[test]
    fn what_is_too_long_is_an_error() {
        assert_eq!(Board::new("", MOST + 1).unwrap_err().errno(), Some(libc::EFBIG));
        let text = "x".repeat(LONGEST + 1);
        assert_eq!(Board::new(&text, 1).unwrap_err().errno(), Some(libc::EFBIG));
    }

    #[test]
    fn who_has_none_shows_none() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let board = Board::new("not of a child", 1).unwrap();
        assert!(of_process(child.id()).unwrap().is_empty());
        drop(board);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(of_process(child.id()).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(of_process(u32::MAX).unwrap_err().kind(), ErrorKind::NotFound);
    }

    /// Boards with damaged contents.
    #[test]
    fn what_is_damaged_is_not_shown() {
        let board = Board::new("damaged", 2).unwrap();
        let fd = board.fd.as_ref().unwrap();
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let mut whole = vec![0; board.mapping.len()];
        File::open(&path).unwrap().read_exact_at(&mut whole, 0).unwrap();
        assert_eq!(reread(&whole).unwrap().1.numbers, [0, 0]);
        for (at, byte) in [(0, 0xff), (LENGTH + 3, 0xff), (COUNT + 3, 0xff), (COUNT, 3), (85, 0xff)]
        {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            assert!(reread(&bytes).is_err(), "{at}");
        }
        for len in 0..whole.len() {
            assert!(reread(&whole[..len]).is_err(), "{len}");
        }
    }

    fn reread(bytes: &[u8]) -> io::Result<(u32, Shown)> {
        let file = File::from(rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
        file.write_all_at(bytes, 0).unwrap();
        read(&file, BYTES)
    }

    /// The reader allocates no memory for boards with only a header, and little for a large number
    /// of boards.
    #[test]
    fn what_others_show_is_read_within_bounds() {
        let header = |length: usize| {
            let mut header = vec![0; HEADER];
            header[..8].copy_from_slice(&MAGIC.to_ne_bytes());
            header[PROCESS..PROCESS + 4].copy_from_slice(&std::process::id().to_ne_bytes());
            header[LENGTH..LENGTH + 4].copy_from_slice(&(length as u32).to_ne_bytes());
            header
        };
        let memory = |length: usize, text: &str| {
            let fd = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC).unwrap();
            let file = File::from(fd);
            file.write_all_at(&header(length), 0).unwrap();
            file.write_all_at(text.as_bytes(), HEADER as u64).unwrap();
            file.set_len((HEADER + length) as u64).unwrap();
            file
        };
        assert!(read(&memory(5, "small"), BYTES).is_ok());
        assert!(read(&memory(5, "small"), 4).is_err());
        for sparse in [64 << 10, LONGEST, LONGEST + 1, 16 << 20] {
            assert!(read(&memory(sparse, ""), BYTES).is_err(), "{sparse}");
        }
        let many: Vec<_> = (0..20).map(|_| memory(LONGEST, &"x".repeat(LONGEST))).collect();
        let shown = of_process(std::process::id()).unwrap();
        let bytes: usize = shown.iter().map(|shown| shown.text.len()).sum();
        assert!((LONGEST..=BYTES).contains(&bytes), "{bytes}");
        drop(many);
    }

    /// A copy of the process has a copy of the descriptor. Its calls of `set` change nothing, and
    /// it shows no board.
    #[test]
    fn a_copy_of_the_process_needs_its_own() {
        let mut board = Board::new("copied", 1).unwrap();
        board.set(0, [1]);
        let (reader, writer) = std::io::pipe().unwrap();
        // SAFETY: the child only stores to memory, waits for the pipe, and ends without returning.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            board.set(0, [2]);
            drop(writer);
            let mut byte = 0u8;
            // SAFETY: reads into a byte of its own until its parent closes the pipe; then the child
            // ends at once. Whether the board is known to be a copy is the status.
            unsafe {
                libc::read(reader.as_raw_fd(), (&raw mut byte).cast(), 1);
                libc::_exit(i32::from(!board.is_inherited()));
            }
        }
        assert!(pid > 0);
        let seen = of_process(pid as u32).unwrap();
        assert!(seen.iter().all(|shown| shown.text != "copied"), "{seen:?}");
        drop(writer);
        let mut status = -1;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0);
        assert_eq!(own("copied"), [[1]]);
        assert!(!board.is_inherited());
    }
}
