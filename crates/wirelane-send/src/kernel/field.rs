//! BPF code that computes field values as [`Template`](wirelane_gen::template::Template) does.

use wirelane_gen::Values;
use wirelane_gen::template::Edit;
use wirelane_os::OsError;
use wirelane_os::bpf::{Alu, Assembler, Cond, Insn, Label, Map, MapKind, Reg, Size};

use super::code::{FRAME, NUMBER, add_to_sum, apply, constant, look_up, modulo, store_number};
use super::refusal::KernelRefusal;

/// The value of a field, as BPF instructions compute it.
#[derive(Debug)]
pub(super) enum FieldComputation {
    /// In R1.
    Narrow(Narrow),
    /// The upper half in R1, the lower one in R4.
    Wide(Wide),
}

#[derive(Debug)]
pub(super) enum Narrow {
    Counter {
        start: u64,
        step: u64,
        period: u64,
    },
    List {
        map: Map,
        period: u64,
    },
    /// The span is a power of two, 2 to the power of `bits`.
    RandomBits {
        low: u64,
        bits: u32,
        seed: u64,
    },
    /// The span has at most 2³² values.
    RandomSpan {
        low: u64,
        span: u64,
        seed: u64,
    },
}

#[derive(Debug)]
pub(super) enum Wide {
    /// Adds or subtracts (`falls`) the position times `low`, which fits into 64 bits, and the
    /// position times `high` in the upper half.
    Counter {
        start: u128,
        high: u64,
        low: u64,
        falls: bool,
        period: u64,
    },
    List {
        map: Map,
        period: u64,
    },
    Random {
        low: u128,
        mask: u128,
        seed: u64,
    },
}

/// Why a field cannot be prepared.
pub(super) enum FieldError {
    Refused(KernelRefusal),
    Os(OsError),
}

impl FieldComputation {
    /// Prepares the values of `edit`, with a map for a list.
    pub(super) fn new(edit: &Edit) -> Result<Self, FieldError> {
        if edit.bits > 64 { wide(edit).map(Self::Wide) } else { narrow(edit).map(Self::Narrow) }
    }

    /// Emits the field: writes its value for the packet's number into the frame, and adds it to the
    /// checksums on the stack. `slot` returns the stack offset of a checksum.
    pub(super) fn emit(
        &self,
        asm: &mut Assembler,
        edit: &Edit,
        failed: Label,
        slot: impl Fn(usize) -> i16,
    ) {
        let (at, width) = (edit.offset as i16, usize::from(edit.width));
        let odd = (edit.offset + u16::from(edit.width)) % 2 == 1;
        let whole = edit.shift == 0 && usize::from(edit.bits) == 8 * width;
        let sums = (0..32).filter(|index| edit.checksums >> index & 1 == 1);
        match self {
            Self::Narrow(field) => {
                field.emit(asm, edit, failed);
                store_number(asm, FRAME, at, width, Reg::R1, whole);
                sums.for_each(|sum| add_to_sum(asm, slot(sum), Reg::R1, width, odd));
            }
            Self::Wide(field) => {
                field.emit(asm, edit.bits, failed);
                store_number(asm, FRAME, at, 8, Reg::R1, true);
                store_number(asm, FRAME, at + 8, 8, Reg::R4, true);
                for sum in sums {
                    add_to_sum(asm, slot(sum), Reg::R1, 8, odd);
                    add_to_sum(asm, slot(sum), Reg::R4, 8, odd);
                }
            }
        }
    }
}

fn narrow(edit: &Edit) -> Result<Narrow, FieldError> {
    let mask = if edit.bits >= 64 { u64::MAX } else { (1 << edit.bits) - 1 };
    Ok(match &edit.values {
        Values::Constant(value) => Narrow::Counter { start: *value as u64, step: 0, period: 1 },
        Values::Counter { start, step, count } => {
            Narrow::Counter { start: *start as u64, step: *step as u64, period: (*count).max(1) }
        }
        Values::List(list) => {
            let value = |value: &u128| (*value as u64 & mask).to_ne_bytes().to_vec();
            Narrow::List { map: list_map(list, 8, value)?, period: list.len().max(1) as u64 }
        }
        Values::Random { low, high, seed } => {
            let (low, seed) = (*low as u64, *seed);
            match (*high as u64).wrapping_sub(low).wrapping_add(1) {
                0 => Narrow::RandomBits { low, bits: 64, seed },
                span if span.is_power_of_two() => {
                    Narrow::RandomBits { low, bits: span.trailing_zeros(), seed }
                }
                span if span <= 1 << 32 => Narrow::RandomSpan { low, span, seed },
                _ => return Err(FieldError::Refused(KernelRefusal::Values)),
            }
        }
    })
}

