//! AF_PACKET sockets with memory-mapped rings.
//!
//! The order that loses and mixes nothing: [`PacketSocket::open`] (which receives nothing yet), version, reserve, rings,
//! [`PacketSocket::map`], filter, and [`PacketSocket::bind`] last. Sources: `net/packet/af_packet.c` and
//! `Documentation/networking/packet_mmap.rst` of Linux.

mod fanout;
mod ring;
mod uapi;

pub use ring::{RingRequest, Statistics, TimestampSource, TxRingRequest, Version};
pub use uapi::*;

use crate::error::{OsError, Result};
use crate::iface;
use crate::mmap::Mapping;
use crate::socket::{self, Plain};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType};
use std::io::{self, IoSlice};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use uapi::option;

/// An AF_PACKET socket of type `SOCK_RAW`; frames begin with the link-layer header.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

impl PacketSocket {
    /// Opens a socket in the calling thread's network namespace. Its protocol is 0, so that it receives nothing before
    /// [`PacketSocket::bind`]: otherwise packets of every interface arrive before the filter does.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_RAW.
    pub fn open() -> Result<PacketSocket> {
        rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map(|fd| PacketSocket { fd })
            .map_err(|errno| OsError::new("socket", "AF_PACKET", errno))
    }

    /// Chooses the ring layout.
    ///
    /// # Errors
    /// `EBUSY` when the socket has a ring already.
    pub fn set_version(&self, version: Version) -> Result<()> {
        self.set(option::VERSION, &(version as i32), "setsockopt PACKET_VERSION")
    }

    /// [`PacketSocket::set_version`] with [`Version::V3`].
    ///
    /// # Errors
    /// As there.
    pub fn set_version_v3(&self) -> Result<()> {
        self.set_version(Version::V3)
    }

    /// The ring layout chosen; `None` for version 1, with which a socket starts.
    ///
    /// # Errors
    /// What getsockopt(2) gives.
    pub fn version(&self) -> Result<Option<Version>> {
        let version: i32 = socket::get(
            self.as_fd(),
            (libc::SOL_PACKET, option::VERSION),
            "getsockopt PACKET_VERSION",
        )?;
        Ok([Version::V2, Version::V3].into_iter().find(|known| *known as i32 == version))
    }

    /// Leaves `bytes` free before each received frame, e.g. 4 to put a VLAN tag back in place.
    ///
    /// # Errors
    /// `EBUSY` when the socket has a ring already, `EINVAL` when too large.
    pub fn set_reserve(&self, bytes: u32) -> Result<()> {
        let value = i32::try_from(bytes)
            .map_err(|_| self.error("setsockopt PACKET_RESERVE", libc::EINVAL))?;
        self.set(option::RESERVE, &value, "setsockopt PACKET_RESERVE")
    }

    /// Makes the RX ring; the version must be 3. Map it with [`PacketSocket::map`], where it comes first.
    ///
    /// # Errors
    /// `EINVAL` for sizes the kernel refuses, `ENOMEM` when it has no memory for the blocks.
    pub fn set_rx_ring(&self, request: &RingRequest) -> Result<()> {
        const CALL: &str = "setsockopt PACKET_RX_RING";
        let frame_nr = request.frames().ok_or_else(|| self.error(CALL, libc::EINVAL))?;
        let raw = TpacketReq3 {
            block_size: request.block_size,
            block_nr: request.block_count,
            frame_size: request.frame_size,
            frame_nr,
            retire_blk_tov: request.retire_ms,
            sizeof_priv: 0,
            feature_req_word: if request.fill_rxhash { TP_FT_REQ_FILL_RXHASH } else { 0 },
        };
        self.set(option::RX_RING, &raw, CALL)
    }

