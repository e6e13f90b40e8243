//! Passes on the driver's metadata of a packet: its hash and hardware time.
//!
//! A program bound to one interface can request both from the driver (`bpf_xdp_metadata_rx_hash`,
//! `bpf_xdp_metadata_rx_timestamp`; Linux 6.3). It requests them only for packets for a socket, as
//! its last step: the host would treat the answers as metadata that distinguishes flows
//! (`skb_metadata_differs`).
//!
//! ```text
//!   headroom │ packet      ─▶      headroom │ Hints │ packet
//! ```

use wirelane_os::bpf::{Alu, Assembler, Cond, Insn, Reg, Size, btf};

use crate::frame::Hints as Layout;

/// Which hints to request, and how.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HintRequest {
    hash: Option<HintSource>,
    time: Option<HintSource>,
}

/// The source of a hint.
#[derive(Clone, Copy, Debug)]
enum HintSource {
    /// A function of the kernel.
    Function(u32),
    /// A test: the function's return value, and the first and second value that it writes.
    #[cfg(test)]
    Answer(i32, u64, u32),
}

impl HintRequest {
    /// Finds the wanted hints that this kernel supports.
    ///
    /// # Errors
    /// The kernel's BTF cannot be read.
    pub(super) fn find(hash: bool, time: bool) -> wirelane_os::Result<Self> {
        let find = |wanted: bool, name| -> wirelane_os::Result<_> {
            let found = if wanted { btf::kernel_function(name)? } else { None };
            Ok(found.map(HintSource::Function))
        };
        Ok(Self {
            hash: find(hash, "bpf_xdp_metadata_rx_hash")?,
            time: find(time, "bpf_xdp_metadata_rx_timestamp")?,
        })
    }

    pub(super) fn hash(self) -> bool {
        self.hash.is_some()
    }

    /// Whether it requests the hardware receive time.
    pub(super) fn time(self) -> bool {
        self.time.is_some()
    }

    /// Whether it requests anything.
    pub(super) fn any(self) -> bool {
        self.hash() || self.time()
    }

    /// Requests the hints, and puts them right before the packet. Clobbers R0 to R5.
    pub(super) fn hand_on(self, asm: &mut Assembler, context: Reg) {
        let done = asm.label();
        asm.emit(Insn::store_imm(Size::Double, Reg::R10, TIME, 0));
        asm.emit(Insn::store_imm(Size::Double, Reg::R10, HASH, 0));
        if let Some(source) = self.time {
            ask(asm, source, context, TIME, None);
            // -ENODATA: the packet has none; -EOPNOTSUPP: the driver does not support it.
            let told = asm.label();
            asm.jump_if(Cond::Eq, Reg::R0, 0, told);
            asm.emit(Insn::store_imm(Size::Double, Reg::R10, TIME, 0));
            asm.place(told);
        }
        if let Some(source) = self.hash {
            ask(asm, source, context, HASH, Some(MARKS));
        }
        asm.emit(Insn::mov(Reg::R4, Layout::PRESENT as i32));
        if self.hash() {
            let silent = asm.label();
            asm.jump_if(Cond::Ne, Reg::R0, 0, silent);
            asm.emit(Insn::load(Size::Word, Reg::R3, Reg::R10, MARKS));
            asm.emit(Insn::alu64(Alu::And, Reg::R3, Layout::KIND as i32));
            asm.emit(Insn::alu64(Alu::Or, Reg::R3, Layout::HASHED as i32));
            asm.emit(Insn::alu64_reg(Alu::Or, Reg::R4, Reg::R3));
            asm.place(silent);
        }
        asm.emit(Insn::store(Size::Word, Reg::R10, MARKS, Reg::R4));
        asm.emit(Insn::mov_reg(Reg::R1, context));
        asm.emit(Insn::mov(Reg::R2, -(Layout::BYTES as i32)));
        asm.emit(Insn::call(XDP_ADJUST_META));
        // A driver without room for hints: the packet has none then.
        asm.jump_if(Cond::Ne, Reg::R0, 0, done);
        asm.emit(Insn::load(Size::Word, Reg::R1, context, XDP_MD_DATA_META));
        asm.emit(Insn::load(Size::Word, Reg::R2, context, XDP_MD_DATA));
        asm.emit(Insn::mov_reg(Reg::R3, Reg::R1));
        asm.emit(Insn::alu64(Alu::Add, Reg::R3, Layout::BYTES as i32));
        asm.jump_if_reg(Cond::Gt, Reg::R3, Reg::R2, done);
        // By halves: a frame need not be aligned to more.
        for at in (0..Layout::BYTES as i16).step_by(2) {
            asm.emit(Insn::load(Size::Half, Reg::R3, Reg::R10, STATE + at));
            asm.emit(Insn::store(Size::Half, Reg::R1, at, Reg::R3));
        }
        asm.place(done);
    }
}

/// Calls a function that writes its answers to `first` and `second`; R0 is 0 on success.
fn ask(asm: &mut Assembler, source: HintSource, context: Reg, first: i16, second: Option<i16>) {
    asm.emit(Insn::mov_reg(Reg::R1, context));
    for (register, at) in [Reg::R2, Reg::R3].into_iter().zip([Some(first), second]) {
        let Some(at) = at else { continue };
        asm.emit(Insn::mov_reg(register, Reg::R10));
        asm.emit(Insn::alu64(Alu::Add, register, i32::from(at)));
    }
    match source {
        HintSource::Function(number) => asm.emit(Insn::call_kernel(number)),
        #[cfg(test)]
        HintSource::Answer(returns, one, other) => {
            asm.extend(Insn::load64(Reg::R0, one));
            let size = if second.is_some() { Size::Word } else { Size::Double };
            asm.emit(Insn::store(size, Reg::R2, 0, Reg::R0));
            if second.is_some() {
                asm.emit(Insn::store_imm(Size::Word, Reg::R3, 0, other as i32));
            }
            asm.emit(Insn::mov(Reg::R0, returns));
        }
    }
}

/// In the stack frame, below the slots of filters and tags: the hints in the layout in which they
/// precede the packet.
const STATE: i16 = -96;
const TIME: i16 = STATE + Layout::TIME;
const HASH: i16 = STATE + Layout::HASH;
const MARKS: i16 = STATE + Layout::MARKS;
/// Offsets in `struct xdp_md`.
const XDP_MD_DATA: i16 = 0;
const XDP_MD_DATA_META: i16 = 8;
/// `BPF_FUNC_xdp_adjust_meta`, Linux 4.15.
const XDP_ADJUST_META: i32 = 54;

#[cfg(test)]
impl HintRequest {
    /// Simulates a driver: return values of its functions, the time, the hash and its kind.
    pub(super) fn answered(returns: [i32; 2], time: u64, hash: (u32, u32)) -> Self {
        Self {
            time: Some(HintSource::Answer(returns[0], time, 0)),
            hash: Some(HintSource::Answer(returns[1], u64::from(hash.0), hash.1)),
        }
    }
}
