//! The engine of user space: machine code if possible, otherwise the interpreter.

#![allow(unsafe_code)]

use std::mem::offset_of;

use wirelane_filter::jit::{Jit, Layout};
use wirelane_filter::{Interpreter, Metadata, Packet, Program};

use crate::error::{Error, Result};
use crate::frame::{Batch, Frame, Meta};
use crate::mask::Class;

/// A program ready to run on packets in user space.
///
/// Threads share it by reference; its machine code is freed with it.
#[derive(Debug)]
pub struct Engine {
    kind: EngineKind,
    interface_index: u32,
}

#[derive(Debug)]
enum EngineKind {
    Jit(Jit),
    /// With the reason for not using machine code.
    Interpreter(Interpreter, String),
}

impl Engine {
    /// The fastest engine for `program` on this machine. `interface_index` is the interface of
    /// frames for programs; 0 for none.
    ///
    /// # Errors
    /// A usage error: the program reads a field that only the kernel's socket filter provides.
    pub fn new(program: &Program, interface_index: u32) -> Result<Self> {
        let interpreter = Interpreter::new(program)?;
        let kind = match Jit::for_records(program, FRAME) {
            Ok(jit) => EngineKind::Jit(jit),
            Err(error) => EngineKind::Interpreter(interpreter, Error::from(error).to_string()),
        };
        Ok(Self { kind, interface_index })
    }

    /// `jit` or `interpreter`.
    pub fn name(&self) -> &'static str {
        match self.kind {
            EngineKind::Jit(_) => "jit",
            EngineKind::Interpreter(..) => "interpreter",
        }
    }

    /// Why it is the interpreter, for the notes of a port.
    pub fn note(&self) -> Option<&str> {
        match &self.kind {
            EngineKind::Jit(_) => None,
            EngineKind::Interpreter(_, cause) => Some(cause),
        }
    }

    /// The machine code, unless it is the interpreter.
    #[doc(hidden)]
    pub fn machine_code(&self) -> Option<&Jit> {
        match &self.kind {
            EngineKind::Jit(jit) => Some(jit),
            EngineKind::Interpreter(..) => None,
        }
    }

    /// How many bytes of `packet` the program accepts; 0 rejects it.
    #[inline]
    pub fn run(&self, packet: &Packet<'_>) -> u32 {
        match &self.kind {
            EngineKind::Jit(jit) => jit.run(packet),
            EngineKind::Interpreter(interpreter, _) => interpreter.run(packet),
        }
    }

    /// How many bytes of each frame the program accepts, in order, up to the shorter slice.
    #[inline]
    pub fn verdicts(&self, frames: &[Frame], verdicts: &mut [u32]) {
        if let EngineKind::Jit(jit) = &self.kind {
            // SAFETY: a frame is a transparent pointer to its meta.
            let metas = unsafe {
                std::slice::from_raw_parts(frames.as_ptr().cast::<*const Meta>(), frames.len())
            };
            // SAFETY: the frames are borrowed for the call, and the meta of each describes bytes of
            // its own.
            if unsafe { jit.run_records(metas, verdicts) }.is_some() {
                return;
            }
        }
        for (frame, verdict) in frames.iter().zip(verdicts) {
            *verdict = self.run(&self.packet(frame));
        }
    }

    /// Keeps the frames from index `first` on that the program accepts, in order, and returns the
    /// others to their owners. Returns the number of rejected frames.
    pub fn retain(&self, batch: &mut Batch, first: usize) -> usize {
        retain_by(batch, first, |frames, verdicts| self.verdicts(frames, verdicts))
    }

    fn packet<'a>(&self, frame: &'a Frame) -> Packet<'a> {
        let metadata = Metadata {
            queue: frame.queue_number().into(),
            packet_type: if frame.class() == Class::Tx { Metadata::OUTGOING } else { 0 },
            interface_index: self.interface_index,
        };
        Packet { data: frame.data(), wire_len: frame.original_len(), metadata }
    }
}