    /// Makes the TX ring, whose version must be that of the RX ring if there is one.
    ///
    /// Prefer [`Version::V2`] on a socket of its own: it exists since Linux 2.6.31 and is what version 3 does on transmit
    /// anyway (frames of one size; 4.11 and later, 16 bytes more header, `next_offset` must be 0). [`Version::V3`] is for
    /// a single socket that also has a version 3 RX ring. A socket that only transmits stays at protocol 0: give 0 to
    /// [`PacketSocket::bind`], and the kernel will not spend a cycle on receiving for it.
    ///
    /// # Errors
    /// `EBUSY` when the socket has a ring of the other version, `EINVAL` for sizes the kernel refuses, `ENOMEM`.
    pub fn set_tx_ring(&self, version: Version, request: &TxRingRequest) -> Result<()> {
        const CALL: &str = "setsockopt PACKET_TX_RING";
        if self.version()? != Some(version) {
            self.set_version(version)?;
        }
        let frame_nr = request.frames().ok_or_else(|| self.error(CALL, libc::EINVAL))?;
        let TxRingRequest { block_size, block_count: block_nr, frame_size } = *request;
        match version {
            Version::V2 => {
                let raw = TpacketReq { block_size, block_nr, frame_size, frame_nr };
                self.set(option::TX_RING, &raw, CALL)
            }
            Version::V3 => {
                let raw = TpacketReq3 {
                    block_size,
                    block_nr,
                    frame_size,
                    frame_nr,
                    ..TpacketReq3::default()
                };
                self.set(option::TX_RING, &raw, CALL)
            }
        }
    }

    /// Maps the rings: the RX ring first, the TX ring right after it; `len` is the sum of both. The mapping may outlive the
    /// socket, after whose closing the kernel no longer touches it.
    ///
    /// # Errors
    /// `EINVAL` when `len` is not that sum.
    pub fn map(&self, len: usize) -> Result<Mapping> {
        Mapping::of_fd(self.as_fd(), len, 0, true)
    }

