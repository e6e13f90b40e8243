//! Runs arbitrary classic programs on arbitrary packets: machine code and the interpreter agree.
//! The packet's memory has its exact length, to detect reads outside of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane_filter::jit::Jit;
use wirelane_filter::{Instruction, Interpreter, Metadata, Packet, Program};

/// Every code that the kernel knows (`chk_code_allowed` of `net/core/filter.c`).
const CODES: [u16; 53] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x0c, 0x14, 0x15, 0x16, 0x1c, 0x1d, 0x20, 0x24,
    0x25, 0x28, 0x2c, 0x2d, 0x30, 0x34, 0x35, 0x3c, 0x3d, 0x40, 0x44, 0x45, 0x48, 0x4c, 0x4d, 0x50,
    0x54, 0x5c, 0x60, 0x61, 0x64, 0x6c, 0x74, 0x7c, 0x80, 0x81, 0x84, 0x87, 0x94, 0x9c, 0xa4, 0xac,
    0xb1, 0x20, 0x28, 0x30, 0x15,
];

fuzz_target!(|bytes: &[u8]| {
    let [count, rest @ ..] = bytes else { return };
    let (program, data) = rest.split_at(rest.len().min(usize::from(*count) * 4));
    let mut instructions: Vec<_> = program.chunks_exact(4).map(instruction).collect();
    instructions.push(Instruction { code: 0x16, jt: 0, jf: 0, k: 0 });
    let Ok(program) = Program::new(1, instructions) else { return };
    let (jit, interpreter) = match (Jit::new(&program), Interpreter::new(&program)) {
        (Ok(jit), Ok(interpreter)) => (jit, interpreter),
        (jit, interpreter) => {
            assert!(jit.is_err() && interpreter.is_err(), "one takes what the other refuses");
            return;
        }
    };
    let metadata = Metadata { queue: 3, packet_type: 4, interface_index: 9 };
    // The 80 greatest lengths, so that checks of the length fail and succeed.
    for len in (0..=data.len()).rev().take(80) {
        let data: Box<[u8]> = data[..len].into();
        let packet = Packet { data: &data, wire_len: len as u32 + 1, metadata };
        assert_eq!(jit.run(&packet), interpreter.run(&packet), "{program}{data:x?}");
    }
});

/// Decodes four bytes as an instruction that is likely to be valid: jumps and constants are small,
/// or at the limits.
fn instruction(bytes: &[u8]) -> Instruction {
    let &[code, jt, jf, k] = bytes else { return Instruction { code: 6, jt: 0, jf: 0, k: 0 } };
    let code = CODES[usize::from(code) % CODES.len()];
    let is_branch = code & 7 == 5 && code != 5;
    let k = match k {
        0xf0.. => 0xffff_f000 + u32::from(k - 0xf0) * 4, // ancillary
        0xe0.. => u32::MAX >> (k - 0xe0),
        _ => u32::from(k) | u32::from(jt) << 8 & if is_branch { 0xf00 } else { 0 },
    };
    let (jt, jf) = if is_branch { (jt & 7, jf & 7) } else { (0, 0) };
    Instruction { code, jt, jf, k }
}
