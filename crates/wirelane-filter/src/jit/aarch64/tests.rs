//! Compares the assembler with GNU as. Runs on every processor.

#![allow(clippy::unwrap_used)]
use super::*;
use assembler::pattern;

/// The instruction words that `emit` emits.
fn words(emit: impl FnOnce(&mut Assembler)) -> Vec<u32> {
    let mut code = Assembler::default();
    emit(&mut code);
    let bytes = code.finish().unwrap();
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn instructions_are_those_of_the_manual() {
    use Arithmetic::{Add, Sub, Subs};
    use Logical::{And, Ands, Eor, Orr};
    const W1: Gpr = Gpr(1);
    const W2: Gpr = Gpr(2);
    const W3: Gpr = Gpr(3);
    const W4: Gpr = Gpr(4);
    type Emit = fn(&mut Assembler);
    let cases: [(&str, Emit, &[u32]); 50] = [
        ("add w1, w2, w3", |c| c.arithmetic(OperandSize::W, Add, (W1, W2, W3)), &[0x0b03_0041]),
        ("sub x1, x2, x3", |c| c.arithmetic(OperandSize::X, Sub, (W1, W2, W3)), &[0xcb03_0041]),
        ("cmp w2, w3", |c| c.arithmetic(OperandSize::W, Subs, (ZERO, W2, W3)), &[0x6b03_005f]),
        (
            "add x0, x0, 8",
            |c| c.arithmetic_immediate(OperandSize::X, Add, (RECORDS, RECORDS, 8)),
            &[0x9100_2000],
        ),
        (
            "sub sp, sp, 80",
            |c| c.arithmetic_immediate(OperandSize::X, Sub, (SP, SP, 80)),
            &[0xd101_43ff],
        ),
        ("cmp w4, 4095", |c| c.compare_immediate(W4, 4095), &[0x713f_fc9f]),
        ("cmp w4, 0x123000", |c| c.compare_immediate(W4, 0x12_3000), &[0x7144_8c9f]),
        ("cmp w4, 0x1001", |c| c.compare_immediate(W4, 0x1001), &[0x5282_0030, 0x6b10_009f]),
        ("and w1, w2, w3", |c| c.logical(And, W1, W2, W3), &[0x0a03_0041]),
        ("orr w1, w2, w3", |c| c.logical(Orr, W1, W2, W3), &[0x2a03_0041]),
        ("eor w1, w2, w3", |c| c.logical(Eor, W1, W2, W3), &[0x4a03_0041]),
        ("tst w2, w3", |c| c.logical(Ands, ZERO, W2, W3), &[0x6a03_005f]),
        (
            "and w1, w2, 0xff00ff00",
            |c| c.logical_immediate(And, W1, W2, 0xff00_ff00),
            &[0x1208_9c41],
        ),
        (
            "orr w1, w2, 0x80000001",
            |c| c.logical_immediate(Orr, W1, W2, 0x8000_0001),
            &[0x3201_0441],
        ),
        (
            "eor w1, w2, 0x55555555",
            |c| c.logical_immediate(Eor, W1, W2, 0x5555_5555),
            &[0x5200_f041],
        ),
        (
            "tst w2, 0xfffffffe",
            |c| c.logical_immediate(Ands, ZERO, W2, 0xffff_fffe),
            &[0x721f_785f],
        ),
        ("and w1, w2, 0", |c| c.logical_immediate(And, W1, W2, 0), &[0x5280_0010, 0x0a10_0041]),
        ("udiv w1, w2, w3", |c| c.binary(Binary::Udiv, W1, W2, W3), &[0x1ac3_0841]),
        ("lsl w1, w2, w3", |c| c.binary(Binary::Lslv, W1, W2, W3), &[0x1ac3_2041]),
        ("lsr w1, w2, w3", |c| c.binary(Binary::Lsrv, W1, W2, W3), &[0x1ac3_2441]),
        ("mul w1, w2, w3", |c| c.multiply(W1, W2, W3), &[0x1b03_7c41]),
        ("msub w1, w2, w3, w4", |c| c.multiply_subtract(W1, W2, W3, W4), &[0x1b03_9041]),
        ("lsl w1, w2, 31", |c| c.shift_left(W1, W2, 31), &[0x5301_0041]),
        ("lsl w1, w2, 0", |c| c.shift_left(W1, W2, 0), &[0x5300_7c41]),
        ("lsr w1, w2, 5", |c| c.shift_right(W1, W2, 5), &[0x5305_7c41]),
        ("ubfiz w1, w2, 2, 4", |c| c.four_times_lower_half(W1, W2), &[0x531e_0c41]),
        ("mov w1, w2", |c| c.mov(W1, W2), &[0x2a02_03e1]),
        ("mov w1, 0x1234", |c| c.mov_immediate(W1, 0x1234), &[0x5282_4681]),
        ("mov w1, 0x12340000", |c| c.mov_immediate(W1, 0x1234_0000), &[0x52a2_4681]),
        ("mov w1, 0xffff1234", |c| c.mov_immediate(W1, 0xffff_1234), &[0x129d_b961]),
        ("mov w1, 0x1234ffff", |c| c.mov_immediate(W1, 0x1234_ffff), &[0x12bd_b961]),
        ("mov w1, -1", |c| c.mov_immediate(W1, u32::MAX), &[0x1280_0001]),
        ("csel w1, w1, wzr, lo", |c| c.keep_if(Condition::Lower, W1), &[0x1a9f_3021]),
        ("rev w1, w1", |c| c.swap_word(W1), &[0x5ac0_0821]),
        ("rev16 w1, w1", |c| c.swap_half(W1), &[0x5ac0_0421]),
        ("ldrb w1, [x2, 4095]", |c| c.load(W1, Width::Byte, Memory::at(W2, 4095)), &[0x397f_fc41]),
        ("ldrh w1, [x2, 8190]", |c| c.load(W1, Width::Half, Memory::at(W2, 8190)), &[0x797f_fc41]),
        ("ldr w1, [x2, 16380]", |c| c.load(W1, Width::Word, Memory::at(W2, 16380)), &[0xb97f_fc41]),
        ("ldur w1, [x2, -4]", |c| c.load(W1, Width::Word, Memory::at(W2, -4)), &[0xb85f_c041]),
        ("ldurh w1, [x2, 255]", |c| c.load(W1, Width::Half, Memory::at(W2, 255)), &[0x784f_f041]),
        ("ldurb w1, [x2, -256]", |c| c.load(W1, Width::Byte, Memory::at(W2, -256)), &[0x3850_0041]),
        (
            "ldrh w1, [x2, 257]",
            |c| c.load(W1, Width::Half, Memory::at(W2, 257)),
            &[0x9104_0450, 0x7940_0201],
        ),
        ("ldr x1, [x2, 24]", |c| c.load_double(W1, Memory::at(W2, 24)), &[0xf940_0c41]),
        ("str w1, [sp, 76]", |c| c.store_word(Memory::at(SP, 76), W1), &[0xb900_4fe1]),
        ("str w1, [x2], 4", |c| c.store_word_and_advance(W2, W1), &[0xb800_4441]),
        ("ret", Assembler::ret, &[0xd65f_03c0]),
        ("dup v1.4s, w2", |c| c.broadcast(Vector(1), W2), &[0x4e04_0c41]),
        ("cmeq v1.4s, v1.4s, v2.4s", |c| c.vector_equal(Vector(1), Vector(2)), &[0x6ea2_8c21]),
        ("orr v1.16b, v1.16b, v2.16b", |c| c.vector_or(Vector(1), Vector(2)), &[0x4ea2_1c21]),
        ("umaxp, fmov", |c| c.vector_any(W1, Vector(2)), &[0x6ea2_a442, 0x9e66_0041]),
    ];
    for (text, emit, expected) in cases {
        assert_eq!(words(emit), expected, "{text}");
    }
}

#[test]
fn distances_count_instructions_from_the_jump() {
    let around = words(|code| {
        let (back, forth) = (code.code.label(), code.code.label());
        code.code.bind(back);
        code.jump(back);
        code.jump_if(Condition::Higher, back);
        code.jump_if_zero(Gpr(1), back);
        code.jump_unless_zero_double(Gpr(1), forth);
        code.jump(forth);
        code.code.bind(forth);
        code.vector_constant(Vector(1), [1, 2, 3, 4]);
    });
    let jumps = [0x1400_0000, 0x54ff_ffe8, 0x34ff_ffc1, 0xb500_0041, 0x1400_0001];
    assert_eq!(around[..5], jumps);
    // The constant is behind the code, at a multiple of 16 bytes.
    assert_eq!(around[5..], [0x9c00_0061, 0, 0, 1, 2, 3, 4]);
}

#[test]
fn a_distance_that_does_not_fit_is_no_code() {
    for (between, fits) in [((1 << 18) - 1, true), (1 << 18, false)] {
        let mut code = Assembler::default();
        let label = code.code.label();
        code.jump_if(Condition::Equal, label);
        (1..between).for_each(|_| code.ret());
        code.code.bind(label);
        assert_eq!(code.finish().is_some(), fits, "{between} instructions");
    }
}

/// Decodes the immediate of a logical instruction (`DecodeBitMasks` of the manual).
fn decoded(field: u32) -> u32 {
    let (rotation, length) = (field >> 16 & 0x3f, field >> 10 & 0x3f);
    let size = 1 << (31 - (!length & 0x3f).leading_zeros());
    let size = if length & 0x20 == 0 { 32 } else { size };
    let ones = (length & (size - 1)) + 1;
    let bit = |place: u32| u32::from((place + rotation) % size < ones) << place;
    (0..32).map(bit).sum()
}

#[test]
fn patterns_of_bits() {
    let mut found = 0;
    for size in [2_u32, 4, 8, 16, 32] {
        for ones in 1..size {
            for rotation in 0..size {
                let bit = |place: u32| u32::from((place + rotation) % size < ones) << place;
                let immediate = (0..32).map(bit).sum();
                assert_eq!(pattern(immediate).map(decoded), Some(immediate), "{immediate:#x}");
                found += 1;
            }
        }
    }
    assert_eq!(found, 1302);
    for none in [0, u32::MAX, 5, 0x1234_5678, 0xff1f, 0x0f0f_0f0e] {
        assert_eq!(pattern(none), None, "{none:#x}");
    }
}
