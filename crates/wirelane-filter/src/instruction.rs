//! One instruction of classic BPF.

/// `struct sock_filter` of `linux/filter.h`, which libpcap calls `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip when true.
    pub jt: u8,
    /// Instructions to skip when false.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Instruction>() == 8 && align_of::<Instruction>() == 4);
    assert!(offset_of!(Instruction, code) == 0 && offset_of!(Instruction, jt) == 2);
    assert!(offset_of!(Instruction, jf) == 3 && offset_of!(Instruction, k) == 4);
};
