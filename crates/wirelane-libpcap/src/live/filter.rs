//! The filter and direction of a capture.
//!
//! ```text
//!  packet:      the kernel runs the program unchanged. Packets that were in the rings before the
//!               change are filtered here
//!  other ports  every packet is filtered here, by machine code if available
//! ```
//!
//! The kernel removes the outer VLAN tag before it runs the program, and the port restores it. The
//! program is therefore translated before it runs here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wirelane::filter::{Engine, Filter, Program};
use wirelane::internal::clock;
use wirelane::port::{Backend, Control};
use wirelane::{Class, Frame};
use wirelane_filter::{Instruction, Metadata, Packet};

use super::foreign::Foreign;
use super::sift::{Sift, Sifts};
use crate::abi::direction;
use crate::failure::PcapFailure;

/// The filter and the direction in force.
pub(crate) struct ActiveFilter {
    /// The kernel runs the program.
    is_packet: bool,
    /// Packets that the filter rejects go to the host (`xdp:`).
    takes: bool,
    link_type: u16,
    interface_index: u32,
    direction: i32,
    judge: Option<Arc<Judge>>,
    /// The kernel rejected the program.
    is_ours_alone: bool,
    rejected: Arc<AtomicU64>,
}

/// How long a CPU may take between stamping a packet and running the ring's filter.
const SLACK: u64 = 10_000_000;

impl ActiveFilter {
    /// Accepts every packet.
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

    /// Packets rejected here, on ports that filter all packets here.
    pub(super) fn rejected(&self) -> u64 {
        if self.is_packet { 0 } else { self.rejected.load(Ordering::Relaxed) }
    }

    /// Applies the program from the next packet on.
    ///
    /// # Errors
    /// The program is invalid, or the system refuses it.
    pub(super) fn set_filter(
        &mut self,
        instructions: &[Instruction],
        control: &dyn Control,
        sifts: &Sifts,
    ) -> Result<(), PcapFailure> {
        let program = Program::new(self.link_type, instructions.to_vec());
        let attached = match &program {
            Ok(program) if self.is_packet || self.takes => {
                control.set_filter(Some(&Filter::verbatim(program.clone()))).is_ok()
            }
            _ => false,
        };
        let judge = match program {
            Ok(program) => Judge::of(&program, self.interface_index),
            // The kernel refuses loops, which libpcap generates for `protochain` and interprets
            // itself.
            Err(_) => Judge::foreign(instructions),
        };
        // Packets already in the rings are not filtered by a program that needs metadata of the
        // kernel.
        if judge.is_none() && !attached {
            return Err(PcapFailure::new("BPF program is not valid"));
        }
        if !attached && self.is_packet {
            control.set_filter(None)?;
        }
        self.judge = judge.map(Arc::new);
        self.is_ours_alone = !attached;
        self.sift(sifts);
        Ok(())
    }

    /// Accepts only packets of a direction from the next packet on. The caller sets the port's
    /// masks.
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

/// A program that runs in the thread that reads.
enum Judge {
    /// With the index of the interface.
    Ours(Engine, u32),
    /// libpcap's interpreter.
    Foreign(Foreign),
}

impl Judge {
    /// `None` if the program needs metadata that only the kernel has.
    fn of(program: &Program, interface_index: u32) -> Option<Self> {
        let engine = Engine::new(&program.for_bytes().ok()?, interface_index).ok()?;
        Some(Self::Ours(engine, interface_index))
    }

    /// `None` if libpcap finds the program invalid, too.
    fn foreign(instructions: &[Instruction]) -> Option<Self> {
        Foreign::new(instructions).map(Self::Foreign)
    }

    fn accepts(&self, frame: &Frame) -> bool {
        let (data, wire_len) = (frame.data(), frame.original_len());
        match self {
            Self::Ours(engine, interface_index) => {
                let metadata = Metadata {
                    queue: frame.queue().unwrap_or(0).into(),
                    packet_type: if frame.class() == Class::Tx { Metadata::OUTGOING } else { 0 },
                    interface_index: *interface_index,
                };
                engine.run(&Packet { data, wire_len, metadata }) > 0
            }
            Self::Foreign(foreign) if is_tagged(data) => {
                let wire_len = wire_len.saturating_sub(TAG_LEN as u32);
                foreign.run(&without_tag(data), wire_len) > 0
            }
            Self::Foreign(foreign) => foreign.run(data, wire_len) > 0,
        }
    }
}

const ADDRESSES: usize = 12;
const TAG_LEN: usize = 4;

/// Whether the frame has a tag that the kernel removes (`eth_type_vlan`).
fn is_tagged(frame: &[u8]) -> bool {
    let tag = frame.get(ADDRESSES..).and_then(|rest| rest.first_chunk::<TAG_LEN>());
    matches!(tag, Some([0x81, 0, ..] | [0x88, 0xa8, ..]))
}

fn without_tag(frame: &[u8]) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(ADDRESSES.min(frame.len()));
    [addresses, rest.get(TAG_LEN..).unwrap_or_default()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `vlan 5`, as libpcap writes it for an interface.
    const VLAN_5: &str = "9,48 0 0 4294963248,21 2 0 1,40 0 0 12,21 0 4 33024,\
                          48 0 0 4294963244,84 0 0 4095,21 0 1 5,6 0 0 200,6 0 0 0";

    fn tagged(tci: u16) -> Vec<u8> {
        let mut frame = vec![0; 64];
        frame[12..16].copy_from_slice(&[0x81, 0x00, (tci >> 8) as u8, tci as u8]);
        frame[16..18].copy_from_slice(&[0x08, 0x00]);
        frame
    }

    fn run(program: &Program, data: &[u8]) -> bool {
        let Judge::Ours(engine, _) = Judge::of(program, 0).unwrap() else { return false };
        engine.run(&Packet { data, wire_len: data.len() as u32, ..Packet::default() }) > 0
    }

    #[test]
    fn programs_see_what_the_kernel_shows() {
        let vlan = Program::parse(1, VLAN_5).unwrap();
        assert!(run(&vlan, &tagged(5)) && run(&vlan, &tagged(0x6005)));
        assert!(!run(&vlan, &tagged(6)) && !run(&vlan, &[0; 64]));
        // `ip` reads the type after the addresses, where the kernel stores the type after the tag.
        let ip = Program::parse(1, "4,40 0 0 12,21 0 1 2048,6 0 0 200,6 0 0 0").unwrap();
        assert!(run(&ip, &tagged(5)));
    }

    #[test]
    fn only_whole_tags_are_taken_out() {
        let frame = tagged(5);
        assert!(is_tagged(&frame) && !is_tagged(&frame[..15]) && !is_tagged(&[]));
        assert_eq!(without_tag(&frame), [&frame[..12], &frame[16..]].concat());
    }
}
