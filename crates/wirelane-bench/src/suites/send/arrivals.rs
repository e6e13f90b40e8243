//! An XDP program that notes when each packet arrives, and drops it.

use std::os::fd::{AsFd, AsRawFd};

use wirelane_os::bpf::{
    Alu, AsmError, Assembler, Cond, Insn, Link, Load, Map, MapKind, Program, ProgramType, Reg,
    Size, XdpAction, XdpMode,
};
use wirelane_os::{OsError, iface};

use wirelane::error::{Error, Result};

/// The program on an interface with one receive queue; it goes with this, or with the process.
#[derive(Debug)]
pub(super) struct Arrivals {
    counter: Map,
    times: Map,
    room: u32,
    _link: Link,
}

impl Arrivals {
    /// Puts it on `interface` of the calling thread's network namespace, for so many packets.
    ///
    /// # Errors
    /// A capability is missing, the driver has no native mode, or another program is there.
    pub(super) fn attach(interface: &str, room: u32) -> Result<Self> {
        let failed = |error: OsError| Error::os(object(interface), error);
        let counter = Map::create(MapKind::Array, "wl_arrived", 8, 1).map_err(failed)?;
        let times = Map::create(MapKind::Array, "wl_times", 8, room.max(1)).map_err(failed)?;
        let insns = note_and_drop(&counter, &times, room)
            .map_err(|error| Error::failed(object(interface), error.to_string()))?;
        let program = Program::load(&Load::new(ProgramType::Xdp, "wl_times", &insns))
            .map_err(|error| failed(error.into()))?;
        let index = iface::index(interface).map_err(failed)?;
        let link = Link::attach(index, &program, XdpMode::Native).map_err(failed)?;
        Ok(Self { counter, times, room, _link: link })
    }

    /// Packets that have arrived.
    ///
    /// # Errors
    /// The kernel does not say.
    pub(super) fn packets(&self) -> Result<u64> {
        number(&self.counter, 0)
    }

    /// When each arrived, of those that there was room for: nanoseconds of the monotonic clock.
    ///
    /// # Errors
    /// As above.
    pub(super) fn times(&self) -> Result<Vec<u64>> {
        let arrived = self.packets()?.min(u64::from(self.room)) as u32;
        (0..arrived).map(|position| number(&self.times, position)).collect()
    }
}

fn object(interface: &str) -> String {
    format!("XDP program on {interface}")
}

fn number(map: &Map, position: u32) -> Result<u64> {
    let value = map.lookup(position);
    let value = value.map_err(|error| Error::os("XDP program that notes times", error))?;
    Ok(value.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
}

/// One queue is served by one CPU at a time: nobody else counts meanwhile.
fn note_and_drop(
    counter: &Map,
    times: &Map,
    room: u32,
) -> std::result::Result<Vec<Insn>, AsmError> {
    /// `enum bpf_func_id`
    const LOOKUP: i32 = 1;
    const KTIME_GET_NS: i32 = 5;
    const INDEX: Reg = Reg::R6;
    const NOW: Reg = Reg::R7;
    let mut asm = Assembler::new();
    let end = asm.label();
    let lookup = |asm: &mut Assembler, map: &Map| {
        asm.extend(Insn::load_map(Reg::R1, map.as_fd().as_raw_fd()));
        asm.emit(Insn::mov_reg(Reg::R2, Reg::R10));
        asm.emit(Insn::alu64(Alu::Add, Reg::R2, -4));
        asm.emit(Insn::call(LOOKUP));
        asm.jump_if(Cond::Eq, Reg::R0, 0, end);
    };
    asm.emit(Insn::call(KTIME_GET_NS));
    asm.emit(Insn::mov_reg(NOW, Reg::R0));
    asm.emit(Insn::store_imm(Size::Word, Reg::R10, -4, 0));
    lookup(&mut asm, counter);
    asm.emit(Insn::load(Size::Double, INDEX, Reg::R0, 0));
    asm.emit(Insn::mov_reg(Reg::R1, INDEX));
    asm.emit(Insn::alu64(Alu::Add, Reg::R1, 1));
    asm.emit(Insn::store(Size::Double, Reg::R0, 0, Reg::R1));
    asm.jump_if(Cond::Ge, INDEX, i32::try_from(room).unwrap_or(i32::MAX), end);
    asm.emit(Insn::store(Size::Word, Reg::R10, -4, INDEX));
    lookup(&mut asm, times);
    asm.emit(Insn::store(Size::Double, Reg::R0, 0, NOW));
    asm.place(end);
    asm.emit(Insn::mov(Reg::R0, XdpAction::Drop as i32));
    asm.emit(Insn::exit());
    asm.finish()
}
