//! Owned memory mappings: frame pools on huge pages, and rings that the kernel shares through a
//! descriptor.

use crate::error::{OsError, Result};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

/// The size of the requested huge pages.
pub const HUGE_PAGE: usize = 2 << 20;

/// The kind of pages of a [`Mapping`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Reserved huge pages of 2 MiB (`vm.nr_hugepages`).
    Huge2M,
    /// Base pages; an anonymous mapping also requests transparent huge pages, which the kernel may
    /// grant.
    Plain,
}

/// How [`Mapping::anonymous`] allocates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Fault every page in now, to avoid page faults on the hot path.
    pub prefault: bool,
    /// Prefer the memory of this NUMA node.
    pub numa_node: Option<u32>,
    /// Do not try reserved huge pages.
    pub no_huge: bool,
}

/// Requests that [`Mapping::anonymous`] could not fulfil. The memory is usable without them.
#[derive(Debug, Default)]
pub struct Degraded {
    /// Why there are no reserved huge pages.
    pub huge: Option<OsError>,
    /// Why the memory is not bound to the requested NUMA node.
    pub numa: Option<OsError>,
    /// Why the pages are not faulted in.
    pub prefault: Option<OsError>,
}

/// A mapped region of memory; unmapped when dropped.
///
/// It owns addresses without references: the wrapping type decides which code reads and writes
/// through [`Mapping::as_ptr`], and when. The region is readable and writable for the life of the
/// value.
#[derive(Debug)]
pub struct Mapping {
    address: NonNull<u8>,
    len: usize,
    kind: PageKind,
}

