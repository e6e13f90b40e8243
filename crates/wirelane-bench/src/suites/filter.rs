//! What it costs to filter a packet, in each engine.
//!
//! Frames of 64 bytes lie in a pool, as a port delivers them, and every engine looks at the same
//! ones: machine code a batch at a time, interpreters one by one, the kernel by running the
//! translated program on them without an interface. Some expressions match all of them, some none,
//! and some one in four, so that what a processor guesses about branches is in the figures.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wirelane_filter::libpcap;
use wirelane_os::bpf;

use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::statistics::rounds::Rounds;
use crate::suite::{Effort, Progress, Suite};
use crate::suites::loop_plan::LoopPlan;
use clap::Args;
use std::path::Path;
use wirelane::error::{Error, Result};
use wirelane::filter::Engine;
use wirelane::frame::Batch;
use wirelane::pool::{Pool, PoolConfig};
use wirelane_filter::{Buffers, Ending, Interpreter, Packet, Program, compile, translate};

const SUITE: &str = "filter";
const ETHERNET: u16 = 1;
/// Bytes of a packet.
const SIZE: usize = 64;
/// Frames that a measurement goes through in turn: many enough not to be learnt by heart.
const FRAMES: usize = 1024;
/// How often the kernel runs a program on one packet; on every `FRAMES / KERNEL_FRAMES`th.
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
    // It has none, and says so in words.
    #[arg(long, hide = true, value_parser = no_port)]
    port: Option<String>,
    #[command(flatten)]
    effort: Effort,
}

fn no_port(_: &str) -> std::result::Result<String, String> {
    let reason = "filters are measured on packets in memory, and no port has a part in it: leave \
                  it out; what a filter costs at a port, 'wirelane filter EXPRESSION' and the \
                  counters of 'capture -f' tell";
    Err(reason.to_owned())
}

impl Suite for FilterSuite {
    const NAME: &'static str = SUITE;
    const USUAL: [u64; 2] = [2, 10];

    fn for_report(effort: Effort, _: &Path) -> Self {
        Self { port: None, effort }
    }

    fn effort(&self) -> &Effort {
        &self.effort
    }

    fn samples(&self) -> usize {
        LoopPlan::of(&self.effort, None).samples
    }

    fn run(
        &self,
        limit: Option<Duration>,
        report: &mut Report,
        stop: &AtomicBool,
        progress: Progress<'_>,
    ) -> Result<()> {
        filter(&LoopPlan::of(&self.effort, limit), report, stop, progress)
    }
}

/// Names of the engines in the rows, in the order in which they are measured.
const ENGINES: [&str; 4] = ["jit", "interpreter", "libpcap", "kernel"];

/// An expression that is measured.
struct Expression {
    /// As the rows name it.
    name: &'static str,
    text: String,
    /// A source address and a source port that match, the first of some.
    matching: fn(u8) -> ([u8; 4], u16),
}

fn expressions() -> [Expression; 2] {
    let chain: Vec<_> = (1..=HOSTS).map(|host| format!("host 10.1.7.{host}")).collect();
    [
        Expression {
            name: "tcp port 443 and host 10.0.0.1",
            text: "tcp port 443 and host 10.0.0.1".into(),
            matching: |_| ([10, 0, 0, 1], 443),
        },
        Expression {
            name: "50 hosts",
            text: chain.join(" or "),
            matching: |turn| ([10, 1, 7, turn % HOSTS + 1], 80),
        },
    ]
}

/// How many of the packets match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    All,
    Quarter,
    None,
}

const SHARES: [(Share, &str); 3] =
    [(Share::All, "all"), (Share::Quarter, "quarter"), (Share::None, "none")];

/// Measures the engines side by side, and adds the rows to `report`.
///
/// `progress` gets the round and what is measured next. `stop` ends the run early and keeps what
/// was measured. Without libpcap nothing compiles the expressions, and everything is skipped.
///
/// # Errors
/// There is no memory for the frames.
pub fn filter(
    plan: &LoopPlan,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    if let Err(reason) = libpcap::library() {
        let reason = format!("no libpcap to compile expressions: {reason}; {}", libpcap::INSTALL);
        report.skip(SUITE, "libpcap", reason);
        return Ok(());
    }
    let mut cases = Vec::new();
    for expression in expressions() {
        let program = compile(&expression.text, ETHERNET, u32::from(u16::MAX))?;
        for (share, name) in SHARES {
            cases.push(FilterCase::new(&expression, program.clone(), share, name)?);
        }
    }
    for case in &cases {
        for (engine, reason) in &case.missing {
            report.skip(SUITE, engine, reason.clone());
        }
    }
    for round in Rounds::new(plan.samples, plan.limit) {
        for case in &mut cases {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            progress(round, &format!("{}, {} match", case.expression, case.share));
            case.measure(plan.window / 4);
        }
    }
    report.rows.extend(cases.iter().flat_map(FilterCase::rows));
    Ok(())
}

