//! Fanout groups: sockets that share one hook, and a program that says which of them gets a packet.
//!
//! A socket on its own is offered every packet of its interface. N sockets make that N offers, N
//! filters. In a group the packet is offered once, and the program's result, modulo the number of
//! members, is the number of the member that gets it, in the order of joining. That member's own
//! filter still decides. Source: `packet_rcv_fanout` and `fanout_add` in `net/packet/af_packet.c`.

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
/// `PACKET_FANOUT_EBPF`: a program of eBPF chooses; Linux 4.3.
const EBPF: u32 = 7;
/// `PACKET_FANOUT_FLAG_UNIQUEID`: the kernel chooses a number for a new group; Linux 4.12.
const UNIQUE_ID: u32 = 0x2000;
/// `PACKET_FANOUT_FLAG_IGNORE_OUTGOING`: as [`PacketSocket::set_ignore_outgoing`] for all members;
/// Linux 5.10. Older kernels offer what the host sends nevertheless.
const IGNORE_OUTGOING: u32 = 0x4000;

/// `struct fanout_args`; its two halves of a word are in the order of the byte order, so that the
/// word is the same in both.
#[repr(C)]
#[derive(Clone, Copy)]
struct FanoutArgs {
    id_and_type: u32,
    /// Linux 5.13, and 256 before.
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
    /// The group's program of classic BPF: see [`PacketSocket::set_fanout_program`].
    Program = CBPF,
    /// The group's program of eBPF: see [`PacketSocket::set_fanout_extended`].
    Extended = EBPF,
}

impl PacketSocket {
    /// Makes a new group of up to `max_members` sockets with this one as its first member, and
    /// gives its number. The socket must be bound, and cannot be bound again. Without `outgoing`
    /// the group is not offered what the host sends, which otherwise costs a copy of each such
    /// packet.
    ///
    /// # Errors
    /// `EINVAL` on kernels before 4.12 (before 5.13 for this form of the request).
    pub fn new_fanout(&self, by: Fanout, max_members: u32, outgoing: bool) -> Result<u16> {
        self.fanout((kind(by, outgoing) | UNIQUE_ID) << 16, max_members)?;
        let level = (libc::SOL_PACKET, option::FANOUT);
        let value: i32 = socket::get(self.as_fd(), level, "getsockopt PACKET_FANOUT")?;
        Ok(value as u16)
    }

    /// Makes this socket the next member of `group`, whose members are all bound to the same
    /// interface and protocol, and which was made with the same choice and `outgoing`.
    ///
    /// # Errors
    /// `ENOSPC` when the group is full, `EINVAL` when there is none that fits.
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
    /// `ENOSPC` when the group is full, `EINVAL` when it is of another interface, kind or
    /// `outgoing`.
    pub fn share_fanout(&self, group: u16, by: Fanout, outgoing: bool) -> Result<()> {
        let word = u32::from(group) | kind(by, outgoing) << 16;
        self.set(option::FANOUT, &(word as i32), "setsockopt PACKET_FANOUT")
    }

    /// Gives the group of this socket its program, in place of the one before. Its result is the
    /// number of a member.
    ///
    /// # Errors
    /// `EINVAL` when the verifier refuses the program or the socket is in no group.
    pub fn set_fanout_program(&self, program: &[SockFilter]) -> Result<()> {
        const CALL: &str = "setsockopt PACKET_FANOUT_DATA";
        let len = u16::try_from(program.len()).map_err(|_| self.error(CALL, libc::EINVAL))?;
        let raw = SockFprog::new(len, program.as_ptr());
        self.set(option::FANOUT_DATA, &raw, CALL)
    }

    /// Gives the group of this socket, made with [`Fanout::Extended`], its program, in place of the
    /// one before.
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