fn wide(edit: &Edit) -> Result<Wide, FieldError> {
    let refused = || FieldError::Refused(KernelRefusal::Values);
    if edit.width != 16 || edit.shift != 0 || edit.bits != 128 {
        return Err(refused());
    }
    let counter = |start: u128, step: u128, period: u64| {
        let falls = step >> 127 == 1;
        let size = if falls { step.wrapping_neg() } else { step };
        let (high, low) = ((size >> 64) as u64, size as u64);
        let most = u128::from(low) * u128::from(period - 1);
        let fits = most <= u128::from(u64::MAX);
        fits.then_some(Wide::Counter { start, high, low, falls, period }).ok_or_else(refused)
    };
    match &edit.values {
        Values::Constant(value) => counter(*value, 0, 1),
        Values::Counter { start, step, count } => counter(*start, *step, (*count).max(1)),
        Values::List(list) => {
            let value = |value: &u128| {
                let halves = [(*value >> 64) as u64, *value as u64];
                halves.map(u64::to_ne_bytes).concat()
            };
            Ok(Wide::List { map: list_map(list, 16, value)?, period: list.len().max(1) as u64 })
        }
        Values::Random { low, high, seed } => {
            let mask = match high.wrapping_sub(*low).wrapping_add(1) {
                0 => u128::MAX,
                span if span.is_power_of_two() => span - 1,
                _ => return Err(refused()),
            };
            Ok(Wide::Random { low: *low, mask, seed: *seed })
        }
    }
}

fn list_map(
    list: &[u128],
    bytes: u32,
    value: impl Fn(&u128) -> Vec<u8>,
) -> Result<Map, FieldError> {
    let entries =
        u32::try_from(list.len()).map_err(|_| FieldError::Refused(KernelRefusal::Values))?;
    let map = Map::create(MapKind::Array, "wl_values", bytes, entries.max(1));
    let map = map.map_err(FieldError::Os)?;
    for (index, entry) in (0..).zip(list) {
        map.update(index, &value(entry)).map_err(FieldError::Os)?;
    }
    Ok(map)
}

impl Narrow {
    /// Emits R1 = the value, shifted to its position in the field's bytes.
    fn emit(&self, asm: &mut Assembler, edit: &Edit, failed: Label) {
        let position = |asm: &mut Assembler, period| {
            asm.emit(Insn::mov_reg(Reg::R1, NUMBER));
            modulo(asm, Reg::R1, period);
        };
        match self {
            Self::Counter { start, step, period } => {
                position(asm, *period);
                apply(asm, Alu::Mul, Reg::R1, *step);
                apply(asm, Alu::Add, Reg::R1, *start);
            }
            Self::List { map, period } => {
                position(asm, *period);
                look_up(asm, map, failed);
                asm.emit(Insn::load(Size::Double, Reg::R1, Reg::R0, 0));
            }
            Self::RandomBits { low, bits, seed } => {
                random(asm, Reg::R1, *seed);
                match bits {
                    0 => asm.emit(Insn::mov(Reg::R1, 0)),
                    64 => {}
                    bits => asm.emit(Insn::alu64(Alu::Shr, Reg::R1, 64 - *bits as i32)),
                }
                apply(asm, Alu::Add, Reg::R1, *low);
            }
            Self::RandomSpan { low, span, seed } => {
                random(asm, Reg::R1, *seed);
                // (random * span) >> 64, computed with the two halves of the random number.
                asm.emit(Insn::alu32_reg(Alu::Mov, Reg::R2, Reg::R1));
                apply(asm, Alu::Mul, Reg::R2, *span);
                asm.emit(Insn::alu64(Alu::Shr, Reg::R2, 32));
                asm.emit(Insn::alu64(Alu::Shr, Reg::R1, 32));
                apply(asm, Alu::Mul, Reg::R1, *span);
                asm.emit(Insn::alu64_reg(Alu::Add, Reg::R1, Reg::R2));
                asm.emit(Insn::alu64(Alu::Shr, Reg::R1, 32));
                apply(asm, Alu::Add, Reg::R1, *low);
            }
        }
        if edit.bits < 64 {
            apply(asm, Alu::And, Reg::R1, (1 << edit.bits) - 1);
        }
        if edit.shift > 0 {
            asm.emit(Insn::alu64(Alu::Shl, Reg::R1, i32::from(edit.shift)));
        }
    }
}