// SAFETY: a `Mapping` only owns an address range; munmap may be called from any thread.
unsafe impl Send for Mapping {}
// SAFETY: through `&Mapping` only the address, length and kind can be read.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `len` bytes of private zeroed memory, on reserved huge pages when there are
    /// enough, and otherwise on base pages with transparent huge pages advised.
    ///
    /// The length is rounded up to whole pages of the actual kind. The second value contains the
    /// unfulfilled requests.
    ///
    /// # Errors
    /// `EINVAL` when `len` is 0 or overflows when rounded, `ENOMEM` when there is no memory.
    pub fn anonymous(len: usize, options: Options) -> Result<(Mapping, Degraded)> {
        let mut degraded = Degraded::default();
        // Miri has no huge pages, but can run the crates that depend on this one.
        if !options.no_huge && !cfg!(miri) {
            match Mapping::huge(len, options, &mut degraded) {
                Ok(mapping) => return Ok((mapping, degraded)),
                Err(error) => degraded = Degraded { huge: Some(error), ..Degraded::default() },
            }
        }
        let len = round_up(len, page_size(), "anonymous")?;
        let mapping = map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0, PageKind::Plain)?;
        if len >= HUGE_PAGE {
            // Only kernels without transparent huge pages refuse it, and then there is no gain.
            let _ = mapping.advise(libc::MADV_HUGEPAGE, "madvise MADV_HUGEPAGE");
        }
        if let Some(node) = options.numa_node {
            degraded.numa = mapping.prefer_node(node).err();
        }
        if options.prefault {
            degraded.prefault = mapping.populate().err();
        }
        Ok((mapping, degraded))
    }

    /// Maps `len` bytes of `fd` from `offset`, shared, e.g. the rings of a packet socket;
    /// `populate` faults its pages in now.
    ///
    /// The mapping keeps the underlying object alive after the descriptor is closed.
    ///
    /// # Errors
    /// The errors of mmap(2); for a packet socket `EINVAL` when `len` is not the size of its rings.
    pub fn of_fd(fd: impl AsFd, len: usize, offset: u64, populate: bool) -> Result<Mapping> {
        let flags = libc::MAP_SHARED | if populate { libc::MAP_POPULATE } else { 0 };
        let offset = libc::off_t::try_from(offset)
            .map_err(|_| OsError::from_errno("mmap", offset.to_string(), libc::EOVERFLOW))?;
        map(len, flags, fd.as_fd().as_raw_fd(), offset, PageKind::Plain)
    }

    /// The first byte; aligned to at least the base page size, and to [`HUGE_PAGE`] when the kind
    /// is huge.
    pub fn as_ptr(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// The first byte, as [`Mapping::as_ptr`].
    pub fn as_non_null(&self) -> NonNull<u8> {
        self.address
    }

    /// The length in bytes; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The kind of pages.
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// Prefers the memory of NUMA node `node` for pages not yet faulted in (`MPOL_PREFERRED`; other
    /// nodes are used when it is full).
    ///
    /// # Errors
    /// `EINVAL` for a node that does not exist, `ENOSYS` on a kernel without NUMA.
    pub fn prefer_node(&self, node: u32) -> Result<()> {
        const BITS: usize = 64;
        // The kernel's MAX_NUMNODES is at most 1024 (NODES_SHIFT 10).
        let mut mask = [0u64; 1024 / BITS];
        let object = || format!("node {node}");
        let Some(word) = mask.get_mut(node as usize / BITS) else {
            return Err(OsError::from_errno("mbind", object(), libc::EINVAL));
        };
        *word = 1u64 << (node as usize % BITS);
        // get_nodes() in mm/mempolicy.c reads one bit less than maxnode.
        let bits = mask.len() * BITS + 1;
        // SAFETY: the range is this mapping's own and `mask` outlives the call; mbind changes
        // placement, not contents.
        let status = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.address.as_ptr(),
                self.len,
                libc::MPOL_PREFERRED as libc::c_ulong,
                mask.as_ptr(),
                bits as libc::c_ulong,
                0 as libc::c_uint,
            )
        };
        if status == 0 { Ok(()) } else { Err(OsError::last("mbind", object())) }
    }

    fn huge(len: usize, options: Options, degraded: &mut Degraded) -> Result<Mapping> {
        let len = round_up(len, HUGE_PAGE, "huge pages")?;
        let flags =
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
        let mapping = map(len, flags, -1, 0, PageKind::Huge2M)?;
        if let Some(node) = options.numa_node {
            degraded.numa = mapping.prefer_node(node).err();
        }
        // Always: mmap reserves from the global pool, but a cgroup limit takes effect only at the
        // page fault, as a SIGBUS. MADV_POPULATE_WRITE turns that into an error (Linux 5.14).
        mapping.populate()?;
        Ok(mapping)
    }

    /// Faults every page in for writing.
    fn populate(&self) -> Result<()> {
        match self.advise(MADV_POPULATE_WRITE, "madvise MADV_POPULATE_WRITE") {
            // Kernels before 5.14 do not support the advice: write a byte of each page instead.
            Err(error) if error.errno() == Some(libc::EINVAL) => {
                for offset in (0..self.len).step_by(page_size()) {
                    // SAFETY: the offset is inside this mapping, which nobody else has seen yet; it
                    // is zero already.
                    unsafe { self.address.as_ptr().add(offset).write_volatile(0) };
                }
                Ok(())
            }
            other => other,
        }
    }

    fn advise(&self, advice: libc::c_int, call: &'static str) -> Result<()> {
        if cfg!(miri) {
            return Ok(());
        }
        // SAFETY: the range is this mapping's own, and only advice that keeps its contents is
        // given.
        let status = unsafe { libc::madvise(self.address.as_ptr().cast(), self.len, advice) };
        if status == 0 { Ok(()) } else { Err(OsError::last(call, format!("{} bytes", self.len))) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was returned by mmap and is unmapped only here. It cannot fail for a
        // whole mapping.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.len) };
    }
}

/// The base page size in bytes.
pub fn page_size() -> usize {
    // SAFETY: sysconf reads a constant of the process.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// `MADV_POPULATE_WRITE`, Linux 5.14; not in every libc.
const MADV_POPULATE_WRITE: libc::c_int = 23;

fn map(
    len: usize,
    flags: libc::c_int,
    fd: libc::c_int,
    offset: libc::off_t,
    kind: PageKind,
) -> Result<Mapping> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: without MAP_FIXED the kernel picks a free range, so no existing memory is affected.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, offset) };
    let failed = |source: io::Error| {
        let pages = if kind == PageKind::Huge2M { " on huge pages" } else { "" };
        OsError::new("mmap", format!("{len} bytes{pages}"), source)
    };
    if address == libc::MAP_FAILED {
        return Err(failed(io::Error::last_os_error()));
    }
    let Some(address) = NonNull::new(address.cast::<u8>()) else {
        return Err(failed(io::Error::from_raw_os_error(libc::EFAULT)));
    };
    Ok(Mapping { address, len, kind })
}

