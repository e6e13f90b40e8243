//! What the kernel alone can forward: an XDP program that swaps the MAC addresses and redirects
//! each packet back out of its interface, as `xdp_redirect_map` of the kernel's samples does,
//! without any socket.

use std::os::fd::{AsFd, AsRawFd};

use wirelane_os::bpf::{
    Alu, AsmError, Assembler, Cond, Insn, Link, Load, Map, MapKind, Program, ProgramType, Reg,
    Size, XdpAction, XdpMode,
};
use wirelane_os::{OsError, iface};

use wirelane::error::{Error, Result};

/// The program on an interface; it goes with this, or with the process.
#[derive(Debug)]
pub(super) struct Redirect {
    _interfaces: Map,
    _link: Link,
}

impl Redirect {
    /// Puts it on `interface` of the calling thread's network namespace.
    ///
    /// # Errors
    /// A capability is missing, the driver has no such mode, or another program is there.
    pub(super) fn attach(interface: &str, mode: XdpMode) -> Result<Self> {
        let failed = |error: OsError| Error::os(format!("XDP program on {interface}"), error);
        let index = iface::index(interface).map_err(failed)?;
        let interfaces = Map::create(MapKind::Dev, "wl_back", 4, 1).map_err(failed)?;
        interfaces.update(0, &index.to_ne_bytes()).map_err(failed)?;
        let insns = swap_and_redirect(interfaces.as_fd().as_raw_fd()).map_err(|error| {
            Error::failed(format!("XDP program on {interface}"), format!("{error:?}"))
        })?;
        let program = Program::load(&Load::new(ProgramType::Xdp, "wl_redirect", &insns))
            .map_err(|error| failed(error.into()))?;
        let link = Link::attach(index, &program, mode).map_err(failed)?;
        Ok(Self { _interfaces: interfaces, _link: link })
    }
}

/// Swaps the first two addresses, of 4 + 2 bytes each, and redirects to the only entry of a map.
fn swap_and_redirect(map: i32) -> std::result::Result<Vec<Insn>, AsmError> {
    /// `BPF_FUNC_redirect_map`
    const REDIRECT: i32 = 51;
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
    asm.emit(Insn::call(REDIRECT));
    asm.emit(Insn::exit());
    asm.place(too_short);
    asm.emit(Insn::mov(Reg::R0, XdpAction::Drop as i32));
    asm.emit(Insn::exit());
    asm.finish()
}
