//! Parses arbitrary bytes and text as classic BPF programs. An accepted program runs, is translated
//! and printed, and its printed form parses as the same program.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane::filter::Engine;
use wirelane_filter::{Buffers, Ending, Interpreter, Packet, Program, translate};

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        look(Program::parse(1, text), data);
    }
    // Eight bytes per instruction, in the order of `struct sock_filter`, written as text.
    let count = data.first().map_or(0, |byte| usize::from(*byte));
    let (instructions, packet) = data.split_at(data.len().min(1 + 8 * count));
    let mut text = String::new();
    let mut len = 0;
    for insn in instructions.get(1..).unwrap_or_default().chunks_exact(8) {
        let code = u16::from_le_bytes([insn[0], insn[1]]);
        let k = u32::from_le_bytes([insn[4], insn[5], insn[6], insn[7]]);
        text += &format!(",{code} {} {} {k}", insn[2], insn[3]);
        len += 1;
    }
    look(Program::parse(1, &format!("{len}{text}")), packet);
});

fn look(program: wirelane_filter::Result<Program>, data: &[u8]) {
    let program = match program {
        Ok(program) => program,
        // An error is one line, whatever the program holds.
        Err(error) => return assert_eq!(error.to_string().lines().count(), 1),
    };
    assert_eq!(program.to_string().lines().count(), program.instructions().len());
    let again = Program::parse(1, &program.decimal().to_string());
    assert_eq!(again.expect("what was written is read"), program);
    let _ = program.for_socket(96);
    let _ = program.for_bytes();
    for buffers in [Buffers::One, Buffers::Several] {
        for ending in [Ending::Exit, Ending::FallThrough] {
            let _ = translate(&program, buffers, ending);
        }
    }
    let Ok(interpreter) = Interpreter::new(&program) else { return };
    let engine = Engine::new(&program, 0).expect("what is interpreted has an engine");
    let packet = Packet { data, wire_len: data.len() as u32, ..Packet::default() };
    assert_eq!(engine.run(&packet), interpreter.run(&packet));
}