    /// Starts to receive `protocol_be` (network byte order, e.g. [`ETH_P_ALL_BE`]; 0 receives nothing) from the
    /// interface, and makes it the one [`PacketSocket::send_pending`] sends to.
    ///
    /// # Errors
    /// `ENODEV` when there is no such interface, `ENETDOWN` when it is down.
    pub fn bind(&self, ifindex: u32, protocol_be: u16) -> Result<()> {
        const CALL: &str = "bind";
        let object = || format!("interface index {ifindex}");
        let address = SockaddrLl {
            family: libc::AF_PACKET as u16,
            protocol: protocol_be,
            ifindex: ifindex_i32(ifindex, CALL)?,
            ..SockaddrLl::default()
        };
        // SAFETY: `address` is a sockaddr_ll without padding, readable for its whole size.
        let status = unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                std::ptr::from_ref(&address).cast(),
                size_of::<SockaddrLl>() as libc::socklen_t,
            )
        };
        if status != 0 {
            return Err(OsError::last(CALL, object()));
        }
        // packet_do_bind() leaves ENETDOWN as the socket's pending error and returns success.
        match self.take_error()? {
            None => Ok(()),
            Some(source) => Err(OsError::new(CALL, object(), source)),
        }
    }

    /// What the socket is bound to, read back: index, protocol, link type and address of the interface.
    ///
    /// # Errors
    /// What getsockname(2) gives.
    pub fn local_address(&self) -> Result<SockaddrLl> {
        let mut address = SockaddrLl::default();
        let mut len = size_of::<SockaddrLl>() as libc::socklen_t;
        // SAFETY: `address` is writable for `len` bytes, and any bytes are valid in it.
        let status = unsafe {
            libc::getsockname(
                self.fd.as_raw_fd(),
                std::ptr::from_mut(&mut address).cast(),
                &mut len,
            )
        };
        if status == 0 { Ok(address) } else { Err(OsError::last("getsockname", "AF_PACKET")) }
    }

    /// Attaches a classic BPF program, in place of the one before: every packet meets the old or the new one, none neither.
    /// Its result is the number of bytes to capture, 0 to leave the packet out.
    ///
    /// # Errors
    /// `EINVAL` when the kernel's verifier refuses the program, `ENOMEM` when it is over `net.core.optmem_max`.
    pub fn attach_filter(&self, program: &[SockFilter]) -> Result<()> {
        attach_filter(self, program)
    }

    /// Removes the filter: every packet of the bound interface and protocol is received.
    ///
    /// # Errors
    /// `ENOENT` when there is none.
    pub fn detach_filter(&self) -> Result<()> {
        self.set_socket(libc::SO_DETACH_FILTER, 0, "setsockopt SO_DETACH_FILTER")
    }

    /// Adds or removes this socket's wish for promiscuous mode. The kernel counts wishes, and forgets this one when the socket
    /// is closed, however the process ends.
    ///
    /// # Errors
    /// `ENODEV` for an unknown interface. Removing a wish never made is none (`packet_mc_drop`).
    pub fn set_promiscuous(&self, ifindex: u32, on: bool) -> Result<()> {
        let (name, call) = if on {
            (option::ADD_MEMBERSHIP, "setsockopt PACKET_ADD_MEMBERSHIP")
        } else {
            (option::DROP_MEMBERSHIP, "setsockopt PACKET_DROP_MEMBERSHIP")
        };
        let request = PacketMreq {
            ifindex: ifindex_i32(ifindex, call)?,
            kind: option::MR_PROMISC,
            ..PacketMreq::default()
        };
        self.set(name, &request, call)
    }

    /// Sends past the queueing discipline, straight to the driver's queue. Without one chosen by XPS, that queue is the sending
    /// CPU modulo the number of TX queues (`packet_pick_tx_queue`).
    ///
    /// # Errors
    /// What setsockopt(2) gives.
    pub fn set_qdisc_bypass(&self, on: bool) -> Result<()> {
        self.set(option::QDISC_BYPASS, &i32::from(on), "setsockopt PACKET_QDISC_BYPASS")
    }

    /// Does not receive what this host sends.
    ///
    /// # Errors
    /// `ENOPROTOOPT` before Linux 4.20.
    pub fn set_ignore_outgoing(&self, on: bool) -> Result<()> {
        self.set(option::IGNORE_OUTGOING, &i32::from(on), "setsockopt PACKET_IGNORE_OUTGOING")
    }

    /// Skips malformed TX frames instead of stopping at them with `EINVAL`.
    ///
    /// # Errors
    /// `EBUSY` when the socket has a ring already.
    pub fn set_loss(&self, on: bool) -> Result<()> {
        self.set(option::LOSS, &i32::from(on), "setsockopt PACKET_LOSS")
    }

    /// Puts a [`VirtioNetHdr`] before each packet, received and sent.
    ///
    /// # Errors
    /// `EBUSY` when the socket has a ring already.
    pub fn set_vnet_hdr(&self, on: bool) -> Result<()> {
        self.set(option::VNET_HDR, &i32::from(on), "setsockopt PACKET_VNET_HDR")
    }

    /// Chooses the clock of the time stamps; the ring shows them in nanoseconds whichever it is.
    ///
    /// # Errors
    /// What setsockopt(2) gives.
    pub fn set_timestamp_source(&self, source: TimestampSource) -> Result<()> {
        let value = match source {
            TimestampSource::Software => libc::SOF_TIMESTAMPING_SOFTWARE,
            TimestampSource::Hardware => libc::SOF_TIMESTAMPING_RAW_HARDWARE,
        };
        self.set(option::TIMESTAMP, &(value as i32), "setsockopt PACKET_TIMESTAMP")
    }

    /// Lets a poll spin on the device for up to `microseconds` before it sleeps, where the kernel knows which NAPI context the
    /// socket is fed by; 0 turns that off.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN when it raises the value.
    pub fn set_busy_poll(&self, microseconds: u32) -> Result<()> {
        let value = i32::try_from(microseconds).unwrap_or(i32::MAX);
        self.set_socket(libc::SO_BUSY_POLL, value, "setsockopt SO_BUSY_POLL")
    }

    /// Asks for `bytes` of send buffer, beyond `net.core.wmem_max` with CAP_NET_ADMIN; it bounds what a TX ring may have in
    /// flight.
    ///
    /// # Errors
    /// What setsockopt(2) gives.
    pub fn set_send_buffer(&self, bytes: usize) -> Result<()> {
        let value = i32::try_from(bytes).unwrap_or(i32::MAX);
        self.set_socket(libc::SO_SNDBUFFORCE, value, "setsockopt SO_SNDBUFFORCE")
            .or_else(|_| self.set_socket(libc::SO_SNDBUF, value, "setsockopt SO_SNDBUF"))
    }

    /// The send buffer in bytes, as the kernel accounts for it (twice what was asked).
    ///
    /// # Errors
    /// What getsockopt(2) gives.
    pub fn send_buffer(&self) -> Result<usize> {
        let level = (libc::SOL_SOCKET, libc::SO_SNDBUF);
        let value: i32 = socket::get(self.as_fd(), level, "getsockopt SO_SNDBUF")?;
        Ok(usize::try_from(value).unwrap_or(0))
    }

    /// What happened since this was last called; reading resets the kernel's 32-bit counters, so call it often enough that they
    /// cannot wrap, and from one place.
    ///
    /// # Errors
    /// What getsockopt(2) gives.
    pub fn statistics(&self) -> Result<Statistics> {
        let level = (libc::SOL_PACKET, option::STATISTICS);
        let raw: TpacketStatsV3 = socket::get(self.as_fd(), level, "getsockopt PACKET_STATISTICS")?;
        Ok(Statistics { packets: raw.packets, drops: raw.drops, freezes: raw.freeze_q_cnt })
    }

    /// Whether it was bound to an interface that is no longer there (`packet_notifier`). One that was moved to another
    /// namespace is not.
    ///
    /// # Errors
    /// What getsockname(2) gives.
    pub fn has_lost_interface(&self) -> Result<bool> {
        Ok(self.local_address()?.ifindex < 0)
    }

    /// Index and link type (`ARPHRD_*`) of the interface `name` in the namespace of this socket, whichever the calling
    /// thread is in.
    ///
    /// # Errors
    /// `ENODEV` when there is none of this name.
    pub fn find_interface(&self, name: &str) -> Result<(u32, u16)> {
        iface::find_by(self.as_fd(), name)
    }

    /// The link type of an interface (`ARPHRD_*`, e.g. 1 for Ethernet).
    ///
    /// # Errors
    /// `ENXIO` or `ENODEV` for an unknown interface.
    pub fn link_type(&self, ifindex: u32) -> Result<u16> {
        iface::link_type(&iface::name(ifindex)?)
    }

    /// The MTU of the interface called `name` now, in the namespace of the socket.
    ///
    /// # Errors
    /// `ENODEV` if there is none of that name.
    pub fn mtu(&self, name: &str) -> Result<u32> {
        iface::mtu_by(self.as_fd(), name)
    }

    /// Hands every TX frame with [`TP_STATUS_SEND_REQUEST`] to the kernel, without waiting. Gives the number of bytes taken, 0
    /// when there was nothing to send or no room.
    ///
    /// # Errors
    /// The bare errno, as this is on the hot path: `ENOBUFS` when the device's queue is full (try again later), `ENETDOWN`,
    /// `EMSGSIZE` for a frame over the MTU, `EINVAL` for a malformed one.
    pub fn send_pending(&self) -> io::Result<usize> {
        // SAFETY: an empty message without address: the kernel takes frames from the ring.
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
        match usize::try_from(sent) {
            Ok(bytes) => Ok(bytes),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                error => Err(error),
            },
        }
    }

    /// Sends one frame by copy, without a ring, to the bound interface.
    ///
    /// # Errors
    /// As [`PacketSocket::send_pending`], and `ENXIO` when not bound.
    pub fn send_frame(&self, frame: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.fd, frame, rustix::net::SendFlags::NOSIGNAL)?)
    }

    /// Bytes of sent frames that are still in use, including the kernel's overhead: in a device
    /// queue, or at a receiver on the same kernel. 0 means that all have been received or dropped.
    ///
    /// # Errors
    /// What ioctl(2) gives.
    pub fn outstanding(&self) -> Result<usize> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ, writes one int (`packet_ioctl`).
        let status = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if status != 0 {
            return Err(OsError::last("ioctl SIOCOUTQ", "AF_PACKET"));
        }
        Ok(usize::try_from(bytes).unwrap_or(0))
    }

    /// Sends one frame by copy and without waiting, on a socket with
    /// [`PacketSocket::set_vnet_hdr`]: `header` describes its pending offloads, which the device or
    /// the kernel does. A frame to be cut may have up to 64 KB.
    ///
    /// # Errors
    /// As [`PacketSocket::send_pending`]; `EAGAIN` when the send buffer is full, `EINVAL` for a header that does not fit the
    /// frame.
    pub fn send_with_header(&self, header: &VirtioNetHdr, frame: &[u8]) -> io::Result<()> {
        let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(frame)];
        let mut control = SendAncillaryBuffer::default();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&self.fd, &parts, &mut control, flags)?;
        Ok(())
    }

    /// Waits until a block or packet is there, at most `timeout` (`None` waits for ever). False when there is none, also after a
    /// signal.
    ///
    /// # Errors
    /// The socket's pending error: `ENETDOWN` when the interface went down or away.
    pub fn wait_readable(&self, timeout: Option<Duration>) -> Result<bool> {
        self.wait(PollFlags::IN, timeout)
    }

    /// Waits until a TX frame is free; otherwise as [`PacketSocket::wait_readable`].
    ///
    /// # Errors
    /// As there.
    pub fn wait_writable(&self, timeout: Option<Duration>) -> Result<bool> {
        self.wait(PollFlags::OUT, timeout)
    }

    /// The socket's pending error, which reading clears.
    ///
    /// # Errors
    /// What getsockopt(2) gives.
    pub fn take_error(&self) -> Result<Option<io::Error>> {
        let level = (libc::SOL_SOCKET, libc::SO_ERROR);
        let errno: i32 = socket::get(self.as_fd(), level, "getsockopt SO_ERROR")?;
        Ok((errno != 0).then(|| io::Error::from_raw_os_error(errno)))
    }

    fn wait(&self, what: PollFlags, timeout: Option<Duration>) -> Result<bool> {
        let timeout = timeout.map(|timeout| {
            Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
        });
        let mut set = [PollFd::new(&self.fd, what)];
        match rustix::event::poll(&mut set, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(OsError::new("poll", "AF_PACKET", errno)),
        }
        let [entry] = &set;
        let ready = entry.revents();
        if ready.contains(PollFlags::ERR)
            && let Some(source) = self.take_error()?
        {
            return Err(OsError::new("poll", "AF_PACKET", source));
        }
        Ok(ready.intersects(what))
    }

    fn set<T: Plain>(&self, name: i32, value: &T, call: &'static str) -> Result<()> {
        socket::set(self.as_fd(), (libc::SOL_PACKET, name), value, call, || self.object())
    }

    fn set_socket(&self, name: i32, value: i32, call: &'static str) -> Result<()> {
        socket::set(self.as_fd(), (libc::SOL_SOCKET, name), &value, call, || self.object())
    }

    fn error(&self, call: &'static str, errno: i32) -> OsError {
        OsError::from_errno(call, self.object(), errno)
    }

    /// The bound interface's name where there is one.
    fn object(&self) -> String {
        self.local_address()
            .ok()
            .and_then(|address| u32::try_from(address.ifindex).ok())
            .filter(|index| *index != 0)
            .and_then(|index| iface::name(index).ok())
            .unwrap_or_else(|| "AF_PACKET".to_owned())
    }
}

