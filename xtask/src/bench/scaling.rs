//! Two queues on two threads beside one queue on one thread, of the simulated port.

use serde_json::json;

use super::process::{Scratch, capture, text, two_cpus};
use super::report::{Report, Row, Target};
use super::{Context, Result};

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
        Some(_) => MOST_BYTES / (traffic.size.next_multiple_of(4) + 32),
        None => u64::MAX,
    };
    let first = 1_000_000.min(most);
    let count = ((single(first)? * seconds) as u64).clamp(first, most);

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
        singles.push(one);
        multis.push(two);
        ratios.push(two / one);
    }
    let row = |case, metric, unit, samples, target| Row {
        case,
        peer: None,
        params: json!({ "target": traffic.target, "port": "sim", "size": traffic.size }),
        metric,
        unit,
        samples,
        target,
    };
    report.add(row("single", "packets_per_s", "1/s", singles, None));
    report.add(row("multi", "packets_per_s", "1/s", multis, None));
    report.add(row("scaling", "ratio", "", ratios, Some(Target::AtLeast(1.9))));
    Ok(())
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
