//! The cost of filtering a packet, in each engine.
//!
//! The frames of 64 bytes are in a pool, as delivered by a port. Every engine filters the same
//! frames: machine code a batch at a time, and interpreters one by one. The kernel runs the
//! translated program on some of them, without an interface. Expressions match all, none or a
//! quarter of the frames, so that the figures include mispredicted branches.

use std::hint::black_box;
use std::time::{Duration, Instant};

use clap::Args;
use wirelane::error::{Error, Result};
use wirelane::filter::Engine;
use wirelane::frame::Batch;
use wirelane::pool::{Pool, PoolConfig};
use wirelane_filter::libpcap;
use wirelane_filter::{Buffers, Ending, Interpreter, Packet, Program, compile, translate};
use wirelane_os::bpf;
use wirelane_wire::{MacAddr, Tcp, packet};

use crate::effort::Effort;
use crate::job::{Case, Job, SampleFigure, SamplingPlan};
use crate::row::params;
use crate::suite::Suite;

const ETHERNET: u16 = 1;
/// Bytes of a packet.
const SIZE: usize = 64;
/// Frames that a measurement filters in turn: too many for a branch predictor to learn.
const FRAMES: usize = 1024;
/// How often the kernel runs a program on one packet, and on how many of the frames it does.
const KERNEL_REPEAT: u32 = 20_000;
const KERNEL_FRAMES: usize = 16;
/// Hosts of the long chain.
const HOSTS: u8 = 50;

/// Measure filters: machine code, the interpreter, libpcap's interpreter, and the kernel.
///
/// Each runs two expressions, a port with a host and a chain of 50 hosts, over frames of 64 bytes
/// of which all, a quarter or none match. libpcap is needed to compile the expressions, root for
/// the kernel. The kernel's figure is a whole number of nanoseconds and includes the cost of its
/// test run.
#[derive(Args, Clone, Debug)]
pub struct FilterSuite {
    // The suite takes no port. The error of its parser explains why.
    #[arg(long, hide = true, value_parser = no_port)]
    port: Option<String>,
}

fn no_port(_: &str) -> std::result::Result<String, String> {
    let reason = "filters are measured on packets in memory, and no port has a part in it: leave \
                  it out; what a filter costs at a port, 'wirelane filter EXPRESSION' and the \
                  counters of 'capture -f' tell";
    Err(reason.to_owned())
}

impl Suite for FilterSuite {
    const NAME: &'static str = "filter";
    const USUAL: [u64; 2] = [2, 10];

    fn plan(&self, effort: &Effort) -> SamplingPlan {
        SamplingPlan::of_loops(effort)
    }

    fn run(&self, job: &mut Job<'_>) -> Result<()> {
        filter(job)
    }
}

/// Names of the engines in the rows, in the order in which they are measured.
const ENGINES: [&str; 4] = ["jit", "interpreter", "libpcap", "kernel"];

/// An expression that is measured.
struct MeasuredExpression {
    /// The name in rows.
    name: &'static str,
    text: String,
    /// The matching source address and source port for a number.
    matching: fn(u8) -> ([u8; 4], u16),
}

fn expressions() -> [MeasuredExpression; 2] {
    let chain: Vec<_> = (1..=HOSTS).map(|host| format!("host 10.1.7.{host}")).collect();
    [
        MeasuredExpression {
            name: "tcp port 443 and host 10.0.0.1",
            text: "tcp port 443 and host 10.0.0.1".into(),
            matching: |_| ([10, 0, 0, 1], 443),
        },
        MeasuredExpression {
            name: "50 hosts",
            text: chain.join(" or "),
            matching: |turn| ([10, 1, 7, turn % HOSTS + 1], 80),
        },
    ]
}

/// How many of the packets match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchShare {
    All,
    Quarter,
    None,
}

const SHARES: [(MatchShare, &str); 3] =
    [(MatchShare::All, "all"), (MatchShare::Quarter, "quarter"), (MatchShare::None, "none")];

