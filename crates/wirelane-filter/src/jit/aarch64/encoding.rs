//! Encodings of the instructions that filters use, by mnemonic and with all operands 0 (Arm
//! Architecture Reference Manual, C6.2 for base instructions and C7.2 for vectors).
//!
//! 32-bit instructions become 64-bit instructions with [`X`], where the comment says so.

/// Operands of 64 bits instead of 32: `sf` of arithmetic and logical instructions.
pub(super) const X: u32 = 1 << 31;

/// Arithmetic with an immediate of 12 bits, and with a register. 32 bits, or [`X`].
pub(super) const ADD_IMMEDIATE: u32 = 0x1100_0000;
pub(super) const SUB_IMMEDIATE: u32 = 0x5100_0000;
pub(super) const SUBS_IMMEDIATE: u32 = 0x7100_0000;
pub(super) const ADD_REGISTER: u32 = 0x0b00_0000;
pub(super) const SUB_REGISTER: u32 = 0x4b00_0000;
pub(super) const SUBS_REGISTER: u32 = 0x6b00_0000;

/// Logic with a bit-pattern immediate, and with a register.
pub(super) const AND_IMMEDIATE: u32 = 0x1200_0000;
pub(super) const ORR_IMMEDIATE: u32 = 0x3200_0000;
pub(super) const EOR_IMMEDIATE: u32 = 0x5200_0000;
pub(super) const ANDS_IMMEDIATE: u32 = 0x7200_0000;
pub(super) const AND_REGISTER: u32 = 0x0a00_0000;
pub(super) const ORR_REGISTER: u32 = 0x2a00_0000;
pub(super) const EOR_REGISTER: u32 = 0x4a00_0000;
pub(super) const ANDS_REGISTER: u32 = 0x6a00_0000;

/// 16-bit immediates: the other bits become ones, become zeros, or stay.
pub(super) const MOVN: u32 = 0x1280_0000;
pub(super) const MOVZ: u32 = 0x5280_0000;
pub(super) const MOVK: u32 = 0x7280_0000;

pub(super) const UBFM: u32 = 0x5300_0000;
pub(super) const CSEL: u32 = 0x1a80_0000;
pub(super) const UDIV: u32 = 0x1ac0_0800;
pub(super) const LSLV: u32 = 0x1ac0_2000;
pub(super) const LSRV: u32 = 0x1ac0_2400;
pub(super) const MADD: u32 = 0x1b00_0000;
pub(super) const MSUB: u32 = 0x1b00_8000;
pub(super) const REV16: u32 = 0x5ac0_0400;
pub(super) const REV: u32 = 0x5ac0_0800;

/// Loads and stores. The immediate is unsigned, has 12 bits and counts units of the access size
/// (`LDR`), or it is signed, has 9 bits and counts bytes (`LDUR`).
pub(super) const LDRB: u32 = 0x3940_0000;
pub(super) const LDRH: u32 = 0x7940_0000;
pub(super) const LDR: u32 = 0xb940_0000;
pub(super) const LDR_X: u32 = 0xf940_0000;
pub(super) const STR: u32 = 0xb900_0000;
pub(super) const LDURB: u32 = 0x3840_0000;
pub(super) const LDURH: u32 = 0x7840_0000;
pub(super) const LDUR: u32 = 0xb840_0000;
/// A 32-bit store that then increments the base.
pub(super) const STR_POST_INDEX: u32 = 0xb800_0400;

/// Jumps. Conditional jumps, and loads of constants, have 19 bits for the distance; `B` has 26.
pub(super) const B: u32 = 0x1400_0000;
pub(super) const CBZ: u32 = 0x3400_0000;
pub(super) const CBNZ_X: u32 = 0xb500_0000;
pub(super) const B_CONDITION: u32 = 0x5400_0000;
pub(super) const RET: u32 = 0xd65f_03c0;

/// Vectors of four words.
pub(super) const LDR_LITERAL_Q: u32 = 0x9c00_0000;
pub(super) const DUP_GENERAL: u32 = 0x4e04_0c00;
pub(super) const CMEQ_REGISTER: u32 = 0x6ea0_8c00;
pub(super) const ORR_VECTOR: u32 = 0x4ea0_1c00;
pub(super) const UMAXP: u32 = 0x6ea0_a400;
pub(super) const FMOV_X_D: u32 = 0x9e66_0000;
