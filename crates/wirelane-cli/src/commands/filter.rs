//! `wirelane filter`: shows a filter at each stage, tries it on a file, and says what it would take
//! from the host.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args};
use serde::Serialize;
use wirelane::filter::explain::{Host, Taken, explain};
use wirelane::filter::jit::Jit;
use wirelane::filter::{Comparison, Ending, Program, Target, compare, compile, translate};
use wirelane::pcap::CaptureReader;
use wirelane::{Error, Result, ssh};

use crate::output;
use crate::take;

/// Show what becomes of a filter, try it on a file, or see what it takes from the host.
///
/// EXPR is an expression as tcpdump takes it (pcap-filter(7)), or what `tcpdump -ddd` prints. Without
/// an option all stages are shown: classic BPF, which packet: gives to the kernel; its translation to
/// eBPF, which runs in front of the host's stack on xdp:; and machine code, which runs in the process
/// on sim:, file: and tap:.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FilterArgs {
    /// The expression; its words may be separate arguments
    #[arg(value_name = "EXPR")]
    expression: Vec<String>,
    /// Read the expression, or the output of `tcpdump -ddd`, from FILE; `-` is standard input
    #[arg(short = 'F', value_name = "FILE", conflicts_with = "expression")]
    file: Option<PathBuf>,
    /// Link type of the packets, as capture files number them: 1 is Ethernet, 101 plain IP [default:
    /// that of the first interface of --on FILE, otherwise 1]
    #[arg(long, value_name = "NUMBER")]
    link_type: Option<u16>,
    /// Only the classic program, as tcpdump prints it: -d for people, -dd for C, -ddd as numbers
    #[arg(short = 'd', action = ArgAction::Count, conflicts_with_all = ["on", "explain", "json"])]
    dump: u8,
    /// Show the bytes of the machine code, too
    #[arg(long)]
    machine_code: bool,
    /// Run the filter in every engine over the packets of a capture file, and compare; the kernel takes
    /// root. Exit status 1 if they do not agree
    #[arg(long, value_name = "FILE")]
    on: Option<PathBuf>,
    /// Say which packets that the host needs the filter would take from it on an xdp: port
    #[arg(long)]
    explain: bool,
    /// With --explain: the host's addresses are those of this interface
    #[arg(long, value_name = "IF", requires = "explain")]
    interface: Option<String>,
    /// Print one JSON object (schema wirelane.filter/1)
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  wirelane filter 'tcp port 443 and host 10.0.0.1'
  wirelane filter -ddd port 53 | sudo iptables -A INPUT -m bpf --bytecode \"$(tr '\\n' ',')\" -j DROP
  sudo wirelane filter 'ip6 and udp' --on trace.pcapng
  wirelane filter 'tcp' --explain --interface eth0";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    expression: Option<&'a str>,
    link_type: u16,
    classic: Vec<Instruction>,
    ebpf: Ebpf,
    machine_code: MachineCode,
    on: Option<On<'a>>,
    explain: Option<Explained<'a>>,
}

#[derive(Serialize)]
struct Instruction {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
    text: String,
}

#[derive(Serialize)]
struct Ebpf {
    target: &'static str,
    instructions: Vec<String>,
    /// Why there is none.
    missing: Option<String>,
}

#[derive(Default, Serialize)]
struct MachineCode {
    architecture: &'static str,
    /// Bytes of instructions.
    instructions: Option<usize>,
    /// The same with constants.
    size: Option<usize>,
    hex: Option<String>,
    /// Why there is none.
    missing: Option<String>,
}

#[derive(Serialize)]
struct On<'a> {
    file: &'a Path,
    agree: bool,
    #[serde(flatten)]
    comparison: Comparison,
}

#[derive(Serialize)]
struct Explained<'a> {
    interface: Option<&'a str>,
    takes_ssh: bool,
    classes: Vec<Taken>,
}

