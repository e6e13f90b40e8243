//! Restores VLAN tags that a driver has stripped from packets.
//!
//! A driver that strips tags on receive (`rx-vlan-offload`) keeps them outside of the packet, and
//! so does a veth whose peer did not insert the tag. An AF_XDP socket does not see them there: the
//! packet would arrive without its tag. A program bound to one interface can request the tag from
//! the driver (`bpf_xdp_metadata_rx_vlan_tag`, Linux 6.8). It restores the tag first, so that
//! filters see the packet as on the wire. It removes the tag again from packets for the host, which
//! has it already.
//!
//! ```text
//!   destination source │ type …       ─▶       destination source │ 8100 tag │ type …
//!                      ▲ the tag beside it
//! ```

use wirelane_os::bpf::{Alu, Assembler, Cond, Insn, Label, Reg, Size, btf};

/// The kernel function that returns the tag.
const FUNCTION: &str = "bpf_xdp_metadata_rx_vlan_tag";

/// How to request the tag of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tags {
    function: u32,
}

impl Tags {
    /// `None` if this kernel has no such function.
    ///
    /// # Errors
    /// The kernel's BTF cannot be read.
    pub(super) fn find() -> wirelane_os::Result<Option<Self>> {
        Ok(btf::kernel_function(FUNCTION)?.map(|function| Self { function }))
    }

    /// Restores the tag, if there is one, and continues at the next instruction. On failure jumps
    /// to `host` with the unchanged packet. Clobbers R0 to R5.
    pub(super) fn restore(self, asm: &mut Assembler, context: Reg, host: Label) {
        let untagged = asm.label();
        asm.emit(Insn::store_imm(Size::Double, Reg::R10, STATE, 0));
        asm.emit(Insn::mov_reg(Reg::R1, context));
        for (register, at) in [(Reg::R2, PROTOCOL), (Reg::R3, TAG)] {
            asm.emit(Insn::mov_reg(register, Reg::R10));
            asm.emit(Insn::alu64(Alu::Add, register, i32::from(at)));
        }
        asm.emit(Insn::call_kernel(self.function));
        // -ENODATA: it had none; -EOPNOTSUPP: the driver does not support it.
        asm.jump_if(Cond::Ne, Reg::R0, 0, untagged);
        move_front(asm, context, -LENGTH);
        asm.jump_if(Cond::Ne, Reg::R0, 0, host);
        asm.emit(Insn::store_imm(Size::Half, Reg::R10, IS_IN, 1));
        addresses(asm, context, LENGTH as i16, 0, host);
        // The type is in network byte order, the tag in host byte order.
        asm.emit(Insn::load(Size::Half, Reg::R3, Reg::R10, PROTOCOL));
        asm.emit(Insn::store(Size::Half, Reg::R1, 12, Reg::R3));
        asm.emit(Insn::load(Size::Half, Reg::R3, Reg::R10, TAG));
        asm.emit(Insn::to_be(Reg::R3, 16));
        asm.emit(Insn::store(Size::Half, Reg::R1, 14, Reg::R3));
        asm.place(untagged);
    }

    /// Removes the tag that [`Tags::restore`] inserted; clobbers R0 to R5.
    pub(super) fn undo(self, asm: &mut Assembler, context: Reg) {
        let done = asm.label();
        asm.emit(Insn::load(Size::Half, Reg::R1, Reg::R10, IS_IN));
        asm.jump_if(Cond::Eq, Reg::R1, 0, done);
        addresses(asm, context, 0, LENGTH as i16, done);
        move_front(asm, context, LENGTH);
        asm.place(done);
    }
}

/// Moves the start of the packet; R0 is 0 on success.
fn move_front(asm: &mut Assembler, context: Reg, bytes: i32) {
    asm.emit(Insn::mov_reg(Reg::R1, context));
    asm.emit(Insn::mov(Reg::R2, bytes));
    asm.emit(Insn::call(XDP_ADJUST_HEAD));
}

/// Moves the two addresses; R1 is then the first byte. Jumps to `short` if the packet is too short,
/// which never happens.
fn addresses(asm: &mut Assembler, context: Reg, from: i16, to: i16, short: Label) {
    asm.emit(Insn::load(Size::Word, Reg::R1, context, XDP_MD_DATA));
    asm.emit(Insn::load(Size::Word, Reg::R2, context, XDP_MD_DATA_END));
    asm.emit(Insn::mov_reg(Reg::R3, Reg::R1));
    asm.emit(Insn::alu64(Alu::Add, Reg::R3, ADDRESSES + LENGTH));
    asm.jump_if_reg(Cond::Gt, Reg::R3, Reg::R2, short);
    // Both are loaded before either is stored, as they overlap. By halves: a frame need not be
    // aligned to more.
    let halves = [(Size::Half, 0), (Size::Half, 2), (Size::Half, 4)];
    for base in if from > to { [0, 6] } else { [6, 0] } {
        for (register, (size, at)) in [Reg::R3, Reg::R4, Reg::R5].into_iter().zip(halves) {
            asm.emit(Insn::load(size, register, Reg::R1, from + base + at));
        }
        for (register, (size, at)) in [Reg::R3, Reg::R4, Reg::R5].into_iter().zip(halves) {
            asm.emit(Insn::store(size, Reg::R1, to + base + at, register));
        }
    }
}

/// Bytes of a tag with its type.
const LENGTH: i32 = 4;
/// Bytes of the two addresses.
const ADDRESSES: i32 = 12;
/// In the stack frame, below the slots of filters: the type of the tag, the tag, and whether it is
/// in the packet.
const STATE: i16 = -80;
const PROTOCOL: i16 = STATE;
const TAG: i16 = STATE + 2;
const IS_IN: i16 = STATE + 4;
/// Offsets in `struct xdp_md`.
const XDP_MD_DATA: i16 = 0;
const XDP_MD_DATA_END: i16 = 4;
/// `BPF_FUNC_xdp_adjust_head`, Linux 4.10.
const XDP_ADJUST_HEAD: i32 = 44;