/// Measures the engines in turns. Everything is skipped without libpcap, which compiles the
/// expressions.
fn filter(job: &mut Job<'_>) -> Result<()> {
    if let Err(reason) = libpcap::library() {
        let reason = format!("no libpcap to compile expressions: {reason}; {}", libpcap::INSTALL);
        job.skip("libpcap", reason);
        return Ok(());
    }
    let mut cases = Vec::new();
    for expression in expressions() {
        let program = compile(&expression.text, ETHERNET, u32::from(u16::MAX))?;
        for (share, matching) in SHARES {
            let engines = MeasuredEngines::new(&expression, program.clone(), share)?;
            for (engine, reason) in &engines.missing {
                job.skip(engine, reason);
            }
            let title = format!("{}, {matching} match", expression.name);
            let measure = move |job: &mut Job<'_>| Ok(engines.measure(job.plan.window / 4).into());
            let params = params![expression = expression.name, matching = matching, size = SIZE];
            cases.push(Case::new(ENGINES[0], params, title, measure));
        }
    }
    job.take(cases)
}

/// An expression, its packets, and the engines for it.
struct MeasuredEngines {
    program: Program,
    // Dropped before the pool, which waits for its frames.
    frames: Batch,
    _pool: Pool,
    /// Machine code.
    jit: Option<Engine>,
    interpreter: Interpreter,
    kernel: Option<bpf::Program>,
    missing: Vec<(&'static str, String)>,
}

impl MeasuredEngines {
    fn new(expression: &MeasuredExpression, program: Program, share: MatchShare) -> Result<Self> {
        let config = PoolConfig {
            chunks: FRAMES as u32,
            chunk_size: 256,
            headroom: 64,
            ..PoolConfig::default()
        };
        let mut pool = Pool::new(config)?;
        let mut frames = Batch::new(FRAMES);
        pool.take(&mut frames, FRAMES);
        let mut turn = 0_u32;
        for frame in frames.iter_mut() {
            // Numbers without a pattern that a processor could learn (Knuth's generator).
            turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let matches = match share {
                MatchShare::All => true,
                MatchShare::Quarter => turn >> 30 == 0,
                MatchShare::None => false,
            };
            let other = ([172, 16, (turn >> 16) as u8, (turn >> 8) as u8], 8080);
            let (address, port) =
                if matches { (expression.matching)((turn >> 16) as u8) } else { other };
            // Cannot fail: a chunk is much longer than the packet.
            let _ = frame.fill(&packet(address, port));
        }
        let interpreter = Interpreter::new(&program)?;
        let mut missing = Vec::new();
        let jit = Engine::new(&program, 0)?;
        missing.extend(jit.note().map(|note| ("jit", note.to_owned())));
        let jit = Some(jit).filter(|jit| jit.note().is_none());
        let kernel = load(&program);
        let kernel = kernel.map_err(|error| missing.push(("kernel", error.to_string()))).ok();
        let _pool = pool;
        Ok(Self { program, frames, _pool, jit, interpreter, kernel, missing })
    }

