//! Runs one program in every engine and compares the results.

use wirelane_filter::jit::Jit;
use wirelane_filter::op::Op;
use wirelane_filter::{
    Buffers, Ending, Instruction, Interpreter, Metadata, Packet, Program, libpcap, translate,
};
use wirelane_os::bpf;

use crate::error::{Error, Result};

/// Runs one program in every engine, over given packets.
///
/// The kernel runs the program's translation, as in XDP programs. It needs privileges, and is left
/// out without them. It receives only packets of a length that a test run accepts; and if the
/// program uses the packet length, no truncated packets.
pub struct Comparison<'a> {
    asks_length: bool,
    interpreter: (Interpreter, Count),
    jit: (Option<Jit>, Count),
    libpcap: (Option<libpcap::Interpreter<'a>>, Count),
    kernel: (Option<bpf::Program>, Count),
}

/// The result of one engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count {
    /// `interpreter`, `jit`, `libpcap` or `kernel`.
    pub engine: &'static str,
    /// Packets that it received.
    pub packets: u64,
    /// Packets that it accepted.
    pub matching: u64,
    /// Why it is missing.
    pub missing: Option<String>,
}

/// The metadata of packets in the kernel's test run (`lo`), used in all engines.
const METADATA: Metadata = Metadata { queue: 0, packet_type: 0, interface_index: 1 };

/// Lengths of packets that a test run accepts: from an Ethernet header to the contents of a page
/// without its bookkeeping.
const KERNEL_LENGTHS: std::ops::Range<usize> = 14..3000;

impl<'a> Comparison<'a> {
    /// Prepares every engine that can run `program` here.
    ///
    /// # Errors
    /// The program reads a field that only the kernel's socket filter provides.
    pub fn new(program: &'a Program) -> Result<Self> {
        let asks_length =
            program.ops().iter().any(|op| matches!(op, Op::LoadLength | Op::LoadXLength));
        let own = Count { engine: "interpreter", ..Count::default() };
        Ok(Self {
            asks_length,
            interpreter: (Interpreter::new(program)?, own),
            jit: present("jit", Jit::new(program).map_err(|error| error.to_string())),
            libpcap: present("libpcap", of_libpcap(program)),
            kernel: present("kernel", of_kernel(program)),
        })
    }

    /// Runs all engines on a packet of the program's link type that had `wire_len` bytes on the
    /// wire. Returns whether they agree.
    ///
    /// # Errors
    /// The kernel's test run failed.
    pub fn run(&mut self, data: &[u8], wire_len: u32) -> Result<bool> {
        let packet = Packet { data, wire_len, metadata: METADATA };
        let verdict = self.interpreter.0.run(&packet);
        self.interpreter.1.add(verdict);
        let mut all = true;
        let mut answer = |count: &mut Count, own: u32| {
            count.add(own);
            all &= own == verdict;
        };
        if let (Some(jit), count) = &mut self.jit {
            answer(count, jit.run(&packet));
        }
        if let (Some(libpcap), count) = &mut self.libpcap {
            answer(count, libpcap.run(data, wire_len));
        }
        let is_whole = wire_len as usize == data.len() || !self.asks_length;
        if let (Some(kernel), count) = &mut self.kernel
            && is_whole
            && KERNEL_LENGTHS.contains(&data.len())
        {
            let outcome = kernel.test_run(data, None, 1);
            let outcome = outcome.map_err(|error| Error::os("filter in the kernel", error))?;
            answer(count, outcome.result);
        }
        Ok(all)
    }

    /// The results of the engines; the interpreter is the first.
    pub fn counts(&self) -> [&Count; 4] {
        [&self.interpreter.1, &self.jit.1, &self.libpcap.1, &self.kernel.1]
    }
}

impl Count {
    fn add(&mut self, verdict: u32) {
        self.packets += 1;
        self.matching += u64::from(verdict != 0);
    }
}

fn present<E>(engine: &'static str, found: Result<E, String>) -> (Option<E>, Count) {
    let (found, missing) = match found {
        Ok(found) => (Some(found), None),
        Err(missing) => (None, Some(missing)),
    };
    (found, Count { engine, missing, ..Count::default() })
}

fn of_libpcap(program: &Program) -> Result<libpcap::Interpreter<'_>, String> {
    if let Some(field) = program.ancillary().first() {
        return Err(format!("it cannot read {}, which is not in the packet", field.name()));
    }
    let library = libpcap::library().map_err(|reason| format!("{reason}; {}", libpcap::INSTALL))?;
    let instructions: &[Instruction] = program.instructions();
    library.interpreter(instructions).ok_or_else(|| "it refuses the program".to_owned())
}

fn of_kernel(program: &Program) -> Result<bpf::Program, String> {
    const ETHERNET: u16 = 1;
    if program.link_type() != ETHERNET {
        return Err("XDP programs see Ethernet only".to_owned());
    }
    let missing = bpf::missing_capabilities();
    if !missing.is_empty() {
        let names = missing.iter().map(ToString::to_string).collect::<Vec<_>>();
        return Err(format!("it takes {}", names.join(" and ")));
    }
    let insns =
        translate(program, Buffers::One, Ending::Exit).map_err(|error| error.to_string())?;
    let load = bpf::Load::new(bpf::ProgramType::Xdp, "wirelane_filter", &insns);
    bpf::Program::load(&load).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirelane_filter::op::{Ancillary, Cond, Operand, Width};

    fn program(load: Op) -> Program {
        let cond = Op::Branch { cond: Cond::Set, operand: Operand::K(1), jt: 0, jf: 1 };
        let ops = [load, cond, Op::Return(9), Op::Return(0)];
        Program::new(1, ops.iter().map(|op| op.encode()).collect()).unwrap()
    }

    /// A hundred packets, half of them cut; all engines agree.
    fn counts(program: &Program) -> Vec<Count> {
        let mut comparison = Comparison::new(program).unwrap();
        for len in 0..100_u32 {
            let data: Vec<_> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            assert!(comparison.run(&data, len + len % 2).unwrap(), "{len} bytes");
        }
        comparison.counts().map(Clone::clone).into()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri loads no library")]
    fn engines_agree_and_count_the_same() {
        for load in [Op::LoadAbsolute(Width::Byte, 20), Op::LoadLength] {
            let engines = counts(&program(load));
            let own = &engines[0];
            assert_eq!((own.engine, own.packets), ("interpreter", 100));
            for other in engines[1..].iter().filter(|other| other.missing.is_none()) {
                let same = (other.packets, other.matching) == (own.packets, own.matching);
                assert!(same || other.engine == "kernel" && other.packets > 40, "{other:?}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri loads no library")]
    fn what_an_engine_cannot_run_it_does_not_count() {
        let engines = counts(&program(Op::LoadAncillary(Ancillary::Queue)));
        let libpcap = engines.iter().find(|count| count.engine == "libpcap").unwrap();
        assert_eq!(libpcap.packets, 0);
        assert!(libpcap.missing.as_ref().unwrap().contains("queue"), "{libpcap:?}");
    }
}
