//! Which packets a program is to see: its filter and its direction.
//!
//! ```text
//!  packet:      the kernel runs the program as it stands, on packets as it has them. Those that were in the
//!               rings before meet it here, until the clock has passed the change
//!  other ports  every packet meets it here, as machine code where there is any
//! ```
//!
//! The kernel takes the outer VLAN tag out of a packet before the program sees it, and a port puts it
//! back: so here it is taken out again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wirelane::filter::{Engine, Filter, Program};
use wirelane::port::{Backend, Control};
use wirelane::{Class, Frame, clock};
use wirelane_filter::op::{Ancillary, Op};
use wirelane_filter::{Instruction, Interpreter, Metadata, Packet};

use super::foreign::Foreign;
use super::sift::{Sift, Sifts};
use crate::abi::direction;
use crate::failure::Failure;

/// The filter and the direction in force.
pub(crate) struct Choice {
    /// The kernel runs the program.
    is_packet: bool,
    /// Packets that the filter does not accept go to the host (`xdp:`).
    takes: bool,
    link_type: u16,
    interface_index: u32,
    direction: i32,
    judge: Option<Arc<Judge>>,
    /// The kernel could not take the program.
    is_ours_alone: bool,
    rejected: Arc<AtomicU64>,
}

/// How long a CPU may take from the time of a packet to the program of a ring.
const SLACK: u64 = 10_000_000;

impl Choice {
    /// Everything, from a port of this kind.
    pub(super) fn new(backend: Backend, link_type: u16, interface_index: u32) -> Self {
        Self {
            is_packet: backend == Backend::Packet,
            takes: backend == Backend::Xdp,
            link_type,
            interface_index,
            direction: direction::INOUT,
            judge: None,
            is_ours_alone: false,
            rejected: Arc::default(),
        }
    }

    /// Packets that were rejected here, on ports whose packets all come here.
    pub(super) fn rejected(&self) -> u64 {
        if self.is_packet { 0 } else { self.rejected.load(Ordering::Relaxed) }
    }

    /// From the next packet on only what the program accepts.
    ///
    /// # Errors
    /// It is no program, or the system refuses.
    pub(super) fn set_filter(
        &mut self,
        instructions: &[Instruction],
        control: &dyn Control,
        sifts: &Sifts,
    ) -> Result<(), Failure> {
        let program = Program::new(self.link_type, instructions.to_vec());
        let attached = match &program {
            Ok(program) if self.is_packet || self.takes => {
                control.set_filter(Some(&Filter::verbatim(program.clone()))).is_ok()
            }
            _ => false,
        };
        let judge = match program {
            Ok(program) => Judge::of(program, self.is_packet, self.interface_index),
            // The kernel takes no loops, which libpcap makes of `protochain` and runs itself.
            Err(_) => Judge::foreign(instructions, self.is_packet),
        };
        // What asks for something that only the kernel knows is not asked of packets that are there already.
        if judge.is_none() && !attached {
            return Err(Failure::new("BPF program is not valid"));
        }
        if !attached && self.is_packet {
            control.set_filter(None)?;
        }
        self.judge = judge.map(Arc::new);
        self.is_ours_alone = !attached;
        self.sift(sifts);
        Ok(())
    }

    /// From the next packet on only those of a direction, which the masks of the port follow.
    pub(super) fn set_direction(&mut self, direction: i32, sifts: &Sifts) {
        self.direction = direction;
        self.sift(sifts);
    }

    fn sift(&self, sifts: &Sifts) {
        let until = match self.is_packet && !self.is_ours_alone {
            true => clock::realtime_ns().saturating_add(SLACK),
            false => u64::MAX,
        };
        let (wanted, judge) = (self.direction, self.judge.clone());
        let rejected = Arc::clone(&self.rejected);
        let accepts = move |frame: &Frame| {
            let of_direction = match wanted {
                direction::IN => frame.class() != Class::Tx,
                direction::OUT => frame.class() == Class::Tx,
                _ => true,
            };
            let accepted = of_direction && judge.as_ref().is_none_or(|judge| judge.accepts(frame));
            if !accepted {
                rejected.fetch_add(1, Ordering::Relaxed);
            }
            accepted
        };
        sifts.set(Some(Sift { until, accepts: Box::new(accepts) }));
    }
}

/// A program that runs in the program's own thread.
struct Judge {
    engine: Kind,
    /// The outer tag has to be taken out.
    takes_out: bool,
    interface_index: u32,
}

enum Kind {
    /// On the bytes.
    Bytes(Engine),
    /// As the kernel has the packet; the program, for a packet with a tag.
    Kernel(Interpreter, Program),
    /// libpcap's.
    Foreign(Foreign),
}

impl Judge {
    /// `None` if it asks for something that only the kernel knows.
    fn of(program: Program, takes_out: bool, interface_index: u32) -> Option<Self> {
        let engine = match takes_out {
            true => Kind::Kernel(Interpreter::new(&program).ok()?, program),
            false => Kind::Bytes(Engine::new(&program, interface_index).ok()?),
        };
        Some(Self { engine, takes_out, interface_index })
    }

