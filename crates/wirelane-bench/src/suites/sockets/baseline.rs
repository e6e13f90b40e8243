//! What the kernel alone can do: an XDP program that counts and drops, without any socket.

use std::os::fd::{AsFd, AsRawFd};

use wirelane_os::bpf::{
    Alu, Assembler, Cond, Insn, Link, Load, Map, MapKind, Program, ProgramType, Reg, Size,
    XdpAction, XdpMode,
};
use wirelane_os::{OsError, iface};

use wirelane::error::{Error, Result};

/// The program on an interface; it goes with this, or with the process.
#[derive(Debug)]
pub(crate) struct Baseline {
    counts: Map,
    _link: Link,
}

impl Baseline {
    /// Puts it on `interface` of the calling thread's network namespace.
    ///
    /// # Errors
    /// A capability is missing, the driver has no such mode, or another program is there.
    pub(crate) fn attach(interface: &str, mode: XdpMode) -> Result<Self> {
        let failed = |error: OsError| Error::os(format!("XDP program on {interface}"), error);
        let counts = Map::create(MapKind::PercpuArray, "wl_dropped", 8, 1).map_err(failed)?;
        let insns = count_and_drop(counts.as_fd().as_raw_fd()).map_err(|error| {
            Error::failed(format!("XDP program on {interface}"), format!("{error:?}"))
        })?;
        let program = Program::load(&Load::new(ProgramType::Xdp, "wl_drop", &insns))
            .map_err(|error| failed(error.into()))?;
        let index = iface::index(interface).map_err(failed)?;
        let link = Link::attach(index, &program, mode).map_err(failed)?;
        Ok(Self { counts, _link: link })
    }

    /// Packets dropped since.
    ///
    /// # Errors
    /// The kernel does not say.
    pub(crate) fn packets(&self) -> Result<u64> {
        let counts = self.counts.lookup(0);
        let counts = counts.map_err(|error| Error::os("XDP program that drops", error))?;
        let (of_cpus, _) = counts.as_chunks::<8>();
        Ok(of_cpus.iter().map(|count| u64::from_ne_bytes(*count)).sum())
    }
}

/// Adds 1 to the only entry of a per-CPU map, and drops.
fn count_and_drop(map: i32) -> std::result::Result<Vec<Insn>, wirelane_os::bpf::AsmError> {
    /// `BPF_FUNC_map_lookup_elem`
    const LOOKUP: i32 = 1;
    let mut asm = Assembler::new();
    let missing = asm.label();
    asm.emit(Insn::store_imm(Size::Word, Reg::R10, -4, 0));
    asm.emit(Insn::mov_reg(Reg::R2, Reg::R10));
    asm.emit(Insn::alu64(Alu::Add, Reg::R2, -4));
    asm.extend(Insn::load_map(Reg::R1, map));
    asm.emit(Insn::call(LOOKUP));
    asm.jump_if(Cond::Eq, Reg::R0, 0, missing);
    asm.emit(Insn::load(Size::Double, Reg::R1, Reg::R0, 0));
    asm.emit(Insn::alu64(Alu::Add, Reg::R1, 1));
    asm.emit(Insn::store(Size::Double, Reg::R0, 0, Reg::R1));
    asm.place(missing);
    asm.emit(Insn::mov(Reg::R0, XdpAction::Drop as i32));
    asm.emit(Insn::exit());
    asm.finish()
}
