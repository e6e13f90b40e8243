//! One program in every engine over the packets of a capture file: do they agree?

use std::path::Path;

use serde::Serialize;
use wirelane_os::bpf;
use wirelane_os::packet::SockFilter;
use wirelane_os::pcap;

use super::jit::Jit;
use super::op::Op;
use super::{Ending, Interpreter, Metadata, Packet, Program, Target, translate};
use crate::error::{Error, Result};
use crate::pcap::CaptureReader;

/// What a program did to the packets of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Packets of the program's link type.
    pub packets: u64,
    /// Packets of other link types, which the program is not for.
    pub other_link_types: u64,
    /// By engine; the interpreter is the first.
    pub engines: Vec<Count>,
    /// Packets on which the engines do not agree.
    pub disagreements: u64,
    /// The first of them, counted from 1 over the whole file.
    pub first_disagreements: Vec<u64>,
}

/// What one engine did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// `interpreter`, `jit`, `libpcap` or `kernel`.
    pub engine: &'static str,
    /// Packets that it was given.
    pub packets: u64,
    /// Packets that it accepted.
    pub matching: u64,
    /// Why it was given none.
    pub missing: Option<String>,
}

/// Packets that are named when engines disagree.
const NAMED: usize = 10;

/// What the kernel says of packets in a test run (`lo`), and so all engines do.
const METADATA: Metadata = Metadata { queue: 0, packet_type: 0, interface_index: 1 };

/// Lengths of packets that a test run takes: an Ethernet header, and what fits into a page with its
/// bookkeeping.
const KERNEL_LENGTHS: std::ops::Range<usize> = 14..3000;

/// Runs `program` in every engine over the packets of the capture file at `path`.
///
/// The kernel runs its translation, as XDP programs do; it needs privileges, and is left out without
/// them. It sees no packet that is too short or too long for a test run, and, where the program asks
/// for the length of a packet, none that was cut.
///
/// # Errors
/// The file cannot be read, or is damaged; or the program asks for something that only the kernel's
/// socket filter knows.
pub fn compare(program: &Program, path: impl AsRef<Path>) -> Result<Comparison> {
    let mut file = CaptureReader::open(path)?;
    let interpreter = Interpreter::new(program)?;
    let mut others = Others::new(program);
    let asks_length = program.ops().iter().any(|op| matches!(op, Op::LoadLength | Op::LoadXLength));
    let mut comparison = Comparison::default();
    let mut own = Count { engine: "interpreter", ..Count::default() };
    let mut number = 0_u64;
    while file.advance()? {
        number += 1;
        let record = file.current();
        let link_type = file.interfaces().get(record.interface as usize).map(|of| of.link_type);
        if link_type != Some(program.link_type()) {
            comparison.other_link_types += 1;
            continue;
        }
        let (data, wire_len) = (record.data, record.original_len);
        let packet = Packet { data, wire_len, metadata: METADATA };
        let verdict = interpreter.run(&packet);
        own.add(verdict);
        let is_whole = wire_len as usize == data.len() || !asks_length;
        let kernel_takes = is_whole && KERNEL_LENGTHS.contains(&data.len());
        if !others.agree(&packet, verdict, kernel_takes)? {
            comparison.disagreements += 1;
            if comparison.first_disagreements.len() < NAMED {
                comparison.first_disagreements.push(number);
            }
        }
    }
    comparison.packets = own.packets;
    comparison.engines.push(own);
    comparison.engines.extend([others.jit.1, others.libpcap.1, others.kernel.1]);
    Ok(comparison)
}

impl Count {
    fn add(&mut self, verdict: u32) {
        self.packets += 1;
        self.matching += u64::from(verdict != 0);
    }
}

/// The engines that are compared with the interpreter.
struct Others<'a> {
    jit: (Option<Jit>, Count),
    libpcap: (Option<pcap::Interpreter<'a>>, Count),
    kernel: (Option<bpf::Program>, Count),
}

impl<'a> Others<'a> {
    fn new(program: &'a Program) -> Self {
        Self {
            jit: present("jit", Jit::new(program).map_err(|error| error.to_string())),
            libpcap: present("libpcap", libpcap(program)),
            kernel: present("kernel", kernel(program)),
        }
    }