/// [`PacketSocket::attach_filter`] for a socket of any kind.
///
/// # Errors
/// As there.
pub fn attach_filter(socket: impl AsFd, program: &[SockFilter]) -> Result<()> {
    const CALL: &str = "setsockopt SO_ATTACH_FILTER";
    let object = || format!("{} instructions", program.len());
    let len = u16::try_from(program.len())
        .map_err(|_| OsError::from_errno(CALL, object(), libc::EINVAL))?;
    let raw = SockFprog { len, filter: program.as_ptr() };
    socket::set(socket.as_fd(), (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER), &raw, CALL, object)
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

// SAFETY: u32 fields only; no padding and no invalid patterns.
unsafe impl Plain for TpacketReq {}
// SAFETY: as above.
unsafe impl Plain for TpacketReq3 {}
// SAFETY: as above.
unsafe impl Plain for TpacketStatsV3 {}
// SAFETY: integers that fill the structure (see its layout assertions).
unsafe impl Plain for PacketMreq {}
// SAFETY: sk_attach_filter() reads `len` and `filter` and never the padding between them. It is never read from the kernel.
unsafe impl Plain for SockFprog {}

fn ifindex_i32(ifindex: u32, call: &'static str) -> Result<i32> {
    i32::try_from(ifindex)
        .map_err(|_| OsError::from_errno(call, format!("interface index {ifindex}"), libc::ENODEV))
}

#[cfg(test)]
mod tests;