impl Wide {
    fn emit(&self, asm: &mut Assembler, bits: u8, failed: Label) {
        let (high, low) = (Reg::R1, Reg::R4);
        debug_assert_eq!(bits, 128);
        match self {
            Self::Counter { start, high: upper, low: lower, falls, period } => {
                let op = if *falls { Alu::Sub } else { Alu::Add };
                let done = asm.label();
                // R0 is the position in the period.
                asm.emit(Insn::mov_reg(Reg::R0, NUMBER));
                modulo(asm, Reg::R0, *period);
                constant(asm, high, (*start >> 64) as u64);
                if *upper != 0 {
                    asm.emit(Insn::mov_reg(Reg::R2, Reg::R0));
                    apply(asm, Alu::Mul, Reg::R2, *upper);
                    asm.emit(Insn::alu64_reg(op, high, Reg::R2));
                }
                apply(asm, Alu::Mul, Reg::R0, *lower);
                constant(asm, low, *start as u64);
                asm.emit(Insn::mov_reg(Reg::R3, low));
                asm.emit(Insn::alu64_reg(op, low, Reg::R0));
                // The carry or borrow.
                let cond = if *falls { Cond::Le } else { Cond::Ge };
                asm.jump_if_reg(cond, low, Reg::R3, done);
                asm.emit(Insn::alu64(op, high, 1));
                asm.place(done);
            }
            Self::List { map, period } => {
                asm.emit(Insn::mov_reg(Reg::R1, NUMBER));
                modulo(asm, Reg::R1, *period);
                look_up(asm, map, failed);
                asm.emit(Insn::load(Size::Double, high, Reg::R0, 0));
                asm.emit(Insn::load(Size::Double, low, Reg::R0, 8));
            }
            Self::Random { low: start, mask, seed } => {
                random(asm, low, !*seed);
                random(asm, high, *seed);
                apply(asm, Alu::And, low, *mask as u64);
                apply(asm, Alu::And, high, (*mask >> 64) as u64);
                let done = asm.label();
                apply(asm, Alu::Add, high, (*start >> 64) as u64);
                asm.emit(Insn::mov_reg(Reg::R3, low));
                apply(asm, Alu::Add, low, *start as u64);
                asm.jump_if_reg(Cond::Ge, low, Reg::R3, done);
                asm.emit(Insn::alu64(Alu::Add, high, 1));
                asm.place(done);
            }
        }
    }
}

/// Emits `register` = 64 random bits from the seed and the packet's number: one step of SplitMix64.
/// Clobbers R2 and R5.
fn random(asm: &mut Assembler, register: Reg, seed: u64) {
    asm.emit(Insn::mov_reg(register, NUMBER));
    asm.emit(Insn::alu64(Alu::Add, register, 1));
    apply(asm, Alu::Mul, register, 0x9e37_79b9_7f4a_7c15);
    apply(asm, Alu::Add, register, seed);
    let mix = |asm: &mut Assembler, shift| {
        asm.emit(Insn::mov_reg(Reg::R2, register));
        asm.emit(Insn::alu64(Alu::Shr, Reg::R2, shift));
        asm.emit(Insn::alu64_reg(Alu::Xor, register, Reg::R2));
    };
    mix(asm, 30);
    apply(asm, Alu::Mul, register, 0xbf58_476d_1ce4_e5b9);
    mix(asm, 27);
    apply(asm, Alu::Mul, register, 0x94d0_49bb_1331_11eb);
    mix(asm, 31);
}