    fn agree(&mut self, packet: &Packet<'_>, verdict: u32, kernel_takes: bool) -> Result<bool> {
        let mut all = true;
        let mut answer = |count: &mut Count, own: u32| {
            count.add(own);
            all &= own == verdict;
        };
        if let (Some(jit), count) = &mut self.jit {
            answer(count, jit.run(packet));
        }
        if let (Some(libpcap), count) = &mut self.libpcap {
            answer(count, libpcap.run(packet.data, packet.wire_len));
        }
        if let (Some(kernel), count) = &mut self.kernel
            && kernel_takes
        {
            let outcome = kernel.test_run(packet.data, None, 1);
            let outcome = outcome.map_err(|error| Error::os("filter in the kernel", error))?;
            answer(count, outcome.result);
        }
        Ok(all)
    }
}

fn present<E>(engine: &'static str, found: Result<E, String>) -> (Option<E>, Count) {
    let (found, missing) = match found {
        Ok(found) => (Some(found), None),
        Err(missing) => (None, Some(missing)),
    };
    (found, Count { engine, missing, ..Count::default() })
}

fn libpcap(program: &Program) -> Result<pcap::Interpreter<'_>, String> {
    if let Some(field) = program.ancillary().first() {
        return Err(format!("it does not know {}, which is not in the packet", field.name()));
    }
    let library = pcap::library().map_err(|reason| format!("{reason}; {}", pcap::INSTALL))?;
    let instructions: &[SockFilter] = program.instructions();
    library.interpreter(instructions).ok_or_else(|| "it refuses the program".to_owned())
}

fn kernel(program: &Program) -> Result<bpf::Program, String> {
    const ETHERNET: u16 = 1;
    if program.link_type() != ETHERNET {
        return Err("XDP programs see Ethernet only".to_owned());
    }
    let missing = bpf::missing_capabilities();
    if !missing.is_empty() {
        let names = missing.iter().map(ToString::to_string).collect::<Vec<_>>();
        return Err(format!("it takes {}", names.join(" and ")));
    }
    let insns = translate(program, Target::Xdp { fragments: false }, Ending::Exit)
        .map_err(|error| error.to_string())?;
    let load = bpf::Load::new(bpf::ProgramType::Xdp, "wirelane_filter", &insns);
    bpf::Program::load(&load).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::op::{Ancillary, Cond, Operand, Width};
    use crate::pcap::pcap::{Resolution, file_header, packet};
    use crate::pcap::{Direction, Record, Source};

    fn file(link_type: u16) -> tempfile::NamedTempFile {
        let mut bytes = Vec::new();
        let source = Source { link_type, snaplen: 0xffff, ..Source::default() };
        file_header(&mut bytes, Resolution::Nanoseconds, &source);
        for len in 0..100_u32 {
            let data: Vec<_> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            let original_len = len + len % 2;
            let direction = Direction::Unknown;
            let record =
                Record { interface: 0, timestamp: 5, original_len, direction, data: &data };
            packet(&mut bytes, Resolution::Nanoseconds, &record);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn program(load: Op) -> Program {
        let cond = Op::Branch { cond: Cond::Set, operand: Operand::K(1), jt: 0, jf: 1 };
        let ops = [load, cond, Op::Return(9), Op::Return(0)];
        Program::new(1, ops.iter().map(|op| op.encode()).collect()).unwrap()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri loads no library")]
    fn engines_agree_and_count_the_same() {
        let file = file(1);
        for load in [Op::LoadAbsolute(Width::Byte, 20), Op::LoadLength] {
            let result = compare(&program(load), file.path()).unwrap();
            assert_eq!((result.packets, result.disagreements), (100, 0));
            let own = &result.engines[0];
            assert_eq!((own.engine, own.packets), ("interpreter", 100));
            for other in result.engines[1..].iter().filter(|other| other.missing.is_none()) {
                let same = (other.packets, other.matching) == (own.packets, own.matching);
                assert!(same || other.engine == "kernel" && other.packets > 40, "{other:?}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri loads no library")]
    fn what_an_engine_cannot_run_it_does_not_count() {
        let queue = program(Op::LoadAncillary(Ancillary::Queue));
        let result = compare(&queue, file(1).path()).unwrap();
        let libpcap = result.engines.iter().find(|count| count.engine == "libpcap").unwrap();
        assert_eq!(libpcap.packets, 0);
        assert!(libpcap.missing.as_ref().unwrap().contains("queue"), "{libpcap:?}");
        let other = compare(&queue, file(101).path()).unwrap();
        assert_eq!((other.packets, other.other_link_types), (0, 100));
    }
}