/// An expression, its packets, and the engines for it.
struct FilterCase {
    expression: &'static str,
    share: &'static str,
    program: Program,
    // Before the pool, which waits for them.
    frames: Batch,
    _pool: Pool,
    /// Machine code.
    jit: Option<Engine>,
    interpreter: Interpreter,
    kernel: Option<bpf::Program>,
    missing: Vec<(&'static str, String)>,
    /// Nanoseconds per packet, by engine.
    samples: [Vec<f64>; ENGINES.len()],
}

impl FilterCase {
    fn new(
        expression: &Expression,
        program: Program,
        share: Share,
        name: &'static str,
    ) -> Result<Self> {
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
                Share::All => true,
                Share::Quarter => turn >> 30 == 0,
                Share::None => false,
            };
            let other = ([172, 16, (turn >> 16) as u8, (turn >> 8) as u8], 8080);
            let (address, port) =
                if matches { (expression.matching)((turn >> 16) as u8) } else { other };
            // Too short for nothing: the size of a chunk is far more.
            let _ = frame.fill(&packet(address, port));
        }
        let interpreter = Interpreter::new(&program)?;
        let mut missing = Vec::new();
        let jit = Engine::new(&program, 0)?;
        missing.extend(jit.note().map(|note| ("jit", note.to_owned())));
        let jit = Some(jit).filter(|jit| jit.note().is_none());
        let kernel = load(&program);
        let kernel = kernel.map_err(|error| missing.push(("kernel", error.to_string()))).ok();
        let (expression, share) = (expression.name, name);
        let samples = Default::default();
        let _pool = pool;
        Ok(Self {
            expression,
            share,
            program,
            frames,
            _pool,
            jit,
            interpreter,
            kernel,
            missing,
            samples,
        })
    }

    /// One sample of every engine.
    fn measure(&mut self, window: Duration) {
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
        let taken = [jit, Some(interpreter), libpcap, kernel];
        for (samples, taken) in self.samples.iter_mut().zip(taken) {
            samples.extend(taken);
        }
    }

    fn rows(&self) -> Vec<Row> {
        let params = Params(vec![
            ("expression", Param::Text(self.expression)),
            ("matching", Param::Text(self.share)),
            ("size", Param::Number(SIZE as u64)),
        ]);
        let row = |case, metric, unit, samples: Vec<f64>| Row {
            suite: SUITE,
            case,
            peer: matches!(case, "libpcap" | "kernel").then_some(case),
            params: params.clone(),
            metric,
            unit,
            samples,
            source: None,
        };
        let [jit, interpreter, libpcap, _] = &self.samples;
        let mut rows = Vec::new();
        for (case, ns) in ENGINES.into_iter().zip(&self.samples) {
            let rate = ns.iter().map(|ns| 1e9 / ns.max(f64::MIN_POSITIVE)).collect();
            rows.push(row(case, "ns_per_packet", "ns", ns.clone()));
            if case != "kernel" {
                // The kernel's clock has whole nanoseconds, and its figure is for one at a time.
                rows.push(row(case, "packets_per_s", "1/s", rate));
            }
            let ours = matches!(case, "jit" | "interpreter");
            let own = if case == "jit" { jit } else { interpreter };
            if ours {
                // Over libpcap's interpreter, in the same round.
                let speedup = libpcap.iter().zip(own).map(|(libpcap, own)| libpcap / own);
                rows.push(row(case, "speedup", "1", speedup.collect()));
            }
        }
        rows.retain(|row| !row.samples.is_empty());
        rows
    }
}

/// The translation as an XDP program.
fn load(program: &Program) -> Result<bpf::Program> {
    let insns = translate(program, Buffers::One, Ending::Exit)?;
    let load = bpf::Load::new(bpf::ProgramType::Xdp, "wirelane_filter", &insns);
    bpf::Program::load(&load).map_err(|error| Error::os("filter in the kernel", error.os))
}

/// Nanoseconds per packet while `all` goes through all frames, again and again.
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
    let mut packet = [0x5a; SIZE];
    let [p0, p1] = port.to_be_bytes();
    let [a0, a1, a2, a3] = address;
    let mut at = 12;
    let mut put = |bytes: &[u8]| {
        if let Some(place) = packet.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        at += bytes.len();
    };
    put(&[0x08, 0x00]);
    put(&[0x45, 0, 0, SIZE as u8 - 14, 0, 1, 0, 0, 64, 6, 0, 0]);
    put(&[a0, a1, a2, a3, 192, 0, 2, 9]);
    put(&[p0, p1, 0x9c, 0x40]);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_sees_the_packets_as_meant() {
        for expression in expressions() {
            let program = compile(&expression.text, ETHERNET, 1500).unwrap();
            for (share, name) in SHARES {
                let case = FilterCase::new(&expression, program.clone(), share, name).unwrap();
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
                    Share::All => FRAMES..=FRAMES,
                    Share::Quarter => FRAMES / 5..=FRAMES / 3,
                    Share::None => 0..=0,
                };
                assert!(expected.contains(&matching), "{name} of {}: {matching}", case.expression);
            }
        }
    }

    #[test]
    fn every_engine_has_its_rows() {
        let mut report = Report::new("test".into());
        let plan =
            LoopPlan { samples: 2, window: Duration::from_millis(1), limit: None, peers: true };
        filter(&plan, &mut report, &AtomicBool::new(false), &mut |_, _| {}).unwrap();
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