/// Runs the command.
///
/// # Errors
/// The expression is wrong, a file cannot be read, or engines do not agree.
pub(crate) fn run(args: &FilterArgs) -> Result<()> {
    let text = args.text()?;
    let link_type = args.link_type()?;
    let program = program(&text, link_type)?;
    if args.dump > 0 {
        return output::print(&dump(&program, args.dump));
    }
    let comparison = args.on.as_ref().map(|file| compare(&program, file)).transpose()?;
    let classes = if args.explain { Some(explain(Some(&program), &args.host()?)?) } else { None };
    let agree = comparison.as_ref().is_none_or(|comparison| comparison.disagreements == 0);
    let stages = Stages::new(&program, args.machine_code);
    if args.json {
        let on = args.on.as_deref().zip(comparison);
        let takes_ssh = |classes: &[Taken]| classes.iter().any(takes_ssh);
        output::json(&Document {
            schema: "wirelane.filter/1",
            expression: (!is_decimal(&text)).then_some(text.as_str()),
            link_type,
            classic: instructions(&program),
            ebpf: stages.ebpf,
            machine_code: stages.machine_code,
            on: on.map(|(file, comparison)| On { file, agree, comparison }),
            explain: classes.map(|classes| Explained {
                interface: args.interface.as_deref(),
                takes_ssh: takes_ssh(&classes),
                classes,
            }),
        })?;
    } else {
        let mut page = String::new();
        if comparison.is_none() && classes.is_none() || args.machine_code {
            page += &stages.page(&program);
        }
        if let Some(comparison) = &comparison {
            page += &counts(comparison);
        }
        if let Some(classes) = &classes {
            page += &explanation(classes, args.interface.as_deref());
        }
        output::print(&page)?;
    }
    if agree {
        return Ok(());
    }
    let object = args.on.as_deref().map(|file| file.display().to_string()).unwrap_or_default();
    Err(Error::failed(object, "the engines do not agree, which is a defect of Wirelane")
        .help("report it with the expression and the packets that are named"))
}

impl FilterArgs {
    /// The expression or program as it was given.
    fn text(&self) -> Result<String> {
        let Some(path) = &self.file else { return Ok(self.expression.join(" ")) };
        let name = path.display().to_string();
        let failed = |error| Error::io(name, "read", error);
        if path.as_os_str() == "-" {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(failed)?;
            return Ok(text.trim().to_owned());
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        Ok(text.trim().to_owned())
    }

    fn link_type(&self) -> Result<u16> {
        const ETHERNET: u16 = 1;
        match (self.link_type, &self.on) {
            (Some(link_type), _) => Ok(link_type),
            (None, None) => Ok(ETHERNET),
            (None, Some(file)) => {
                // In a pcapng file interfaces are described before their packets.
                let mut reader = CaptureReader::open(file)?;
                reader.advance()?;
                Ok(reader.interfaces().first().map_or(ETHERNET, |interface| interface.link_type))
            }
        }
    }

    fn host(&self) -> Result<Host> {
        let mut host = match &self.interface {
            Some(name) => Host::of_interface(name)?,
            None => Host::generic(),
        };
        host.sessions = ssh::connections();
        Ok(host)
    }
}

/// Whether `text` is what `tcpdump -ddd` prints: it begins with a number alone.
fn is_decimal(text: &str) -> bool {
    let count = text.split([',', '\n']).next().unwrap_or_default().trim();
    !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit())
}

fn program(text: &str, link_type: u16) -> Result<Program> {
    if is_decimal(text) {
        return Ok(Program::parse(link_type, text)?);
    }
    /// Bytes that a match accepts: all of any packet.
    const SNAPLEN: u32 = 262_144;
    compile(text, link_type, SNAPLEN).map_err(|error| {
        if let Some(caret) = error.caret() {
            output::line(format_args!("{caret}"));
        }
        error.into()
    })
}

