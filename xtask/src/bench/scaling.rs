//! Two queues on two threads beside one queue on one thread, of the simulated port.
//!
//! Files in memory are new pages for the kernel to find: how well that scales is not up to the
//! capture. So where packets are written, one and two processes of `dd` write as much in the same way.

use std::thread;
use std::time::Duration;

use serde_json::json;

use super::process::{self, Scratch, capture, text, two_cpus};
use super::report::{Report, Row, Target};
use super::{Context, Result};
use crate::setup;

/// Flows of the traffic; the seed is chosen so that each queue gets half of them.
const FLOWS: u64 = 256;
/// All files of a run together.
const MOST_BYTES: u64 = 4 << 30;

pub(super) fn run(context: &Context, report: &mut Report) -> Result<()> {
    let cpus = two_cpus()?;
    let seed = even_seed(context)?;
    for target in [None, Some("memory")] {
        for size in [64, 1500] {
            measure(context, report, cpus, &Traffic { size, seed, target })?;
        }
    }
    Ok(())
}

/// What is captured in one condition.
struct Traffic {
    size: u64,
    seed: u64,
    target: Option<&'static str>,
}

fn measure(
    context: &Context,
    report: &mut Report,
    cpus: [u32; 2],
    traffic: &Traffic,
) -> Result<()> {
    let scratch = Scratch::new()?;
    let single = |count| rate(context, traffic, &scratch, 1, count, &cpus[..1]);
    let multi = |count| rate(context, traffic, &scratch, 2, count, &cpus);

    // A first run finds out how many packets the others should have; it is not counted.
    let seconds = if context.quick { 0.5 } else { 2.0 };
    let most = match traffic.target {
        Some(_) => MOST_BYTES / record(traffic.size),
        None => u64::MAX,
    };
    let first = 1_000_000.min(most);
    let count = ((single(first)? * seconds) as u64).clamp(first, most);

    let mut control = Control::default();
    let (mut singles, mut multis, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..context.rounds() {
        let (one, two) = if round % 2 == 0 {
            let one = single(count)?;
            (one, multi(count)?)
        } else {
            let two = multi(count)?;
            (single(count)?, two)
        };
        println!(
            "size {:<5} {:<7} {:8.2} Mpps on one thread, {:8.2} on two, {:.2} x, {count} packets",
            traffic.size,
            traffic.target.unwrap_or("none"),
            one / 1e6,
            two / 1e6,
            two / one
        );
        if traffic.target.is_some() {
            control.measure(context, &scratch, cpus, count * record(traffic.size))?;
        }
        singles.push(one);
        multis.push(two);
        ratios.push(two / one);
    }
    let row = |peer: Option<&str>, case, metric, unit, samples, target| Row {
        case,
        peer: peer.map(str::to_owned),
        params: json!({ "target": traffic.target, "port": "sim", "size": traffic.size }),
        metric,
        unit,
        samples,
        target,
    };
    report.add(row(None, "single", "packets_per_s", "1/s", singles, None));
    report.add(row(None, "multi", "packets_per_s", "1/s", multis, None));
    report.add(row(None, "scaling", "ratio", "", ratios, Some(Target::AtLeast(1.9))));
    if !control.ratios.is_empty() {
        let dd = Some("dd");
        report.add(row(dd, "single", "bits_per_s", "bit/s", control.singles, None));
        report.add(row(dd, "multi", "bits_per_s", "bit/s", control.multis, None));
        report.add(row(dd, "scaling", "ratio", "", control.ratios, None));
    }
    Ok(())
}

/// Bytes of a packet in a file.
fn record(size: u64) -> u64 {
    size.next_multiple_of(4) + 32
}

/// What this machine allows: one `dd` on one CPU, beside two on two.
#[derive(Default)]
struct Control {
    singles: Vec<f64>,
    multis: Vec<f64>,
    ratios: Vec<f64>,
}

impl Control {
    /// Writes about `bytes` in either way; nothing where there is no `dd`.
    fn measure(
        &mut self,
        context: &Context,
        scratch: &Scratch,
        cpus: [u32; 2],
        bytes: u64,
    ) -> Result<()> {
        let Some(dd) = setup::find("dd") else { return Ok(()) };
        let write = |cpu: u32, bytes: u64| {
            let file = scratch.file(&format!("zero{cpu}"));
            process::run(process::dd(&dd, bytes, &file), &[cpu])
        };
        context.proceed()?;
        let half = bytes / 2;
        let rate = |time: Duration| (2 * half) as f64 * 8.0 / time.as_secs_f64();
        let single = rate(write(cpus[0], 2 * half)?.elapsed);
        scratch.clear()?;
        context.proceed()?;
        let times = thread::scope(|scope| {
            let handles = cpus.map(|cpu| scope.spawn(move || write(cpu, half)));
            handles.map(|handle| {
                handle.join().unwrap_or_else(|_| Err("dd could not be measured".to_owned()))
            })
        });
        scratch.clear()?;
        let [first, second] = times;
        let multi = rate(first?.elapsed.max(second?.elapsed));
        self.singles.push(single);
        self.multis.push(multi);
        self.ratios.push(multi / single);
        Ok(())
    }
}

/// Packets per second of one run with `count` packets on `queues` queues.
fn rate(
    context: &Context,
    traffic: &Traffic,
    scratch: &Scratch,
    queues: usize,
    count: u64,
    cpus: &[u32],
) -> Result<f64> {
    let Traffic { size, seed, .. } = traffic;
    let port = format!("sim:{queues}?count={count}&size={size}&flows={FLOWS}&seed={seed}");
    let file = text(&scratch.file("capture.pcapng"));
    let mut arguments = vec![port.as_str()];
    if queues == 1 {
        arguments.push("--single");
    }
    if traffic.target.is_some() {
        arguments.extend(["-w", &file, "--split"]);
    }
    let (_, summary) = capture(context, &arguments, cpus)?;
    scratch.clear()?;
    let arrived = match traffic.target {
        Some(_) => summary.total("written")?,
        None => summary.total("delivered")?,
    };
    if arrived != count {
        return Err(format!("{arrived} of {count} packets of {port} arrived"));
    }
    Ok(count as f64 / summary.elapsed()?)
}

/// A seed with which two queues get the same number of packets: with others the threads would not
/// end at the same time, and the figure would be that of the longer queue.
fn even_seed(context: &Context) -> Result<u64> {
    for seed in 1..200 {
        let port = format!("sim:2?count={FLOWS}&flows={FLOWS}&seed={seed}");
        let (_, summary) = capture(context, &[&port], &two_cpus()?)?;
        if summary.queues() == [FLOWS / 2; 2] {
            return Ok(seed);
        }
    }
    Err("no seed spreads the flows evenly over two queues".to_owned())
}
