//! The stages of a filter: classic BPF, eBPF, machine code.

use serde::Serialize;
use wirelane::filter::Engine;
use wirelane_filter::{self as filter, Buffers, Ending, Program, translate};

use crate::output::plural;

#[derive(Serialize)]
pub(super) struct InstructionLine {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
    text: String,
}

#[derive(Serialize)]
pub(super) struct Ebpf {
    target: &'static str,
    instructions: Vec<String>,
    /// Why there is none.
    missing: Option<String>,
}

#[derive(Default, Serialize)]
pub(super) struct MachineCode {
    architecture: &'static str,
    /// Bytes of instructions.
    instructions: Option<usize>,
    /// The same with constants.
    size: Option<usize>,
    hex: Option<String>,
    /// Why there is none.
    missing: Option<String>,
}

/// The code that the classic program compiles to.
pub(super) struct Stages {
    pub(super) ebpf: Ebpf,
    pub(super) machine_code: MachineCode,
}

impl Stages {
    pub(super) fn new(program: &Program, bytes: bool) -> Self {
        let translated = translate(program, Buffers::One, Ending::Exit);
        let (instructions, missing) = match translated {
            Ok(insns) => (insns.iter().map(ToString::to_string).collect(), None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let ebpf = Ebpf { target: "xdp", instructions, missing };
        let machine_code = MachineCode::new(program, bytes);
        Self { ebpf, machine_code }
    }

    /// For people.
    pub(super) fn page(&self, program: &Program) -> String {
        let classic = program.of_kernel();
        let count = classic.instructions().len();
        let mut page = format!("classic BPF, {}:\n{classic}", plural(count as u64, "instruction"));
        if let Some(note) = program.note() {
            page += &format!("\nnote: {note}\n");
        }
        let Ebpf { instructions, missing, .. } = &self.ebpf;
        match missing {
            Some(missing) => page += &format!("\nno eBPF: {missing}\n"),
            None => {
                let count = plural(instructions.len() as u64, "instruction");
                page += &format!("\neBPF for XDP, {count}:\n");
                for (number, text) in instructions.iter().enumerate() {
                    page += &format!("{number:4}: {text}\n");
                }
            }
        }
        let MachineCode { architecture, instructions, size, hex, missing } = &self.machine_code;
        if let (Some(instructions), Some(size)) = (instructions, size) {
            page += &format!(
                "\nmachine code for {architecture}: {instructions} bytes, {size} with constants\n"
            );
        }
        if let Some(missing) = missing {
            page += &format!("\nno machine code, packets are interpreted: {missing}\n");
        }
        let hex = hex.as_deref().unwrap_or_default();
        for (number, line) in hex.as_bytes().chunks(32).enumerate() {
            page += &format!("{:4x}:", 16 * number);
            for byte in line.chunks(2) {
                page += &format!(" {}", String::from_utf8_lossy(byte));
            }
            page.push('\n');
        }
        page
    }
}

impl MachineCode {
    /// The machine code that ports run, with its bytes if `bytes` is set.
    fn new(program: &Program, bytes: bool) -> Self {
        let none = Self { architecture: std::env::consts::ARCH, ..Self::default() };
        let engine = match Engine::new(program, 0) {
            Ok(engine) => engine,
            Err(error) => return Self { missing: Some(error.to_string()), ..none },
        };
        let Some(jit) = engine.machine_code() else {
            return Self { missing: engine.note().map(str::to_owned), ..none };
        };
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            instructions: Some(jit.instructions().len()),
            size: Some(jit.size()),
            hex: bytes.then(|| hex(jit.instructions())),
            ..none
        }
    }
}

/// Prints the program as tcpdump does with `level` times `-d`.
pub(super) fn dump(program: &Program, level: u8) -> String {
    match level {
        1 => program.to_string(),
        2 => {
            let line = |insn: InstructionLine| {
                let InstructionLine { code, jt, jf, k, .. } = insn;
                format!("{{ {code:#x}, {jt}, {jf}, {k:#010x} }},\n")
            };
            instructions(program).into_iter().map(line).collect()
        }
        _ => program.decimal().to_string(),
    }
}

pub(super) fn instructions(program: &Program) -> Vec<InstructionLine> {
    let text = program.to_string();
    let lines = text.lines().map(str::to_owned);
    let instruction = |(insn, text): (&_, String)| {
        let filter::Instruction { code, jt, jf, k } = *insn;
        InstructionLine { code, jt, jf, k, text }
    };
    program.instructions().iter().zip(lines).map(instruction).collect()
}