fn dump(program: &Program, level: u8) -> String {
    match level {
        1 => program.to_string(),
        2 => {
            let line = |insn: Instruction| {
                let Instruction { code, jt, jf, k, .. } = insn;
                format!("{{ {code:#x}, {jt}, {jf}, {k:#010x} }},\n")
            };
            instructions(program).into_iter().map(line).collect()
        }
        _ => program.decimal().to_string(),
    }
}

fn instructions(program: &Program) -> Vec<Instruction> {
    let text = program.to_string();
    let lines = text.lines().map(str::to_owned);
    let instruction = |(insn, text): (&_, String)| {
        let wirelane::filter::Instruction { code, jt, jf, k } = *insn;
        Instruction { code, jt, jf, k, text }
    };
    program.instructions().iter().zip(lines).map(instruction).collect()
}

/// What the classic program becomes.
struct Stages {
    ebpf: Ebpf,
    machine_code: MachineCode,
}

impl Stages {
    fn new(program: &Program, bytes: bool) -> Self {
        let translated = translate(program, Target::Xdp { fragments: false }, Ending::Exit);
        let (instructions, missing) = match translated {
            Ok(insns) => (insns.iter().map(ToString::to_string).collect(), None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let ebpf = Ebpf { target: "xdp", instructions, missing };
        let architecture = std::env::consts::ARCH;
        let machine_code = match Jit::new(program) {
            Ok(jit) => {
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                MachineCode {
                    architecture,
                    instructions: Some(jit.instructions().len()),
                    size: Some(jit.size()),
                    hex: bytes.then(|| hex(jit.instructions())),
                    missing: None,
                }
            }
            Err(error) => {
                let missing = Some(error.to_string());
                MachineCode { architecture, missing, ..MachineCode::default() }
            }
        };
        Self { ebpf, machine_code }
    }

    fn page(&self, program: &Program) -> String {
        let count = program.instructions().len();
        let mut page = format!("classic BPF, {}:\n{program}", plural(count as u64, "instruction"));
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

fn counts(comparison: &Comparison) -> String {
    let mut page = String::new();
    for count in &comparison.engines {
        let engine = count.engine;
        page += &match &count.missing {
            Some(missing) => format!("{engine:12} not run: {missing}\n"),
            None => {
                let of = plural(count.packets, "packet");
                format!("{engine:12} {} of {of} match\n", count.matching)
            }
        };
    }
    if comparison.other_link_types > 0 {
        let others = plural(comparison.other_link_types, "packet");
        page += &format!("left out: {others} of other link types\n");
    }
    if comparison.disagreements > 0 {
        let first: Vec<_> = comparison.first_disagreements.iter().map(u64::to_string).collect();
        page += &format!(
            "the engines do not agree on {}: {}{}\n",
            plural(comparison.disagreements, "packet"),
            first.join(", "),
            if comparison.disagreements > first.len() as u64 { ", …" } else { "" }
        );
    }
    page
}

fn takes_ssh(taken: &Taken) -> bool {
    taken.class.is_ssh() && taken.matching > 0
}

fn explanation(classes: &[Taken], interface: Option<&str>) -> String {
    let whose = match interface {
        Some(name) => format!("with the addresses of {name}"),
        None => "with example addresses (--interface IF takes real ones)".to_owned(),
    };
    let mut page = format!("On an xdp: port this filter would take from a host, {whose}:\n");
    page += &take::table(classes, true);
    page += if classes.iter().all(|taken| taken.matching == 0) {
        "Nothing that a host needs to be reachable is taken; its other traffic may be.\n"
    } else if classes.iter().any(|taken| taken.management > 0) {
        "All of these but ping are management, which stays with the host without --take-management.\n"
    } else {
        ""
    };
    page
}

fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_expressions() {
        for text in ["1\n6 0 0 4", "1,6 0 0 4", " 2 \n"] {
            assert!(is_decimal(text), "{text}");
        }
        for text in ["", "tcp", "10.0.0.1", "0x1", "port 1,2"] {
            assert!(!is_decimal(text), "{text}");
        }
    }
}
