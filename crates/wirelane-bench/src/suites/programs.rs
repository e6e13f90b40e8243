//! XDP programs in place of a socket: one that counts and drops, one that sends back, and one that
//! records when each packet arrives.

use std::os::fd::{AsFd, AsRawFd};

use wirelane_os::bpf::{
    Alu, AsmError, Assembler, Cond, Insn, Link, Load, Map, MapKind, Program, ProgramType, Reg,
    Size, XdpAction, XdpMode,
};
use wirelane_os::{OsError, iface};

use wirelane::error::{Error, Result};
use wirelane_lab::Site;

/// `enum bpf_func_id`
const LOOKUP: i32 = 1;
const KTIME_GET_NS: i32 = 5;
const REDIRECT_MAP: i32 = 51;

type Assembled = std::result::Result<Vec<Insn>, AsmError>;

/// Creates maps and a program that uses them, and attaches it to the interface of `site`.
fn attach<const N: usize>(
    site: &Site,
    mode: XdpMode,
    name: &'static str,
    maps: [(MapKind, &'static str, u32, u32); N],
    assemble: impl FnOnce([i32; N]) -> Assembled,
) -> Result<([Map; N], Link)> {
    let object = || format!("XDP program on {}", site.interface());
    let failed = |error: OsError| Error::os(object(), error);
    let mut made = Vec::new();
    for (kind, name, size, room) in maps {
        made.push(Map::create(kind, name, size, room).map_err(failed)?);
    }
    let maps: [Map; N] = made.try_into().map_err(|_| Error::failed(object(), "has no maps"))?;
    let insns = assemble(maps.each_ref().map(|map| map.as_fd().as_raw_fd()))
        .map_err(|error| Error::failed(object(), error.to_string()))?;
    let program = Program::load(&Load::new(ProgramType::Xdp, name, &insns))
        .map_err(|error| failed(error.into()))?;
    let link = || Link::attach(iface::index(site.interface())?, &program, mode);
    let link = site.inside(link)?.map_err(failed)?;
    Ok((maps, link))
}

/// Counts packets and drops them: the rate of the kernel without a socket. The program is detached
/// when this value is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Drops {
    counts: [Map; 1],
    _link: Link,
}

impl Drops {
    /// Attaches the program to the interface of `site`.
    ///
    /// # Errors
    /// A capability is missing, the driver does not support the mode, or another program is
    /// attached.
    pub(crate) fn attach(site: &Site, mode: XdpMode) -> Result<Self> {
        let maps = [(MapKind::PercpuArray, "wl_dropped", 8, 1)];
        let (counts, _link) = attach(site, mode, "wl_drop", maps, count_and_drop)?;
        Ok(Self { counts, _link })
    }

    /// Packets dropped since the program was attached.
    pub(crate) fn packets(&self) -> Result<u64> {
        let counts = self.counts[0].lookup(0);
        let counts = counts.map_err(|error| Error::os("XDP program that drops", error))?;
        let (of_cpus, _) = counts.as_chunks::<8>();
        Ok(of_cpus.iter().map(|count| u64::from_ne_bytes(*count)).sum())
    }
}

/// Adds 1 to the only entry of a per-CPU map, and drops.
fn count_and_drop([map]: [i32; 1]) -> Assembled {
    let mut asm = Assembler::new();
    let missing = asm.label();
    asm.emit(Insn::store_imm(Size::Word, Reg::R10, -4, 0));
    look_up(&mut asm, map);
    asm.jump_if(Cond::Eq, Reg::R0, 0, missing);
    asm.emit(Insn::load(Size::Double, Reg::R1, Reg::R0, 0));
    asm.emit(Insn::alu64(Alu::Add, Reg::R1, 1));
    asm.emit(Insn::store(Size::Double, Reg::R0, 0, Reg::R1));
    asm.place(missing);
    drop_it(asm)
}

/// Swaps the MAC addresses and redirects each packet back out of its interface, like
/// `xdp_redirect_map` of the kernel's samples.
#[derive(Debug)]
pub(crate) struct ReflectProgram {
    _maps: [Map; 1],
    _link: Link,
}

impl ReflectProgram {
    /// Like [`Drops::attach`].
    pub(crate) fn attach(site: &Site, mode: XdpMode) -> Result<Self> {
        let failed = |error| Error::os(format!("XDP program on {}", site.interface()), error);
        let maps = [(MapKind::Dev, "wl_back", 4, 1)];
        let (_maps, _link) = attach(site, mode, "wl_redirect", maps, swap_and_redirect)?;
        // The kernel looks for the interface in the namespace of this thread.
        let set = || _maps[0].update(0, &iface::index(site.interface())?.to_ne_bytes());
        site.inside(set)?.map_err(failed)?;
        Ok(Self { _maps, _link })
    }
}

/// Swaps the first two addresses, of 4 + 2 bytes each, and redirects to the only entry of a map.
fn swap_and_redirect([map]: [i32; 1]) -> Assembled {
    /// `struct xdp_md`
    const DATA: i16 = 0;
    const DATA_END: i16 = 4;
    const ETHERNET: i32 = 14;
    let mut asm = Assembler::new();
    let too_short = asm.label();
    asm.emit(Insn::load(Size::Word, Reg::R2, Reg::R1, DATA));
    asm.emit(Insn::load(Size::Word, Reg::R3, Reg::R1, DATA_END));
    asm.emit(Insn::mov_reg(Reg::R4, Reg::R2));
    asm.emit(Insn::alu64(Alu::Add, Reg::R4, ETHERNET));
    asm.jump_if_reg(Cond::Gt, Reg::R4, Reg::R3, too_short);
    for (size, low) in [(Size::Word, 0), (Size::Half, 4)] {
        asm.emit(Insn::load(size, Reg::R4, Reg::R2, low));
        asm.emit(Insn::load(size, Reg::R5, Reg::R2, low + 6));
        asm.emit(Insn::store(size, Reg::R2, low, Reg::R5));
        asm.emit(Insn::store(size, Reg::R2, low + 6, Reg::R4));
    }
    asm.extend(Insn::load_map(Reg::R1, map));
    asm.emit(Insn::mov(Reg::R2, 0));
    asm.emit(Insn::mov(Reg::R3, 0));
    asm.emit(Insn::call(REDIRECT_MAP));
    asm.emit(Insn::exit());
    asm.place(too_short);
    drop_it(asm)
}

/// Records the arrival time of each packet, and drops it.
#[derive(Debug)]
pub(crate) struct ArrivalRecorder {
    maps: [Map; 2],
    room: u32,
    _link: Link,
}

impl ArrivalRecorder {
    /// Like [`Drops::attach`], on an interface with one receive queue, with room for `room`
    /// packets.
    pub(crate) fn attach(site: &Site, room: u32) -> Result<Self> {
        let maps =
            [(MapKind::Array, "wl_arrived", 8, 1), (MapKind::Array, "wl_times", 8, room.max(1))];
        let assemble = |maps| note_and_drop(maps, room);
        let (maps, _link) = attach(site, XdpMode::Native, "wl_times", maps, assemble)?;
        Ok(Self { maps, room, _link })
    }

    /// Packets that have arrived.
    pub(crate) fn packets(&self) -> Result<u64> {
        number(&self.maps[0], 0)
    }

    /// The arrival times of the packets that fit: nanoseconds of the monotonic clock.
    pub(crate) fn times(&self) -> Result<Vec<u64>> {
        let arrived = self.packets()?.min(u64::from(self.room)) as u32;
        (0..arrived).map(|position| number(&self.maps[1], position)).collect()
    }
}

fn number(map: &Map, position: u32) -> Result<u64> {
    let value = map.lookup(position);
    let value = value.map_err(|error| Error::os("XDP program that notes times", error))?;
    Ok(value.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
}

/// No lock is needed, because one CPU at a time serves the queue.
fn note_and_drop([counter, times]: [i32; 2], room: u32) -> Assembled {
    const INDEX: Reg = Reg::R6;
    const NOW: Reg = Reg::R7;
    let mut asm = Assembler::new();
    let end = asm.label();
    asm.emit(Insn::call(KTIME_GET_NS));
    asm.emit(Insn::mov_reg(NOW, Reg::R0));
    asm.emit(Insn::store_imm(Size::Word, Reg::R10, -4, 0));
    look_up(&mut asm, counter);
    asm.jump_if(Cond::Eq, Reg::R0, 0, end);
    asm.emit(Insn::load(Size::Double, INDEX, Reg::R0, 0));
    asm.emit(Insn::mov_reg(Reg::R1, INDEX));
    asm.emit(Insn::alu64(Alu::Add, Reg::R1, 1));
    asm.emit(Insn::store(Size::Double, Reg::R0, 0, Reg::R1));
    asm.jump_if(Cond::Ge, INDEX, i32::try_from(room).unwrap_or(i32::MAX), end);
    asm.emit(Insn::store(Size::Word, Reg::R10, -4, INDEX));
    look_up(&mut asm, times);
    asm.jump_if(Cond::Eq, Reg::R0, 0, end);
    asm.emit(Insn::store(Size::Double, Reg::R0, 0, NOW));
    asm.place(end);
    drop_it(asm)
}

/// Looks up the entry whose number is on the stack; R0 points to it, or is null.
fn look_up(asm: &mut Assembler, map: i32) {
    asm.extend(Insn::load_map(Reg::R1, map));
    asm.emit(Insn::mov_reg(Reg::R2, Reg::R10));
    asm.emit(Insn::alu64(Alu::Add, Reg::R2, -4));
    asm.emit(Insn::call(LOOKUP));
}

fn drop_it(mut asm: Assembler) -> Assembled {
    asm.emit(Insn::mov(Reg::R0, XdpAction::Drop as i32));
    asm.emit(Insn::exit());
    asm.finish()
}