fn round_up(len: usize, unit: usize, object: &'static str) -> Result<usize> {
    len.checked_next_multiple_of(unit)
        .filter(|rounded| *rounded > 0 && isize::try_from(*rounded).is_ok())
        .ok_or_else(|| OsError::from_errno("mmap", object, libc::EINVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(mapping: &Mapping) {
        for offset in [0, mapping.len() / 2, mapping.len() - 1] {
            // SAFETY: in bounds of a mapping that only this test knows.
            unsafe {
                assert_eq!(mapping.as_ptr().add(offset).read(), 0);
                mapping.as_ptr().add(offset).write(0xa5);
                assert_eq!(mapping.as_ptr().add(offset).read(), 0xa5);
            }
        }
    }

    #[test]
    fn anonymous_is_zeroed_rounded_and_says_its_kind() {
        let options = Options { prefault: true, ..Options::default() };
        let (mapping, degraded) = Mapping::anonymous(5000, options).unwrap();
        fill(&mapping);
        assert!(mapping.len() >= 5000);
        match mapping.kind() {
            PageKind::Huge2M => assert_eq!(mapping.len(), HUGE_PAGE),
            PageKind::Plain => {
                assert_eq!(mapping.len() % page_size(), 0);
                assert!(degraded.huge.is_some() || cfg!(miri));
            }
        }
        assert!(degraded.prefault.is_none());
    }

    #[test]
    fn anonymous_without_huge_pages() {
        let options = Options { no_huge: true, ..Options::default() };
        let (mapping, degraded) = Mapping::anonymous(3 * HUGE_PAGE, options).unwrap();
        assert_eq!((mapping.kind(), mapping.len()), (PageKind::Plain, 3 * HUGE_PAGE));
        assert!(degraded.huge.is_none());
        fill(&mapping);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no mbind")]
    fn numa_failure_is_reported_and_not_fatal() {
        let options = Options { numa_node: Some(1023), ..Options::default() };
        let (mapping, degraded) = Mapping::anonymous(page_size(), options).unwrap();
        fill(&mapping);
        assert!(degraded.numa.unwrap().to_string().starts_with("mbind(node 1023): "));
        assert_eq!(mapping.prefer_node(u32::MAX).unwrap_err().errno(), Some(libc::EINVAL));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no mbind")]
    fn node_zero_can_be_preferred_where_there_is_numa() {
        let (mapping, _) = Mapping::anonymous(page_size(), Options::default()).unwrap();
        if let Err(error) = mapping.prefer_node(0) {
            assert_eq!(error.errno(), Some(libc::ENOSYS), "{error}");
        }
    }

    #[test]
    fn impossible_len() {
        for len in [0, usize::MAX, isize::MAX as usize] {
            assert!(Mapping::anonymous(len, Options::default()).is_err(), "{len}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn of_fd_is_shared_with_the_file_and_outlives_it() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(
            Mapping::of_fd(&file, page_size(), 0, false).unwrap_err().errno(),
            Some(libc::EACCES),
            "a shared writable mapping of a read-only descriptor"
        );
        let path = std::env::temp_dir().join(format!("wirelane-os-mmap-{}", std::process::id()));
        std::fs::write(&path, vec![7u8; 2 * page_size()]).unwrap();
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let mapping = Mapping::of_fd(&file, page_size(), page_size() as u64, true).unwrap();
        drop(file);
        // SAFETY: in bounds of the mapping.
        unsafe {
            assert_eq!(mapping.as_ptr().read(), 7);
            mapping.as_ptr().write(9);
        }
        assert_eq!(std::fs::read(&path).unwrap()[page_size()], 9);
        std::fs::remove_file(&path).unwrap();
    }
}