    /// `None` if it is no program for libpcap, either.
    fn foreign(instructions: &[Instruction], takes_out: bool) -> Option<Self> {
        let engine = Kind::Foreign(Foreign::new(instructions)?);
        Some(Self { engine, takes_out, interface_index: 0 })
    }

    fn accepts(&self, frame: &Frame) -> bool {
        let metadata = Metadata {
            queue: frame.queue().unwrap_or(0).into(),
            packet_type: if frame.class() == Class::Tx { OUTGOING } else { 0 },
            interface_index: self.interface_index,
        };
        let whole = Packet { data: frame.data(), wire_len: frame.original_len(), metadata };
        let tag = if self.takes_out { Tag::of(frame.data()) } else { None };
        let rest = tag.as_ref().map(|_| without_tag(frame.data()));
        let packet = match &rest {
            Some(rest) => Packet {
                data: rest,
                wire_len: whole.wire_len.saturating_sub(TAG_LEN as u32),
                metadata,
            },
            None => whole,
        };
        match (&self.engine, tag) {
            (Kind::Bytes(engine), _) => engine.run(&packet) > 0,
            (Kind::Kernel(interpreter, _), None) => interpreter.run(&packet) > 0,
            (Kind::Kernel(_, program), Some(tag)) => {
                tag.known_to(program).is_some_and(|interpreter| interpreter.run(&packet) > 0)
            }
            (Kind::Foreign(foreign), _) => foreign.run(packet.data, packet.wire_len) > 0,
        }
    }
}

/// `PACKET_OUTGOING` of `linux/if_packet.h`.
const OUTGOING: u32 = 4;

/// A tag that the kernel takes out (`eth_type_vlan`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag {
    tpid: u16,
    tci: u16,
}

const ADDRESSES: usize = 12;
const TAG_LEN: usize = 4;

impl Tag {
    fn of(frame: &[u8]) -> Option<Self> {
        let tag = frame.get(ADDRESSES..)?.first_chunk::<TAG_LEN>()?;
        let [a, b, c, d] = *tag;
        let tag = Self { tpid: u16::from_be_bytes([a, b]), tci: u16::from_be_bytes([c, d]) };
        matches!(tag.tpid, 0x8100 | 0x88a8).then_some(tag)
    }

    /// The program, with numbers in place of its questions about the tag.
    fn known_to(self, program: &Program) -> Option<Interpreter> {
        let answer = |op: &Op| match *op {
            Op::LoadAncillary(Ancillary::VlanPresent) => Op::LoadImmediate(1),
            Op::LoadAncillary(Ancillary::VlanTci) => Op::LoadImmediate(self.tci.into()),
            Op::LoadAncillary(Ancillary::VlanTpid) => Op::LoadImmediate(self.tpid.into()),
            op => op,
        };
        let answered = program.ops().iter().map(|op| answer(op).encode()).collect();
        let answered = Program::new(program.link_type(), answered).ok()?;
        Interpreter::new(&answered).ok()
    }
}

fn without_tag(frame: &[u8]) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(ADDRESSES.min(frame.len()));
    [addresses, rest.get(TAG_LEN..).unwrap_or_default()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `vlan 5`, as libpcap writes it for an interface.
    const VLAN_5: &str = "9,48 0 0 4294963248,21 2 0 1,40 0 0 12,21 0 4 33024,48 0 0 4294963244,84 0 0 4095,\
                          21 0 1 5,6 0 0 200,6 0 0 0";

    fn tagged(tci: u16) -> Vec<u8> {
        let mut frame = vec![0; 64];
        frame[12..16].copy_from_slice(&[0x81, 0x00, (tci >> 8) as u8, tci as u8]);
        frame[16..18].copy_from_slice(&[0x08, 0x00]);
        frame
    }

    fn run(program: &Program, frame: &[u8]) -> bool {
        let interpreter = match Tag::of(frame) {
            Some(tag) => tag.known_to(program).unwrap(),
            None => Interpreter::new(program).unwrap(),
        };
        let data = if Tag::of(frame).is_some() { without_tag(frame) } else { frame.to_vec() };
        let packet = Packet { data: &data, wire_len: data.len() as u32, ..Packet::default() };
        interpreter.run(&packet) > 0
    }

    #[test]
    fn programs_see_what_the_kernel_shows() {
        let vlan = Program::parse(1, VLAN_5).unwrap();
        assert!(run(&vlan, &tagged(5)) && run(&vlan, &tagged(0x6005)));
        assert!(!run(&vlan, &tagged(6)) && !run(&vlan, &[0; 64]));
        // `ip` looks at the type behind the addresses, where the kernel has that behind the tag.
        let ip = Program::parse(1, "4,40 0 0 12,21 0 1 2048,6 0 0 200,6 0 0 0").unwrap();
        assert!(run(&ip, &tagged(5)));
    }

    #[test]
    fn only_whole_tags_are_taken_out() {
        assert_eq!(Tag::of(&tagged(5)), Some(Tag { tpid: 0x8100, tci: 5 }));
        assert_eq!(Tag::of(&tagged(5)[..15]), None);
        assert_eq!(Tag::of(&[]), None);
        let frame = tagged(5);
        assert_eq!(without_tag(&frame), [&frame[..12], &frame[16..]].concat());
    }
}
