//! AF_XDP sockets: memory registered with the kernel, four rings, and wake-ups.
//!
//! ```text
//!   free chunks ──fill──▶ kernel ──rx──▶ received       addresses are offsets into the UMEM
//!   to be sent ────tx───▶ kernel ──completion──▶ sent
//! ```
//!
//! Use this order, which loses no packet: [`XskSocket::open`], [`XskSocket::register_umem`], the
//! sizes of the rings, [`XskSocket::map_ring`], chunks into the fill ring (zero-copy drivers need
//! them early), and [`XskSocket::bind`] last. Sources: `net/xdp/xsk.c`, `net/xdp/xdp_umem.c` and
//! `Documentation/networking/af_xdp.rst` of Linux.

mod ring;
mod uapi;

pub use ring::{Completion, Consumed, Fill, MappedRing, Produced, RingKind, Rx, Tx};
pub use uapi::*;

use crate::error::{OsError, Result};
use crate::socket;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use uapi::option;

/// A UMEM.
#[derive(Clone, Copy, Debug)]
pub struct Umem {
    /// First byte; page-aligned.
    pub address: *mut u8,
    /// Bytes; with aligned chunks a multiple of their size.
    pub len: usize,
    /// Bytes per chunk: 2048 to the page size; with aligned chunks a power of two.
    pub chunk_size: u32,
    /// Bytes reserved before packets, in addition to the kernel's headroom.
    pub headroom: u32,
    /// Chunks may begin anywhere.
    pub unaligned: bool,
    /// Reserves room for an [`XskTxMetadata`] before every packet to send, in the same chunk. Linux
    /// 6.11.
    pub tx_metadata: bool,
}

/// An AF_XDP socket.
#[derive(Debug)]
pub struct XskSocket {
    fd: OwnedFd,
}

