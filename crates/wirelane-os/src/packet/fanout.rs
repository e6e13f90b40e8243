//! Fanout groups: sockets that share one protocol hook, and a program that chooses the receiver of
//! a packet.
//!
//! A single socket is offered every packet of its interface, so N sockets cause N offers and N
//! filter runs. A group is offered the packet once. The program's result, modulo the number of
//! members, is the index of the receiving member, in the order of joining. The filter of that
//! member still applies. Source: `packet_rcv_fanout` and `fanout_add` in `net/packet/af_packet.c`.

use super::socket::PacketSocket;
use super::uapi::{SockFilter, SockFprog, option};
use crate::bpf::Program;
use crate::error::Result;
use crate::socket::{self, Plain};
use std::os::fd::{AsFd, AsRawFd};

/// `PACKET_FANOUT_HASH`: a hash of the flow chooses.
const HASH: u32 = 0;
/// `PACKET_FANOUT_CBPF`: a classic BPF program chooses; Linux 4.3.
const CBPF: u32 = 6;
/// `PACKET_FANOUT_EBPF`: an eBPF program chooses; Linux 4.3.
const EBPF: u32 = 7;
/// `PACKET_FANOUT_FLAG_UNIQUEID`: the kernel chooses a number for a new group; Linux 4.12.
const UNIQUE_ID: u32 = 0x2000;
/// `PACKET_FANOUT_FLAG_IGNORE_OUTGOING`: as [`PacketSocket::set_ignore_outgoing`] for all members;
/// Linux 5.10. Older kernels still offer the host's packets.
const IGNORE_OUTGOING: u32 = 0x4000;

/// `struct fanout_args`. The order of its two halfwords depends on the byte order, so that the word
/// has the same value.
#[repr(C)]
#[derive(Clone, Copy)]
struct FanoutArgs {
    id_and_type: u32,
    /// Linux 5.13; 256 in older kernels.
    max_members: u32,
}
const _: () = assert!(size_of::<FanoutArgs>() == 8);

// SAFETY: integers that fill the structure.
unsafe impl Plain for FanoutArgs {}

/// How the kernel chooses the member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fanout {
    /// The addresses and ports of the packet, the same for both directions (since Linux 4.13).
    Flow = HASH,
    /// The group's classic BPF program: see [`PacketSocket::set_fanout_program`].
    Program = CBPF,
    /// The group's eBPF program: see [`PacketSocket::set_fanout_extended`].
    Extended = EBPF,
}

impl PacketSocket {
    /// Makes a new group of up to `max_members` sockets with this one as its first member, and
    /// returns its number. The socket must be bound, and cannot be bound again. Without `outgoing`,
    /// the group is not offered packets of the host, which saves a copy of each.
    ///
    /// # Errors
    /// `EINVAL` on kernels before 4.12 (before 5.13 for this form of the request).
    pub fn new_fanout(&self, by: Fanout, max_members: u32, outgoing: bool) -> Result<u16> {
        self.fanout((kind(by, outgoing) | UNIQUE_ID) << 16, max_members)?;
        let level = (libc::SOL_PACKET, option::FANOUT);
        let value: i32 = socket::get(self.as_fd(), level, "getsockopt PACKET_FANOUT")?;
        Ok(value as u16)
    }

    /// Adds this socket to `group` as the next member. All members must be bound to the same
    /// interface and protocol, and use the group's `by` and `outgoing`.
    ///
    /// # Errors
    /// `ENOSPC` when the group is full, `EINVAL` when no group matches.
    pub fn join_fanout(
        &self,
        (group, by): (u16, Fanout),
        max_members: u32,
        outgoing: bool,
    ) -> Result<()> {
        self.fanout(u32::from(group) | kind(by, outgoing) << 16, max_members)
    }

    /// Makes this socket a member of the group with this number, in its network namespace, and
    /// makes the group if there is none. Up to 256 members may belong to several processes. When a
    /// member closes its socket, the other members receive its packets. The socket must be bound;
    /// then as [`PacketSocket::new_fanout`].
    ///
    /// # Errors
    /// `ENOSPC` when the group is full, `EINVAL` when it has another interface, choice or
    /// `outgoing`.
    pub fn share_fanout(&self, group: u16, by: Fanout, outgoing: bool) -> Result<()> {
        let word = u32::from(group) | kind(by, outgoing) << 16;
        self.set(option::FANOUT, &(word as i32), "setsockopt PACKET_FANOUT")
    }

    /// Replaces the program of this socket's group. Its result is the index of a member.
    ///
    /// # Errors
    /// `EINVAL` when the verifier refuses the program or the socket is in no group.
    pub fn set_fanout_program(&self, program: &[SockFilter]) -> Result<()> {
        const CALL: &str = "setsockopt PACKET_FANOUT_DATA";
        let len = u16::try_from(program.len()).map_err(|_| self.error(CALL, libc::EINVAL))?;
        let raw = SockFprog::new(len, program.as_ptr());
        self.set(option::FANOUT_DATA, &raw, CALL)
    }

    /// Replaces the program of this socket's group, which was made with [`Fanout::Extended`].
    ///
    /// # Errors
    /// `EINVAL` when it is no socket filter or the socket is in no such group.
    pub fn set_fanout_extended(&self, program: &Program) -> Result<()> {
        let fd = program.as_fd().as_raw_fd();
        self.set(option::FANOUT_DATA, &fd, "setsockopt PACKET_FANOUT_DATA")
    }

    fn fanout(&self, id_and_type: u32, max_members: u32) -> Result<()> {
        let args = FanoutArgs { id_and_type, max_members };
        self.set(option::FANOUT, &args, "setsockopt PACKET_FANOUT")
    }
}

fn kind(by: Fanout, outgoing: bool) -> u32 {
    if outgoing { by as u32 } else { by as u32 | IGNORE_OUTGOING }
}