    /// One sample of every engine.
    fn measure(&self, window: Duration) -> Vec<SampleFigure> {
        let packets = || {
            self.frames.iter().map(|frame| {
                let wire_len = frame.original_len();
                Packet { data: frame.data(), wire_len, ..Packet::default() }
            })
        };
        let mut verdicts = [0; Batch::DEFAULT];
        let jit = self.jit.as_ref().map(|jit| {
            per_packet(window, || {
                for frames in self.frames.chunks(Batch::DEFAULT) {
                    jit.verdicts(frames, &mut verdicts);
                    black_box(&verdicts);
                }
            })
        });
        let interpreter = per_packet(window, || {
            packets().for_each(|packet| _ = black_box(self.interpreter.run(&packet)));
        });
        let libpcap = libpcap::library().ok();
        let libpcap = libpcap.and_then(|library| library.interpreter(self.program.instructions()));
        let libpcap = libpcap.map(|libpcap| {
            per_packet(window, || {
                packets().for_each(|packet| {
                    black_box(libpcap.run(packet.data, packet.wire_len));
                });
            })
        });
        let kernel = self.kernel.as_ref().and_then(|kernel| {
            let step = FRAMES / KERNEL_FRAMES;
            let runs = packets().step_by(step).map(|packet| {
                let outcome = kernel.test_run(packet.data, None, KERNEL_REPEAT);
                outcome.map(|outcome| f64::from(outcome.duration_ns))
            });
            let runs = runs.collect::<std::result::Result<Vec<_>, _>>().ok()?;
            Some(runs.iter().sum::<f64>() / runs.len() as f64)
        });
        let mut figures = Vec::new();
        for (case, ns) in ENGINES.into_iter().zip([jit, Some(interpreter), libpcap, kernel]) {
            let Some(ns) = ns else { continue };
            let is_ours = matches!(case, "jit" | "interpreter");
            let mut add = |metric, value| {
                let figure = SampleFigure::new(metric, value).in_case(case);
                figures.push(if is_ours { figure } else { figure.of(case) });
            };
            add("ns_per_packet", ns);
            if case != "kernel" {
                // The kernel's clock has whole nanoseconds, and its figure is for one at a time.
                add("packets_per_s", 1e9 / ns.max(f64::MIN_POSITIVE));
            }
            if let Some(libpcap) = libpcap.filter(|_| is_ours) {
                add("speedup", libpcap / ns);
            }
        }
        figures
    }
}

/// The expression as an XDP program.
fn load(program: &Program) -> Result<bpf::Program> {
    let insns = translate(program, Buffers::One, Ending::Exit)?;
    let load = bpf::Load::new(bpf::ProgramType::Xdp, "wirelane_filter", &insns);
    bpf::Program::load(&load).map_err(|error| Error::os("filter in the kernel", error.os))
}

/// Nanoseconds per packet while `all` filters all frames, again and again.
fn per_packet(window: Duration, mut all: impl FnMut()) -> f64 {
    all();
    let (begin, mut rounds) = (Instant::now(), 0_u32);
    loop {
        all();
        rounds += 1;
        let elapsed = begin.elapsed();
        if elapsed >= window {
            return elapsed.as_nanos() as f64 / (f64::from(rounds) * FRAMES as f64);
        }
    }
}

/// A TCP segment over IPv4 from `address` and `port`.
fn packet(address: [u8; 4], port: u16) -> [u8; SIZE] {
    const HEADERS: usize = 14 + 20 + 20;
    let mut frame = [0; SIZE];
    let ethernet = packet::ethernet(MacAddr([0x5a; 6]), MacAddr([0x5a; 6]));
    let ip = ethernet.ipv4(address.into(), [192, 0, 2, 9].into());
    let segment = ip.tcp(Tcp::between(port, 40_000), &[0x5a; SIZE - HEADERS]);
    // Cannot fail: the packet is as long as the frame.
    let _ = segment.emit(&mut frame);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::measured;

    #[test]
    fn every_engine_sees_the_packets_as_meant() {
        for expression in expressions() {
            let program = compile(&expression.text, ETHERNET, 1500).unwrap();
            for (share, name) in SHARES {
                let case = MeasuredEngines::new(&expression, program.clone(), share).unwrap();
                let mut verdicts = [0; FRAMES];
                if let Some(jit) = &case.jit {
                    jit.verdicts(&case.frames, &mut verdicts);
                }
                let mut matching = 0;
                for (frame, verdict) in case.frames.iter().zip(verdicts) {
                    let wire_len = frame.original_len();
                    let packet = Packet { data: frame.data(), wire_len, ..Packet::default() };
                    let own = case.interpreter.run(&packet);
                    assert!(case.jit.is_none() || own == verdict);
                    matching += usize::from(own > 0);
                }
                let expected = match share {
                    MatchShare::All => FRAMES..=FRAMES,
                    MatchShare::Quarter => FRAMES / 5..=FRAMES / 3,
                    MatchShare::None => 0..=0,
                };
                assert!(expected.contains(&matching), "{name} of {}: {matching}", expression.name);
            }
        }
    }

    #[test]
    fn every_engine_has_its_rows() {
        let plan = SamplingPlan { samples: 2, window: Duration::from_millis(1), limit: None };
        let report = measured("filter", plan, |mut job| filter(&mut job)).unwrap();
        for engine in ENGINES {
            let rows = report.rows.iter().filter(|row| row.case == engine);
            let times = rows.filter(|row| row.metric == "ns_per_packet").collect::<Vec<_>>();
            let skipped = report.skipped.iter().any(|skipped| skipped.case == engine);
            assert_eq!(times.len(), if skipped { 0 } else { 6 }, "{engine}");
            assert!(times.iter().all(|row| row.samples.len() == 2), "{engine}");
        }
        assert_eq!(report.rows.iter().filter(|row| row.metric == "speedup").count(), 12);
    }
}