impl XskSocket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_RAW, `EAFNOSUPPORT` on a kernel without `CONFIG_XDP_SOCKETS`.
    pub fn open() -> Result<XskSocket> {
        let family = AddressFamily::from_raw(AF_XDP);
        rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map(|fd| XskSocket { fd })
            .map_err(|errno| OsError::new("socket", "AF_XDP", errno))
    }

    /// Registers memory. The kernel pins its pages, so unmapping them is no error.
    ///
    /// # Safety
    /// The memory is mapped for reading and writing. The kernel writes to chunks whose addresses
    /// are in the fill ring until they return in the RX ring or the socket is closed, and reads
    /// chunks in the TX ring until they return in the completion ring. No other code uses a chunk
    /// during that time.
    ///
    /// # Errors
    /// `EINVAL` for shapes that the kernel refuses and metadata that it does not support, `ENOBUFS`
    /// over `RLIMIT_MEMLOCK` without CAP_IPC_LOCK, `ENOMEM`, `EBUSY` when the socket already has
    /// memory.
    pub unsafe fn register_umem(&self, umem: &Umem) -> Result<()> {
        const CALL: &str = "setsockopt XDP_UMEM_REG";
        let request = XdpUmemReg {
            addr: umem.address as u64,
            len: umem.len as u64,
            chunk_size: umem.chunk_size,
            headroom: umem.headroom,
            flags: if umem.unaligned { XDP_UMEM_UNALIGNED_CHUNK_FLAG } else { 0 }
                | if umem.tx_metadata { XDP_UMEM_TX_METADATA_LEN } else { 0 },
            tx_metadata_len: if umem.tx_metadata { size_of::<XskTxMetadata>() as u32 } else { 0 },
        };
        let object = || format!("{} bytes in chunks of {}", umem.len, umem.chunk_size);
        // Older kernels read the part of the structure that they know (`xsk_setsockopt`). A kernel
        // without `flags` (before 5.4) has no unaligned chunks and would treat them as aligned.
        socket::set(self.as_fd(), (SOL_XDP, option::UMEM_REG), &request, CALL, object)
    }

    /// Makes a ring of `size` elements, a power of two.
    ///
    /// # Errors
    /// `EINVAL` for other sizes or when the ring exists, `ENOMEM`.
    pub fn set_ring<K: RingKind>(&self, size: u32) -> Result<()> {
        let (option, call) = K::OPTION;
        let size = i32::try_from(size).unwrap_or(i32::MAX);
        self.set(option, size, call)
    }

    /// Maps a ring that [`XskSocket::set_ring`] made with this size.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn map_ring<K: RingKind>(&self, size: u32) -> Result<MappedRing<K>> {
        let offsets: XdpMmapOffsets = socket::get(
            self.as_fd(),
            (SOL_XDP, option::MMAP_OFFSETS),
            "getsockopt XDP_MMAP_OFFSETS",
        )?;
        MappedRing::new(self.as_fd(), size, &offsets)
    }

    /// Binds to a queue, with `XDP_*` flags. From now on the kernel takes chunks and packets from
    /// the rings.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for zero copy without driver support, `EBUSY` while the queue has another
    /// socket (also briefly after that one was closed), `EINVAL` for an unknown queue or flag,
    /// `ENODEV`, `ENETDOWN`.
    pub fn bind(&self, ifindex: u32, queue: u32, flags: u16) -> Result<()> {
        self.bind_address(ifindex, queue, flags, 0)
    }

    /// Binds to a queue with the UMEM and the mode of `owner`, which is bound.
    ///
    /// # Errors
    /// As [`XskSocket::bind`].
    pub fn bind_shared(&self, ifindex: u32, queue: u32, owner: &XskSocket) -> Result<()> {
        let owner = u32::try_from(owner.fd.as_raw_fd()).unwrap_or_default();
        self.bind_address(ifindex, queue, XDP_SHARED_UMEM, owner)
    }

    /// Whether the actual mode is zero copy.
    ///
    /// # Errors
    /// The errors of getsockopt(2).
    pub fn is_zero_copy(&self) -> Result<bool> {
        let level = (SOL_XDP, option::OPTIONS);
        let flags: i32 = socket::get(self.as_fd(), level, "getsockopt XDP_OPTIONS")?;
        Ok(flags as u32 & XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// The kernel's counters; zero on a kernel that is too old to count.
    ///
    /// # Errors
    /// The errors of getsockopt(2).
    pub fn statistics(&self) -> Result<XdpStatistics> {
        socket::get(self.as_fd(), (SOL_XDP, option::STATISTICS), "getsockopt XDP_STATISTICS")
    }

    /// Lets one [`XskSocket::wake_tx`] send up to `packets` in copy mode, at least
    /// [`TX_BATCH_SIZE`] and at most the size of the TX ring, which must exist.
    ///
    /// # Errors
    /// `ENOPROTOOPT` before Linux 6.17, `EACCES` for other numbers.
    pub fn set_tx_budget(&self, packets: u32) -> Result<()> {
        let packets = i32::try_from(packets).unwrap_or(i32::MAX);
        self.set(option::MAX_TX_SKB_BUDGET, packets, "setsockopt XDP_MAX_TX_SKB_BUDGET")
    }

    /// Prefers busy polling: receiving and sending calls serve the driver's queue, for up to
    /// `microseconds` and `budget` packets at a time, with its interrupts disabled (Linux 5.11; see
    /// also `napi_defer_hard_irqs`).
    ///
    /// # Errors
    /// `ENOPROTOOPT` before Linux 5.11, `EPERM` without CAP_NET_ADMIN.
    pub fn set_busy_poll(&self, microseconds: u32, budget: u16) -> Result<()> {
        let microseconds = i32::try_from(microseconds).unwrap_or(i32::MAX);
        for (option, value, call) in [
            (SO_PREFER_BUSY_POLL, 1, "setsockopt SO_PREFER_BUSY_POLL"),
            (libc::SO_BUSY_POLL, microseconds, "setsockopt SO_BUSY_POLL"),
            (SO_BUSY_POLL_BUDGET, i32::from(budget), "setsockopt SO_BUSY_POLL_BUDGET"),
        ] {
            let object = || format!("fd {}", self.fd.as_raw_fd());
            socket::set(self.as_fd(), (libc::SOL_SOCKET, option), &value, call, object)?;
        }
        Ok(())
    }

    /// Makes the kernel process the TX ring. In copy mode it sends during the call.
    ///
    /// # Errors
    /// The bare errno, as this is on the hot path: `EAGAIN`, `EBUSY` and `ENOBUFS` mean that the
    /// caller must retry; `ENETDOWN`, and `ENXIO` when the interface is gone.
    #[inline]
    pub fn wake_tx(&self) -> io::Result<()> {
        // SAFETY: an empty message without address: the kernel takes packets from the ring.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                std::ptr::null(),
                0,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Makes the driver process the fill ring, and with busy polling receive.
    ///
    /// # Errors
    /// As [`XskSocket::wake_tx`].
    #[inline]
    pub fn wake_rx(&self) -> io::Result<()> {
        // SAFETY: an empty buffer: nothing is written.
        let received = unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        if received < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits until there is room in the TX ring, at most `timeout`. In copy mode this also sends
    /// its packets.
    ///
    /// # Errors
    /// The errors of poll(2).
    pub fn wait_writable(&self, timeout: Duration) -> Result<()> {
        let timeout =
            Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        let mut set = [PollFd::new(&self.fd, PollFlags::OUT)];
        match rustix::event::poll(&mut set, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(OsError::new("poll", "AF_XDP", errno)),
        }
    }

    /// The socket's pending error, which reading clears: `ENETDOWN` when the interface was removed.
    ///
    /// # Errors
    /// The errors of getsockopt(2).
    pub fn take_error(&self) -> Result<Option<io::Error>> {
        let level = (libc::SOL_SOCKET, libc::SO_ERROR);
        let errno: i32 = socket::get(self.as_fd(), level, "getsockopt SO_ERROR")?;
        Ok((errno != 0).then(|| io::Error::from_raw_os_error(errno)))
    }

    fn bind_address(&self, ifindex: u32, queue: u32, flags: u16, owner: u32) -> Result<()> {
        let address =
            SockaddrXdp { family: AF_XDP, flags, ifindex, queue_id: queue, shared_umem_fd: owner };
        // SAFETY: `address` is a sockaddr_xdp without padding, readable for its whole size.
        let status = unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                std::ptr::from_ref(&address).cast(),
                size_of::<SockaddrXdp>() as libc::socklen_t,
            )
        };
        if status == 0 {
            return Ok(());
        }
        Err(OsError::last("bind AF_XDP", format!("interface index {ifindex}, queue {queue}")))
    }

    fn set(&self, option: i32, value: i32, call: &'static str) -> Result<()> {
        let object = || value.to_string();
        socket::set(self.as_fd(), (SOL_XDP, option), &value, call, object)
    }
}

/// Waits until the redirects of all XDP program runs that began before this call are complete.
///
/// Programs run, and their redirects end, within one NAPI poll, which is a read-side critical
/// section of RCU; `MEMBARRIER_CMD_GLOBAL` (Linux 4.3) is `synchronize_rcu`. Where it is refused
/// (`nohz_full`), this sleeps longer than any poll.
pub fn wait_for_receivers() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: the call touches no memory.
    let status = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if status != 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl AsFd for XskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// `SO_PREFER_BUSY_POLL`, Linux 5.11; not in every libc.
const SO_PREFER_BUSY_POLL: i32 = 69;
/// `SO_BUSY_POLL_BUDGET`, Linux 5.11; not in every libc.
const SO_BUSY_POLL_BUDGET: i32 = 70;

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
