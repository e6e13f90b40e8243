//! `wirelane filter`: shows a filter at each stage, runs it on a file, and lists the packets that
//! it would take from the host.

mod explanation;
mod on;
mod stages;

use std::path::PathBuf;

use clap::{ArgAction, Args};
use serde::Serialize;
use wirelane::pcap::CaptureReader;
use wirelane::{Error, Result};
use wirelane_filter::{Program, compile};

use self::explanation::Explained;
use self::on::On;
use self::stages::{Ebpf, InstructionLine, MachineCode, Stages};
use crate::output;
use crate::reachability::{HostAddresses, explain};
use crate::ssh;
use crate::text_file;

/// Show how a filter is compiled, run it on a file, or list what it would take from the host.
///
/// EXPR is a tcpdump expression (pcap-filter(7)) or the output of `tcpdump -ddd`. Without options,
/// all stages are shown: classic BPF, which packet: gives to the kernel; eBPF, which runs before
/// the host's stack on xdp:; and machine code, which runs in the process on sim:, file: and tap:.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FilterArgs {
    /// The expression; it may be several arguments
    #[arg(value_name = "EXPR")]
    expression: Vec<String>,
    /// Read the expression, or the output of `tcpdump -ddd`, from FILE; `-` is standard input
    #[arg(short = 'F', value_name = "FILE", conflicts_with = "expression")]
    file: Option<PathBuf>,
    /// Link type of the packets, numbered as in capture files: 1 is Ethernet, 101 raw IP [default:
    /// that of the first interface in --on FILE, or 1]
    #[arg(long, value_name = "NUMBER")]
    link_type: Option<u16>,
    /// Print only the classic program, like tcpdump: -d as text, -dd as C, -ddd as numbers
    #[arg(short = 'd', action = ArgAction::Count, conflicts_with_all = ["on", "explain", "json"])]
    dump: u8,
    /// Also print the bytes of the machine code
    #[arg(long)]
    machine_code: bool,
    /// Run the filter on a capture file in every engine and compare the matches (the kernel needs
    /// root). Exit status 1 if they disagree
    #[arg(long, value_name = "FILE")]
    on: Option<PathBuf>,
    /// List the packets the host needs that the filter would take from it on an xdp: port
    #[arg(long)]
    explain: bool,
    /// With --explain, use the addresses of this interface
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
    classic: Vec<InstructionLine>,
    ebpf: Ebpf,
    machine_code: MachineCode,
    on: Option<On<'a>>,
    explain: Option<Explained<'a>>,
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
        return output::print(&stages::dump(program.of_kernel(), args.dump));
    }
    let on = args.on.as_ref().map(|file| On::new(&program, file)).transpose()?;
    let classes = if args.explain { Some(explain(Some(&program), &args.host()?)?) } else { None };
    let explained = classes.map(|classes| Explained::new(classes, args.interface.as_deref()));
    let agree = on.as_ref().is_none_or(|on| on.agree);
    let stages = Stages::new(&program, args.machine_code);
    if args.json {
        output::json(&Document {
            schema: "wirelane.filter/1",
            expression: (!is_decimal(&text)).then_some(text.as_str()),
            link_type,
            classic: stages::instructions(program.of_kernel()),
            ebpf: stages.ebpf,
            machine_code: stages.machine_code,
            on,
            explain: explained,
        })?;
    } else {
        let mut page = String::new();
        if on.is_none() && explained.is_none() || args.machine_code {
            page += &stages.page(&program);
        }
        page += &on.as_ref().map(On::page).unwrap_or_default();
        page += &explained.as_ref().map(Explained::page).unwrap_or_default();
        output::print(&page)?;
    }
    if agree {
        return Ok(());
    }
    let object = args.on.as_deref().map(|file| file.display().to_string()).unwrap_or_default();
    Err(Error::failed(object, "the engines disagree, which is a defect of Wirelane")
        .help("please report it with the expression and the packets listed"))
}

impl FilterArgs {
    /// The unparsed expression or program.
    fn text(&self) -> Result<String> {
        let Some(path) = &self.file else { return Ok(self.expression.join(" ")) };
        let text = text_file::read(path, text_file::LONGEST_FILTER, "a filter")?;
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

    fn host(&self) -> Result<HostAddresses> {
        let mut host = match &self.interface {
            Some(name) => HostAddresses::of_interface(name)?,
            None => HostAddresses::generic(),
        };
        host.sessions = ssh::connections();
        Ok(host)
    }
}

/// Whether `text` is output of `tcpdump -ddd`, which begins with a number.
fn is_decimal(text: &str) -> bool {
    let count = text.split([',', '\n']).next().unwrap_or_default().trim();
    !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit())
}

fn program(text: &str, link_type: u16) -> Result<Program> {
    if is_decimal(text) {
        return Ok(Program::parse(link_type, text)?.for_bytes()?);
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