/// As [`Engine::retain`], with a function that returns how many bytes of each frame are accepted.
#[inline]
pub(crate) fn retain_by(
    batch: &mut Batch,
    first: usize,
    judge: impl Fn(&[Frame], &mut [u32]),
) -> usize {
    let before = batch.len();
    let mut verdicts = [0; Batch::DEFAULT];
    // From the end, so that removing frames does not move frames that are not examined yet.
    let mut end = before;
    while end > first {
        let begin = end.saturating_sub(verdicts.len()).max(first);
        if let Some(frames) = batch.get(begin..end) {
            judge(frames, &mut verdicts);
        }
        batch.retain_at(begin, &verdicts[..end - begin]);
        end = begin;
    }
    before - batch.len()
}

/// Offsets of the packet's description in a frame, for machine code.
const FRAME: Layout = Layout {
    data: offset_of!(Meta, data) as u16,
    length: offset_of!(Meta, len) as u16,
    original_length: offset_of!(Meta, original_len) as u16,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Pool, PoolConfig};
    use wirelane_filter::op::{Ancillary, Cond, Op, Operand, Width};

    fn program(ops: &[Op]) -> Program {
        Program::new(1, ops.iter().map(|op| op.encode()).collect()).unwrap()
    }

    /// Accepts frames whose load is odd.
    fn odd(load: Op) -> Program {
        let cond = Op::Branch { cond: Cond::Set, operand: Operand::K(1), jt: 0, jf: 1 };
        program(&[load, cond, Op::Return(9), Op::Return(0)])
    }

    #[test]
    fn retain_keeps_what_matches_in_order_and_gives_the_rest_back() {
        let config = PoolConfig { chunks: 200, chunk_size: 256, ..PoolConfig::default() };
        let mut pool = Pool::new(config).unwrap();
        for load in
            [Op::LoadAbsolute(Width::Byte, 0), Op::LoadAncillary(Ancillary::Queue), Op::LoadLength]
        {
            let engine = Engine::new(&odd(load), 0).unwrap();
            for first in [0, 3, 64, 150] {
                let mut batch = Batch::new(150);
                assert_eq!(pool.take(&mut batch, 150), 150);
                for (number, frame) in (0u8..).zip(batch.iter_mut()) {
                    assert!(frame.fill(&[number, 1, 2]));
                    frame.stamp(0, number.into(), Class::Rx);
                    frame.set_original_len(number.into());
                }
                let left = engine.retain(&mut batch, first);
                assert_eq!(batch.len(), 150 - left);
                let expected = (0..150).filter(|number| number % 2 == 1 || *number < first);
                let kept: Vec<_> =
                    batch.iter().map(|frame| usize::from(frame.queue_number())).collect();
                assert_eq!(kept, expected.collect::<Vec<_>>(), "{load:?} from {first}");
                drop(batch);
            }
            let mut all = Batch::new(200);
            assert_eq!(pool.take(&mut all, 200), 200, "every frame is back");
        }
    }

    #[test]
    fn what_frames_know_is_what_programs_see() {
        let config = PoolConfig { chunks: 1, chunk_size: 256, ..PoolConfig::default() };
        let mut pool = Pool::new(config).unwrap();
        let mut batch = Batch::new(1);
        pool.take(&mut batch, 1);
        let verdict = |batch: &Batch, field| {
            let load = Op::LoadAncillary(field);
            let engine = Engine::new(&program(&[load, Op::ReturnA]), 77).unwrap();
            let mut verdicts = [u32::MAX];
            engine.verdicts(batch, &mut verdicts);
            verdicts[0]
        };
        batch[0].stamp(0, 5, Class::Tx);
        assert_eq!(verdict(&batch, Ancillary::Queue), 5);
        assert_eq!(verdict(&batch, Ancillary::PacketType), 4);
        assert_eq!(verdict(&batch, Ancillary::InterfaceIndex), 77);
        assert_eq!(verdict(&batch, Ancillary::VlanPresent), 0);
        batch[0].stamp(0, 5, Class::Rx);
        assert_eq!(verdict(&batch, Ancillary::PacketType), 0);
    }

    #[test]
    fn the_engine_says_which_it_is() {
        let engine = Engine::new(&odd(Op::LoadLength), 0).unwrap();
        assert_eq!(engine.name() == "jit", wirelane_filter::jit::AVAILABLE);
        assert_eq!(engine.note().is_some(), engine.name() == "interpreter");
        let random = program(&[Op::LoadAncillary(Ancillary::Random), Op::ReturnA]);
        assert!(Engine::new(&random, 0).is_err());
    }
}
