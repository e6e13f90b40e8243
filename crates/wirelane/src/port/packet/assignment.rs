//! Assigns each transmitting socket its TX queue, by an eBPF program at the egress of the
//! interface.
//!
//! A packet socket cannot name a TX queue. Without XPS, the kernel chooses one by a hash of the
//! flow, unless the packet has a recorded queue: `queue_mapping` minus 1, which forwarded packets
//! carry from their receipt ([`skb_tx_hash`]). The program finds the socket of a packet by its
//! cookie, and records the queue of that socket. Packets of other sockets do not change.
//!
//! ```text
//!   socket of queue 2 ─▶ program: queue_mapping = 3 ─▶ skb_tx_hash: 2 ─▶ qdisc and ring of queue 2
//! ```
//!
//! The kernel removes the program with the last end of the port, also when the process is killed.
//! XPS decides before a recorded queue, so interfaces with XPS need no program. Packets sent past
//! the queueing discipline (`bypass=on`) do not run it.
//!
//! [`skb_tx_hash`]: https://github.com/torvalds/linux/blob/v6.18/net/core/dev.c

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::sockopt::socket_cookie;
use wirelane_os::bpf::{Assembler, Cond, Insn, Link, Load, Program, ProgramType, Reg, Size};
use wirelane_os::packet::PacketSocket;
use wirelane_os::{OsError, machine};

/// `BPF_FUNC_get_socket_cookie`, Linux 4.12.
const GET_SOCKET_COOKIE: i32 = 46;
/// The offset of `queue_mapping` in `struct __sk_buff` (`linux/bpf.h`).
const QUEUE_MAPPING: i16 = 12;
/// `TCX_NEXT`: the next program decides.
const NEXT: i32 = -1;
/// From this number of sockets on, the program searches in halves.
const FEW: usize = 4;

/// The attached program.
pub(super) struct Assignment {
    _link: Link,
}

impl Assignment {
    /// Assigns the queues of `sockets` on the interface with this index.
    ///
    /// # Errors
    /// The reason: a capability is missing, or the kernel is older than Linux 6.6.
    pub(super) fn new<'a>(
        ifindex: u32,
        sockets: impl Iterator<Item = (&'a PacketSocket, u16)>,
    ) -> Result<Self, String> {
        let cookie = |(socket, queue): (&PacketSocket, u16)| {
            socket_cookie(socket.as_fd()).map(|cookie| (cookie, queue))
        };
        let cookies: Result<Vec<_>, _> = sockets.map(cookie).collect();
        let cookies = cookies.map_err(|errno| format!("getsockopt SO_COOKIE: {errno}"))?;
        let program = program(cookies).map_err(|error| error.to_string())?;
        let load = Load::new(ProgramType::Traffic, "wirelane_tx", &program);
        let program = Program::load(&load).map_err(|error| reason(&error.os, &error))?;
        let link = Link::attach_egress(ifindex, &program).map_err(|error| reason(&error, &error));
        link.map(|link| Self { _link: link })
    }
}

/// Why the kernel refuses the program.
fn reason(os: &OsError, error: &dyn std::error::Error) -> String {
    match Errno::from_raw_os_error(os.errno().unwrap_or_default()) {
        Errno::PERM => "assigning them takes CAP_BPF and CAP_NET_ADMIN".to_owned(),
        Errno::INVAL if machine::kernel() < [6, 6] => "assigning them takes Linux 6.6".to_owned(),
        _ => error.to_string(),
    }
}

/// The program for sockets with these cookies and queues.
fn program(mut cookies: Vec<(u64, u16)>) -> Result<Vec<Insn>, wirelane_os::bpf::AsmError> {
    cookies.sort_unstable();
    let mut asm = Assembler::new();
    let (found, end) = (asm.label(), asm.label());
    asm.extend([Insn::mov_reg(Reg::R6, Reg::R1), Insn::call(GET_SOCKET_COOKIE)]);
    // Forwarded packets have no socket.
    asm.jump_if(Cond::Eq, Reg::R0, 0, end);
    let mut parts = vec![(None, cookies.as_slice())];
    while let Some((label, part)) = parts.pop() {
        label.into_iter().for_each(|label| asm.place(label));
        if part.len() > FEW {
            let (lower, upper) = part.split_at(part.len() / 2);
            let above = asm.label();
            asm.extend(Insn::load64(Reg::R1, upper[0].0));
            asm.jump_if_reg(Cond::Ge, Reg::R0, Reg::R1, above);
            parts.extend([(Some(above), upper), (None, lower)]);
            continue;
        }
        for (cookie, queue) in part {
            asm.emit(Insn::mov(Reg::R2, i32::from(*queue) + 1));
            asm.extend(Insn::load64(Reg::R1, *cookie));
            asm.jump_if_reg(Cond::Eq, Reg::R0, Reg::R1, found);
        }
        asm.jump(end);
    }
    asm.place(found);
    asm.emit(Insn::store(Size::Word, Reg::R6, QUEUE_MAPPING, Reg::R2));
    asm.place(end);
    asm.extend([Insn::mov(Reg::R0, NEXT), Insn::exit()]);
    asm.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that the program stores for a socket with this cookie.
    fn stored(program: &[Insn], cookie: u64) -> Option<u64> {
        let (mut at, mut regs, mut stored) = (0, [0_u64; 11], None);
        loop {
            let insn = program[at];
            at += 1;
            let (dst, src) = (usize::from(insn.dst()), usize::from(insn.src()));
            match insn.code {
                0xb7 => regs[dst] = insn.imm as u64,
                0xbf => regs[dst] = regs[src],
                0x85 => regs[0] = cookie,
                0x18 => {
                    regs[dst] = u64::from(insn.imm as u32) | (program[at].imm as u64) << 32;
                    at += 1;
                }
                0x63 => stored = Some(regs[src]),
                0x95 => return stored,
                code => {
                    let is_taken = match code {
                        0x05 => true,
                        0x15 => regs[dst] == insn.imm as u64,
                        0x1d => regs[dst] == regs[src],
                        0x3d => regs[dst] >= regs[src],
                        _ => panic!("code {code:#x}"),
                    };
                    at =
                        if is_taken { at.checked_add_signed(insn.off.into()).unwrap() } else { at };
                }
            }
        }
    }

    #[test]
    fn each_socket_gets_its_queue_and_others_none() {
        for count in [1_u64, 2, 4, 5, 9, 64, 257] {
            let cookies = (0..count).map(|n| (n * 3 + (1 << 40), n as u16)).rev().collect();
            let program = program(cookies).unwrap();
            for n in 0..count {
                let cookie = n * 3 + (1 << 40);
                assert_eq!(stored(&program, cookie), Some(n + 1), "{n} of {count}");
                assert_eq!(stored(&program, cookie + 1), None);
            }
            assert_eq!(stored(&program, 0), None);
        }
    }
}
