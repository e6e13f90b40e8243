//! `wirelane queues`: the queues of one interface, or of all.

use std::fmt::{Display, Write as _};

use clap::Args;
use serde::Serialize;
use wirelane::Error;
use wirelane::inspect::{
    self, CpuList, InterfaceQueues, Rss, Service, Setting, TxBinding, TxQueue, TxWay,
};
use wirelane::internal::inspect::{ByteLimit, sending};

use crate::netns::NetnsArgs;
use crate::output;
use crate::output::table::TextTable;

/// Show queue counts, ring sizes, CPU affinity, steering and RSS of an interface.
///
/// Without an interface, list all interfaces of the network namespace. A value that the driver
/// does not report is "unknown". Changes nothing and needs no privilege.
#[derive(Args, Clone, Debug)]
pub(crate) struct QueuesArgs {
    /// The interface, such as eth0
    #[arg(value_name = "IF")]
    pub(crate) interface: Option<String>,

    /// Print one JSON object (schema wirelane.queues/1)
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    netns: NetnsArgs,
}

/// Runs the command.
///
/// # Errors
/// The interface does not exist, or the answer cannot be written.
pub(crate) fn run(args: &QueuesArgs) -> Result<(), Error> {
    args.netns.enter()?;
    let found = match &args.interface {
        Some(name) => vec![inspect::interface(name)?],
        None => inspect::all()?,
    };
    let text = if args.json {
        json(&found)?
    } else if args.interface.is_some() {
        found.iter().map(details).collect()
    } else {
        overview(&found)
    };
    output::print(&text)
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    interfaces: Vec<ShownQueues<'a>>,
}

#[derive(Serialize)]
struct ShownQueues<'a> {
    #[serde(flatten)]
    interface: &'a InterfaceQueues,
    packet_tx: PacketTx,
}

/// The CPUs from which packet sockets send through each TX queue.
#[derive(Serialize)]
struct PacketTx {
    through_qdisc: Vec<TxBinding>,
    bypass: Vec<TxBinding>,
}

impl<'a> ShownQueues<'a> {
    fn new(interface: &'a InterfaceQueues) -> Self {
        let through_qdisc = sending(interface, false);
        Self { interface, packet_tx: PacketTx { through_qdisc, bypass: sending(interface, true) } }
    }
}

fn json(found: &[InterfaceQueues]) -> Result<String, Error> {
    let document = Document {
        schema: "wirelane.queues/1",
        version: env!("CARGO_PKG_VERSION"),
        interfaces: found.iter().map(ShownQueues::new).collect(),
    };
    let mut text = serde_json::to_string_pretty(&document)
        .map_err(|error| Error::io("standard output", "write", error.into()))?;
    text.push('\n');
    Ok(text)
}

/// One line per interface.
fn overview(found: &[InterfaceQueues]) -> String {
    let mut table = TextTable::new(&[
        "interface",
        "driver",
        "link",
        "rx",
        "rx max",
        "tx",
        "tx max",
        "rx affinity",
    ]);
    for interface in found {
        table.row([
            interface.name.clone(),
            text(interface.driver.as_ref()),
            if interface.up { "up".into() } else { "down".into() },
            text(interface.rx.count),
            text(interface.rx.max),
            text(interface.tx.count),
            text(interface.tx.max),
            affinity(interface.rx.queues.iter().map(|queue| (queue.index, &queue.service))),
        ]);
    }
    table.to_string()
}

/// Everything about one interface.
fn details(interface: &InterfaceQueues) -> String {
    let mut out = summary(interface);
    out.push('\n');
    out.push_str(&counts(interface));
    if !interface.rx.queues.is_empty() {
        out.push('\n');
        let mut table =
            TextTable::new(&["rx queue", "cpus", "irq", "napi", "rps cpus", "numa node"]);
        let queues = interface.rx.queues.iter();
        let rows = queues.map(|one| (one.index, about(&one.service, one.rps_cpus.as_ref())));
        runs(rows)
            .into_iter()
            .for_each(|(queues, about)| table.row([vec![queues], about].concat()));
        out.push_str(&table.to_string());
    }
    if !interface.tx.queues.is_empty() {
        out.push('\n');
        let titles = ["tx queue", "cpus", "irq", "napi", "xps cpus", "numa node", "byte limit"];
        let mut table = TextTable::new(&titles);
        let limit = |one: &TxQueue| match one.byte_limit {
            Some(ByteLimit { limit: 0, .. }) => "off".to_owned(),
            limit => text(limit.map(|limit| limit.limit)),
        };
        let queues = interface.tx.queues.iter();
        let rows = queues.map(|one| {
            let mut row = about(&one.service, one.xps_cpus.as_ref());
            row.push(limit(one));
            (one.index, row)
        });
        runs(rows)
            .into_iter()
            .for_each(|(queues, about)| table.row([vec![queues], about].concat()));
        out.push_str(&table.to_string());
    }
    out.push('\n');
    let rx = affinity(interface.rx.queues.iter().map(|queue| (queue.index, &queue.service)));
    let tx = affinity(interface.tx.queues.iter().map(|queue| (queue.index, &queue.service)));
    line(&mut out, "rxqueue", &format!("len={} affinity=[ {rx} ]", text(interface.rx.count)));
    line(&mut out, "txqueue", &format!("len={} affinity=[ {tx} ]", text(interface.tx.count)));
    if let Some(packet_tx) = packet_tx(interface) {
        line(&mut out, "packet tx", &packet_tx);
    }
    out.push('\n');
    match &interface.rss {
        Some(rss) => describe_rss(&mut out, rss),
        None => line(&mut out, "rss", "unknown"),
    }
    if !interface.notes.is_empty() {
        out.push('\n');
        for note in &interface.notes {
            line(&mut out, "note", note);
        }
    }
    out
}

