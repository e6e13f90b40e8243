//! Options of a socket for receiving and sending: filter, promiscuous mode and others, and its
//! counters.

use std::os::fd::AsFd;

use super::ring::Statistics;
use super::socket::{PacketSocket, ifindex_i32};
use super::uapi::{PacketMreq, SockFilter, SockFprog, TpacketStatsV3, option};
use crate::error::{OsError, Result};
use crate::socket::{self, Plain};

impl PacketSocket {
    /// Attaches a classic BPF program, or replaces the attached one atomically. Its result is the
    /// number of bytes to capture; 0 rejects the packet.
    ///
    /// # Errors
    /// `EINVAL` when the kernel refuses the program, `ENOMEM` when it exceeds
    /// `net.core.optmem_max`.
    pub fn attach_filter(&self, program: &[SockFilter]) -> Result<()> {
        attach_filter(self, program)
    }

    /// Adds or removes this socket's request for promiscuous mode. The kernel counts requests, and
    /// removes this one when the socket is closed, however the process ends.
    ///
    /// # Errors
    /// `ENODEV` for an unknown interface. Removing a missing request is no error
    /// (`packet_mc_drop`).
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

    /// Sends without the queueing discipline, directly to the driver's queue. Without XPS, that
    /// queue is the sending CPU modulo the number of TX queues (`packet_pick_tx_queue`).
    ///
    /// # Errors
    /// The errors of setsockopt(2).
    pub fn set_qdisc_bypass(&self, on: bool) -> Result<()> {
        self.set(option::QDISC_BYPASS, &i32::from(on), "setsockopt PACKET_QDISC_BYPASS")
    }

    /// Ignores packets that this host sends.
    ///
    /// # Errors
    /// `ENOPROTOOPT` before Linux 4.20.
    pub fn set_ignore_outgoing(&self, on: bool) -> Result<()> {
        self.set(option::IGNORE_OUTGOING, &i32::from(on), "setsockopt PACKET_IGNORE_OUTGOING")
    }

    /// Puts a [`VirtioNetHdr`](super::VirtioNetHdr) before each packet, received and sent.
    ///
    /// # Errors
    /// `EBUSY` when the socket already has a ring.
    pub fn set_vnet_hdr(&self, on: bool) -> Result<()> {
        self.set(option::VNET_HDR, &i32::from(on), "setsockopt PACKET_VNET_HDR")
    }

    /// Lets a poll busy-poll the device for up to `microseconds` before it sleeps, if the kernel
    /// knows the NAPI context of the socket; 0 turns that off.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN for a larger value than before.
    pub fn set_busy_poll(&self, microseconds: u32) -> Result<()> {
        let value = i32::try_from(microseconds).unwrap_or(i32::MAX);
        self.set_socket(libc::SO_BUSY_POLL, value, "setsockopt SO_BUSY_POLL")
    }

    /// Requests `bytes` of send buffer, beyond `net.core.wmem_max` with CAP_NET_ADMIN. It bounds
    /// the pending frames of a TX ring.
    ///
    /// # Errors
    /// The errors of setsockopt(2).
    pub fn set_send_buffer(&self, bytes: usize) -> Result<()> {
        let value = i32::try_from(bytes).unwrap_or(i32::MAX);
        self.set_socket(libc::SO_SNDBUFFORCE, value, "setsockopt SO_SNDBUFFORCE")
            .or_else(|_| self.set_socket(libc::SO_SNDBUF, value, "setsockopt SO_SNDBUF"))
    }

    /// Allows `bytes` of packets, including the kernel's overhead, to be queued on the socket in
    /// addition to its ring. `net.core.rmem_max` limits it without CAP_NET_ADMIN. Returns the
    /// actual limit.
    ///
    /// # Errors
    /// The errors of setsockopt(2) and getsockopt(2).
    pub fn set_receive_buffer(&self, bytes: usize) -> Result<usize> {
        let value = i32::try_from(bytes).unwrap_or(i32::MAX);
        self.set_socket(libc::SO_RCVBUFFORCE, value, "setsockopt SO_RCVBUFFORCE")
            .or_else(|_| self.set_socket(libc::SO_RCVBUF, value, "setsockopt SO_RCVBUF"))?;
        let level = (libc::SOL_SOCKET, libc::SO_RCVBUF);
        let allowed: i32 = socket::get(self.as_fd(), level, "getsockopt SO_RCVBUF")?;
        // The kernel doubles the requested value (socket(7)).
        Ok(usize::try_from(allowed).unwrap_or(0) / 2)
    }

    /// Counts since the last call. Reading resets the kernel's 32-bit counters, so call this often
    /// enough that they cannot wrap, and from one place.
    ///
    /// # Errors
    /// The errors of getsockopt(2).
    pub fn statistics(&self) -> Result<Statistics> {
        let level = (libc::SOL_PACKET, option::STATISTICS);
        let raw: TpacketStatsV3 = socket::get(self.as_fd(), level, "getsockopt PACKET_STATISTICS")?;
        Ok(Statistics { packets: raw.packets, drops: raw.drops, freezes: raw.freeze_q_cnt })
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
    let raw = SockFprog::new(len, program.as_ptr());
    socket::set(socket.as_fd(), (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER), &raw, CALL, object)
}

// SAFETY: u32 fields only; no padding and no invalid patterns.
unsafe impl Plain for TpacketStatsV3 {}
// SAFETY: integers that fill the structure (see its layout assertions).
unsafe impl Plain for PacketMreq {}
// SAFETY: integers and a pointer that fill the structure; the kernel reads it, and never writes it.
unsafe impl Plain for SockFprog {}