fn summary(interface: &InterfaceQueues) -> String {
    let on_off = |state: Option<bool>| match state {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown",
    };
    let mut out = String::new();
    line(&mut out, "interface", &format!("{} (index {})", interface.name, interface.index));
    let driver = match &interface.driver_version {
        Some(version) => format!("{} {version}", text(interface.driver.as_ref())),
        None => text(interface.driver.as_ref()),
    };
    line(&mut out, "driver", &driver);
    line(&mut out, "firmware", &text(interface.firmware.as_ref()));
    line(&mut out, "bus", &text(interface.bus.as_ref()));
    line(&mut out, "numa node", &text(interface.numa_node));
    let state = if interface.up { "up" } else { "down" };
    let speed = match interface.speed_mbps {
        Some(speed) if speed % 1000 == 0 => format!("{} Gbit/s", speed / 1000),
        Some(speed) => format!("{speed} Mbit/s"),
        None => "unknown".to_owned(),
    };
    line(&mut out, "link", &format!("{state}, mtu {}, speed {speed}", text(interface.mtu)));
    let offloads = &interface.offloads;
    let offloads = format!(
        "gro {}, lro {}, rx-vlan {}, tx-vlan {}",
        on_off(offloads.gro),
        on_off(offloads.lro),
        on_off(offloads.rx_vlan),
        on_off(offloads.tx_vlan)
    );
    line(&mut out, "offloads", &offloads);
    out
}

fn counts(interface: &InterfaceQueues) -> String {
    let mut table = TextTable::new(&["queues", "count", "max", "ring", "ring max"]);
    let mut row = |label: &str, count: Option<u32>, max: Option<u32>, ring: Option<Setting>| {
        // A combined channel has no separate ring.
        let depth =
            |value: fn(Setting) -> Option<u32>| ring.map_or("-".to_owned(), |r| text(value(r)));
        table.row([
            label.to_owned(),
            text(count),
            text(max),
            depth(|ring| ring.current),
            depth(|ring| ring.max),
        ]);
    };
    row("rx", interface.rx.count, interface.rx.max, Some(interface.rx.ring));
    row("tx", interface.tx.count, interface.tx.max, Some(interface.tx.ring));
    row("combined", interface.combined.current, interface.combined.max, None);
    table.to_string()
}

/// The properties of a queue, in the columns after its number.
fn about(service: &Service, steering: Option<&CpuList>) -> Vec<String> {
    let steering = match steering {
        Some(cpus) if cpus.is_empty() => "off".to_owned(),
        cpus => text(cpus),
    };
    vec![
        text(service.cpus.as_ref()),
        text(service.irq),
        text(service.napi),
        steering,
        text(service.numa),
    ]
}

/// Ranges of consecutive queues with equal properties, such as `0-63`.
fn runs<T: PartialEq>(queues: impl Iterator<Item = (u32, T)>) -> Vec<(String, T)> {
    let mut runs: Vec<(u32, u32, T)> = Vec::new();
    for (index, about) in queues {
        match runs.last_mut() {
            Some((_, last, same)) if *same == about && last.checked_add(1) == Some(index) => {
                *last = index;
            }
            _ => runs.push((index, index, about)),
        }
    }
    let name = |first, last| match first == last {
        true => format!("{first}"),
        false => format!("{first}-{last}"),
    };
    runs.into_iter().map(|(first, last, about)| (name(first, last), about)).collect()
}

fn describe_rss(out: &mut String, rss: &Rss) {
    let symmetric = match rss.key_symmetric {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    let function = text(rss.function.as_ref());
    let transform = text(rss.input_transform.as_ref());
    let hash = format!("{function}, input transformation {transform}, symmetric: {symmetric}");
    line(out, "rss hash", &hash);
    line(out, "rss key", &text(rss.key.as_ref()));
    let Some(table) = &rss.indirection else {
        line(out, "rss table", "unknown");
        return;
    };
    let wide = table.len().saturating_sub(1).to_string().len();
    let queue = table.iter().max().map_or(1, |queue| queue.to_string().len());
    for (row, queues) in table.chunks(PER_ROW).enumerate() {
        let queues: Vec<_> = queues.iter().map(|number| format!("{number:>queue$}")).collect();
        let label = if row == 0 { "rss table" } else { "" };
        line(out, label, &format!("{:>wide$}: {}", row * PER_ROW, queues.join(" ")));
    }
}

/// Buckets of the indirection table on one line.
const PER_ROW: usize = 16;

/// `0:0 1:1 2-3:?`: the CPUs of each queue, as the tools of the multiqueue BPF paper (FreeBSD,
/// published in 2011) print them.
fn affinity<'a>(queues: impl Iterator<Item = (u32, &'a Service)>) -> String {
    let cpus = |service: &Service| service.cpus.as_ref().map_or("?".to_owned(), CpuList::to_string);
    let runs = runs(queues.map(|(index, service)| (index, cpus(service))));
    let words: Vec<_> = runs.into_iter().map(|(queues, cpus)| format!("{queues}:{cpus}")).collect();
    words.join(" ")
}

/// The CPUs from which packet sockets send through each TX queue: `0:0 1:1 (XPS)`.
fn packet_tx(interface: &InterfaceQueues) -> Option<String> {
    let usual = sending(interface, false);
    let words = |bindings: &[TxBinding]| {
        let cpus = |one: &TxBinding| match one.cpus.is_empty() {
            true => format!("{}:-", one.queue),
            false => format!("{}:{}", one.queue, one.cpus),
        };
        bindings.iter().map(cpus).collect::<Vec<_>>().join(" ")
    };
    match usual.first()?.way {
        TxWay::Only => None,
        way @ TxWay::Device => Some(way.to_string()),
        way @ TxWay::Flow => {
            let (program, bypass) = (TxWay::Program, words(&sending(interface, true)));
            Some(format!("{program}, or {way}; with bypass=on {bypass}"))
        }
        way => Some(format!("{} ({way})", words(&usual))),
    }
}

fn text(value: Option<impl Display>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

/// A labelled line. Text that came from a driver may hold control characters, which a terminal must
/// not get.
fn line(out: &mut String, label: &str, value: &str) {
    let value = output::printable(value);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{}", format!("{label:<11}{value}").trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_in_words() {
        let out = details(&inspect::interface("lo").unwrap());
        assert!(out.starts_with("interface  lo (index 1)\ndriver     unknown\n"), "{out}");
        assert!(out.contains("\nrxqueue    len=1 affinity=[ 0:? ]\n"), "{out}");
        assert!(out.contains("\nrss        unknown\n"), "{out}");
        assert!(out.lines().all(|line| line == line.trim_end()), "{out}");
    }

    #[test]
    fn json_is_one_object_with_a_schema() {
        let text = json(&[inspect::interface("lo").unwrap()]).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["schema"], "wirelane.queues/1");
        assert_eq!(document["interfaces"][0]["name"], "lo");
        assert_eq!(document["interfaces"][0]["rx"]["count"], 1);
        assert!(document["interfaces"][0]["rss"].is_null());
    }

    #[test]
    fn overview_has_a_line_per_interface() {
        let out = overview(&inspect::all().unwrap());
        assert!(out.starts_with("interface"), "{out}");
        assert!(out.lines().any(|line| line.starts_with("lo ")), "{out}");
    }

    #[test]
    fn queues_alike_share_a_row() {
        let run = |about: &[char]| runs((0..).zip(about.iter().copied()));
        assert_eq!(run(&['a']), [("0".to_owned(), 'a')]);
        assert_eq!(run(&['a', 'a', 'b']), [("0-1".to_owned(), 'a'), ("2".to_owned(), 'b')]);
        let apart = runs([(0, 'a'), (2, 'a')].into_iter());
        assert_eq!(apart, [("0".to_owned(), 'a'), ("2".to_owned(), 'a')]);
    }

    #[test]
    fn rss_table_is_aligned() {
        let mut out = String::new();
        let rss = Rss {
            function: Some("toeplitz".into()),
            input_transform: Some("none".into()),
            key: Some("6d:5a".into()),
            key_symmetric: Some(false),
            indirection: Some((0..32).map(|bucket| bucket % 12).collect()),
        };
        describe_rss(&mut out, &rss);
        let expected = "\
rss hash   toeplitz, input transformation none, symmetric: no
rss key    6d:5a
rss table   0:  0  1  2  3  4  5  6  7  8  9 10 11  0  1  2  3
           16:  4  5  6  7  8  9 10 11  0  1  2  3  4  5  6  7
";
        assert_eq!(out, expected);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut out = String::new();
        line(&mut out, "bus", "a\x1b[2Jb\nc");
        assert_eq!(out, "bus        a?[2Jb?c\n");
    }
}
