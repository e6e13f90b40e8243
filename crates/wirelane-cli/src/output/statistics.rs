//! The statistics of a running command (schema `wirelane.stats/1`) as tables for people, and the
//! change between two readings as rates.
//!
//! The document is from another process, maybe of another version. A missing figure is unknown.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use wirelane::internal::port::tell_apart;

use super::table::TextTable;
use super::{counter, printable, scaled, sized, wrap};

/// A column: its title, the place of its figure in a row, and its kind.
struct StatisticsColumn(&'static str, &'static str, FigureKind);

#[derive(Clone, Copy, PartialEq, Eq)]
enum FigureKind {
    /// Grows with each event.
    Count,
    /// As [`FigureKind::Count`], but seldom above 0: left out if it is 0 in every row.
    Rare,
    /// Grows with bytes.
    Bytes,
    /// The current value.
    Gauge,
}

/// A table, and the list of the document behind it.
struct StatisticsSection {
    title: &'static str,
    /// The meaning of its rows and columns.
    about: &'static str,
    list: &'static str,
    /// The list inside each entry that has the rows; `None` if the entries are rows.
    within: Option<&'static str>,
    /// The direction of a row's packets, if its class does not name it.
    direction: Option<&'static str>,
    columns: &'static [StatisticsColumn],
}

const SECTIONS: [StatisticsSection; 10] = [
    StatisticsSection {
        title: "received",
        about: "packets of each receiving queue; kernel, ring_full and the columns behind them are drops",
        list: "queues",
        within: None,
        direction: None,
        columns: &[
            StatisticsColumn("received", "/received", FigureKind::Count),
            StatisticsColumn("merged", "/merged", FigureKind::Rare),
            StatisticsColumn("delivered", "/packets", FigureKind::Count),
            StatisticsColumn("bytes", "/bytes", FigureKind::Bytes),
            StatisticsColumn("filtered", "/filtered", FigureKind::Count),
            StatisticsColumn("kernel", "/dropped/kernel", FigureKind::Count),
            StatisticsColumn("ring_full", "/dropped/ring_full", FigureKind::Count),
            StatisticsColumn("writer", "/dropped/writer", FigureKind::Rare),
            StatisticsColumn("tx_full", "/dropped/tx_full", FigureKind::Rare),
            StatisticsColumn("bad_header", "/dropped/bad_header", FigureKind::Rare),
        ],
    },
    StatisticsSection {
        title: "sent",
        about: "frames of each sending queue; the columns behind errors are the reasons",
        list: "tx",
        within: None,
        direction: Some("tx"),
        columns: &[
            StatisticsColumn("sent", "/packets", FigureKind::Count),
            StatisticsColumn("bytes", "/bytes", FigureKind::Bytes),
            StatisticsColumn("errors", "/errors", FigureKind::Count),
            StatisticsColumn("unfinished", "/unfinished", FigureKind::Rare),
            StatisticsColumn("wrong_length", "/wrong_length", FigureKind::Rare),
            StatisticsColumn("refused", "/refused", FigureKind::Rare),
            StatisticsColumn("unsent", "/unsent", FigureKind::Rare),
            StatisticsColumn("copied", "/copied", FigureKind::Rare),
            StatisticsColumn("stalls", "/stalls", FigureKind::Rare),
        ],
    },
    StatisticsSection {
        title: "pcap_stats",
        about: "what each handle of the program would get from pcap_stats",
        list: "handles",
        within: None,
        direction: None,
        columns: &[
            StatisticsColumn("ps_recv", "/ps_recv", FigureKind::Count),
            StatisticsColumn("ps_drop", "/ps_drop", FigureKind::Count),
            StatisticsColumn("ps_ifdrop", "/ps_ifdrop", FigureKind::Count),
        ],
    },
    StatisticsSection {
        title: "disciplines",
        about: "packets in front of each sending queue",
        list: "qdiscs",
        within: None,
        direction: Some("tx"),
        columns: &[
            StatisticsColumn("queued", "/enqueued", FigureKind::Count),
            StatisticsColumn("bypassed", "/bypassed", FigureKind::Count),
            StatisticsColumn("over_packets", "/dropped/limit_packets", FigureKind::Count),
            StatisticsColumn("over_bytes", "/dropped/limit_bytes", FigureKind::Count),
            StatisticsColumn("tx_error", "/dropped/tx_error", FigureKind::Rare),
            StatisticsColumn("purged", "/dropped/purged", FigureKind::Rare),
            StatisticsColumn("requeued", "/requeued", FigureKind::Count),
            StatisticsColumn("refused", "/refused", FigureKind::Rare),
            StatisticsColumn("backlog", "/backlog_packets", FigureKind::Gauge),
            StatisticsColumn("backlog_bytes", "/backlog_bytes", FigureKind::Gauge),
        ],
    },
    StatisticsSection {
        title: "cut",
        about: "long frames that became segments, by kind",
        list: "gso",
        within: Some("classes"),
        direction: Some("tx"),
        columns: &[
            StatisticsColumn("frames", "/super_frames", FigureKind::Count),
            StatisticsColumn("segments", "/segments", FigureKind::Count),
            StatisticsColumn("bytes", "/bytes", FigureKind::Bytes),
            StatisticsColumn("smallest", "/smallest_frame", FigureKind::Gauge),
            StatisticsColumn("largest", "/largest_frame", FigureKind::Gauge),
            StatisticsColumn("smallest_mss", "/smallest_mss", FigureKind::Gauge),
            StatisticsColumn("largest_mss", "/largest_mss", FigureKind::Gauge),
        ],
    },
    StatisticsSection {
        title: "not cut",
        about: "frames that left unchanged, by reason",
        list: "gso",
        within: Some("bypassed"),
        direction: Some("tx"),
        columns: &[StatisticsColumn("bypassed", "/frames", FigureKind::Count)],
    },
    StatisticsSection {
        title: "not sent",
        about: "frames that could not be cut, by reason",
        list: "gso",
        within: Some("refused"),
        direction: Some("tx"),
        columns: &[StatisticsColumn("refused", "/frames", FigureKind::Count)],
    },
    StatisticsSection {
        title: "merged",
        about: "packets that became long frames, by kind",
        list: "gro",
        within: Some("classes"),
        direction: Some("rx"),
        columns: &[
            StatisticsColumn("packets", "/segments", FigureKind::Count),
            StatisticsColumn("frames", "/super_frames", FigureKind::Count),
            StatisticsColumn("bytes", "/bytes", FigureKind::Bytes),
            StatisticsColumn("smallest", "/smallest_frame", FigureKind::Gauge),
            StatisticsColumn("largest", "/largest_frame", FigureKind::Gauge),
            StatisticsColumn("smallest_mss", "/smallest_mss", FigureKind::Gauge),
            StatisticsColumn("largest_mss", "/largest_mss", FigureKind::Gauge),
        ],
    },
    StatisticsSection {
        title: "handed on",
        about: "long frames that were complete, by reason",
        list: "gro",
        within: Some("flushed"),
        direction: Some("rx"),
        columns: &[StatisticsColumn("frames", "/frames", FigureKind::Count)],
    },
    StatisticsSection {
        title: "not merged",
        about: "packets that stayed alone, by reason",
        list: "gro",
        within: Some("alone"),
        direction: Some("rx"),
        columns: &[StatisticsColumn("packets", "/frames", FigureKind::Count)],
    },
];

/// Keys that identify a row. Missing keys are left out.
const KEYS: [&str; 6] = ["port", "interface", "queue", "class", "reason", "device"];

/// A reading, and the one before it if there is one.
pub(crate) struct StatisticsReading<'a> {
    pub(crate) now: &'a Value,
    pub(crate) before: Option<&'a Value>,
    /// Columns of the terminal, if it is one.
    pub(crate) width: Option<usize>,
}

impl StatisticsReading<'_> {
    /// All tables for people.
    pub(crate) fn text(&self) -> String {
        let mut text = self.head();
        for section in &SECTIONS {
            let table = self.fitting(section);
            if !table.is_empty() {
                let _ = writeln!(text, "\n{}", self.heading(section));
                let _ = write!(text, "{table}");
            }
        }
        let has_frames = |port: &Value| port["frames"].is_object();
        if self.before.is_none() && list(self.now, "ports").iter().any(has_frames) {
            let _ = write!(text, "\n{}", self.frames());
        }
        text
    }

    /// The title of a table, with its description unless the table repeats at each interval.
    fn heading(&self, section: &StatisticsSection) -> String {
        let StatisticsSection { title, about, .. } = section;
        match self.before {
            Some(_) => format!("{title}:"),
            None => {
                let width = self.width.unwrap_or(usize::MAX);
                wrap(&format!("{title} ({about}):"), width).join("\n")
            }
        }
    }

    /// The document, with rates if there was one before.
    pub(crate) fn json(&self) -> Value {
        let mut document = self.now.clone();
        if let (Some(seconds), Some(members)) = (self.seconds(), document.as_object_mut()) {
            members.insert("interval_s".into(), json!(seconds));
            members.insert("rates".into(), self.rates(seconds));
        }
        document
    }

    /// Seconds between the two readings, by the clock of the observed process.
    fn seconds(&self) -> Option<f64> {
        let elapsed = |document: &Value| document["elapsed_s"].as_f64();
        Some((elapsed(self.now)? - elapsed(self.before?)?).max(1e-9))
    }

    fn head(&self) -> String {
        let text = |value: &Value| printable(value.as_str().unwrap_or("unknown"));
        let seconds = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let now = self.now;
        let (command, version) = (text(&now["command"]), text(&now["version"]));
        let (user, system) = (seconds(&now["cpu"]["user_s"]), seconds(&now["cpu"]["system_s"]));
        let program = match now["library"].as_str() {
            Some(library) => format!("{command} over Wirelane's {} {version}", printable(library)),
            None => format!("wirelane {command} {version}"),
        };
        let mut head = format!(
            "process {}: {program}, {:.3} s, CPU {user:.2} s user, {system:.2} s system\n",
            now["pid"],
            seconds(&now["elapsed_s"]),
        );
        if let Some(seconds) = self.seconds() {
            let _ = writeln!(head, "per second, of the last {seconds:.3} s:");
            return head;
        }
        for (position, port) in list(now, "ports").iter().enumerate() {
            let (spec, mode) = (text(&port["spec"]), text(&port["mode"]));
            let _ = write!(head, "port {position}: {spec}, {mode}");
            if let Some(selected) = port["selected"].as_object() {
                let part = |key: &str| selected.get(key).map_or("unknown".into(), text);
                let on = |key: &str| selected.get(key).and_then(Value::as_bool);
                let other = if on("other") == Some(true) { "on" } else { "off" };
                let _ = write!(head, ", rx {} tx {} other {other}", part("rx"), part("tx"));
                if on("enabled") == Some(false) {
                    head.push_str(" (disabled: everything passes)");
                }
                if let Some(filter) = selected.get("filter").filter(|filter| !filter.is_null()) {
                    let _ = write!(head, " filter {}", text(filter));
                }
            }
            if let Some(offload) = port["offload"].as_object() {
                let part = |key: &str| offload.get(key).map_or("unknown".into(), text);
                let _ = write!(head, ", gso {} gro {}", part("gso"), part("gro"));
                let max = offload.get("gso_max").and_then(Value::as_u64);
                let max = max.map_or_else(|| "unknown".to_owned(), |bytes| bytes.to_string());
                let _ = write!(head, " gso_max {max}");
            }
            head.push('\n');
        }
        let totals = &now["totals"];
        let total = |key: &str| counter(totals[key].as_u64());
        let [received, delivered, dropped] = ["received", "delivered", "dropped"].map(total);
        let _ = write!(head, "{received} received");
        if totals["merged"].as_u64() > Some(0) {
            let _ = write!(head, " ({} merged into others)", total("merged"));
        }
        let _ = write!(head, ", {delivered} delivered, {dropped} dropped");
        if now["tx"].is_array() {
            let _ = write!(head, ", {} sent", total("sent"));
        }
        if !totals["written"].is_null() {
            let _ = write!(head, ", {} written", total("written"));
        }
        // Packets that the printing thread skipped are no loss of the capture, and easily
        // overlooked.
        if totals["not_printed"].as_u64() > Some(0) {
            let _ = write!(head, ", {} not printed", total("not_printed"));
        }
        head.push('\n');
        head + &store(&now["store"])
    }

    /// With all figures, if they fit; else with three digits each, and then without columns of
    /// zeros.
    fn fitting(&self, section: &StatisticsSection) -> TextTable {
        let fits = |table: &TextTable| self.width.is_none_or(|width| table.width() <= width);
        let brief = [(false, false), (true, false), (true, true)]
            .map(|(rounded, short)| move || self.table(section, rounded, short));
        let [exact, rounded, short] = brief;
        Some(exact()).filter(fits).or_else(|| Some(rounded()).filter(fits)).unwrap_or_else(short)
    }

    fn table(&self, section: &StatisticsSection, rounded: bool, short: bool) -> TextTable {
        let rows = section.rows(self.now);
        let value = |row: &Value, column: &StatisticsColumn| match section.list {
            // A program that has not requested a figure shows none.
            "handles" => Some(column.value(row).unwrap_or(0)),
            _ => column.value(row),
        };
        let is_used = |row: &Value| {
            section
                .columns
                .iter()
                .any(|column| !column.is_elsewhere(row) && value(row, column) != Some(0))
        };
        let used: Vec<_> = rows.iter().filter(|row| is_used(row)).collect();
        // A command that writes shows the writer's drops even if they are 0, unless `short`.
        let writes = self.now["command"] == "capture" || self.now["command"] == "record";
        let is_shown = |column: &&StatisticsColumn| {
            let is_rare =
                short || column.2 == FigureKind::Rare && !(writes && column.0 == "writer");
            !is_rare
                || used.iter().any(|row| !column.is_elsewhere(row) && column.value(row) != Some(0))
        };
        let columns: Vec<_> = section.columns.iter().filter(is_shown).collect();
        let seconds = self.seconds();
        let titles = columns.iter().map(|column| match column.2 {
            FigureKind::Bytes if seconds.is_some() => "bits",
            _ => column.0,
        });
        let mut table =
            TextTable::figures(&[section.head()].into_iter().chain(titles).collect::<Vec<_>>());
        let before = self.before.map(|before| section.rows(before)).unwrap_or_default();
        for row in used.iter().copied() {
            let before = before.iter().find(|other| key(other) == key(row));
            let cell = |column: &&StatisticsColumn| match (column.2, seconds) {
                _ if column.is_elsewhere(row) => "-".to_owned(),
                (FigureKind::Gauge, _) | (_, None) => figure(column.value(row), rounded),
                (_, Some(seconds)) => rate(column.rate(row, before, seconds)),
            };
            table.row([self.name(section, row)].into_iter().chain(columns.iter().map(cell)));
        }
        if used.len() > 1 && ["queues", "tx"].contains(&section.list) {
            let total = |column: &&StatisticsColumn| {
                let Some(seconds) = seconds else {
                    let rows = used.iter().filter(|row| !column.is_elsewhere(row));
                    let sum = rows.map(|row| column.value(row)).sum::<Option<u64>>();
                    return figure(sum, rounded);
                };
                let of = |row: &&Value| {
                    column.rate(row, before.iter().find(|other| key(other) == key(row)), seconds)
                };
                rate(used.iter().filter(|row| !column.is_elsewhere(row)).map(of).sum())
            };
            table.row(["total".to_owned()].into_iter().chain(columns.iter().map(total)));
        }
        table
    }

    /// The name of a row, with the name of its port if there are several.
    fn name(&self, section: &StatisticsSection, row: &Value) -> String {
        let ports = list(self.now, "ports");
        let name = |port: &Value| {
            port["interface"].as_str().or(port["spec"].as_str()).unwrap_or_default().to_owned()
        };
        let names = tell_apart(ports.iter().map(name).collect());
        let port = row["port"].as_u64().and_then(|port| names.get(usize::try_from(port).ok()?));
        let port = port.filter(|_| ports.len() > 1).map(String::as_str);
        // A port may have several interfaces.
        let port = row["interface"].as_str().or(port);
        if let Some(device) = row["device"].as_str() {
            return device.to_owned();
        }
        let queue = row["queue"].as_u64().map(|queue| queue.to_string());
        let class = row["class"].as_str();
        let (direction, class) = match section.direction {
            None => (class, None),
            Some(_) if queue.is_none() => (Some("other"), class),
            direction => (direction, class),
        };
        let words = [port, direction, queue.as_deref(), class, row["reason"].as_str()];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn frames(&self) -> TextTable {
        let keys = ["pool", "free", "fill", "rx", "held", "tx", "completion"];
        let mut table = TextTable::figures(&[&["frames"][..], &keys].concat());
        for port in list(self.now, "ports") {
            let name = port["interface"].as_str().or(port["spec"].as_str()).unwrap_or("?");
            let counts = keys.map(|key| counter(port["frames"][key].as_u64()));
            table.row([name.to_owned()].into_iter().chain(counts));
        }
        table
    }

    /// The rates that [`StatisticsReading::text`] shows, with the keys of their rows.
    fn rates(&self, seconds: f64) -> Value {
        let mut rates = Map::new();
        for section in &SECTIONS {
            let before = self.before.map(|before| section.rows(before)).unwrap_or_default();
            let rate = |row: &Value| {
                let before = before.iter().find(|other| key(other) == key(row));
                let mut rate = Map::new();
                for name in KEYS.into_iter().filter(|name| row.get(name).is_some()) {
                    rate.insert(name.into(), row[name].clone());
                }
                for column in section.columns.iter().filter(|column| column.2 != FigureKind::Gauge)
                {
                    let name = if column.2 == FigureKind::Bytes { "bits" } else { column.0 };
                    rate.insert(format!("{name}_per_s"), json!(column.rate(row, before, seconds)));
                }
                Value::Object(rate)
            };
            let rows: Vec<_> = section.rows(self.now).iter().map(rate).collect();
            if !rows.is_empty() {
                rates.insert(section.title.replace(' ', "_"), Value::Array(rows));
            }
        }
        Value::Object(rates)
    }
}

/// The state of a recording's disk, on one line; empty for other commands.
fn store(store: &Value) -> String {
    if !store.is_object() {
        return String::new();
    }
    let text = |value: &Value| printable(value.as_str().unwrap_or("unknown"));
    let bytes = |value: &Value| value.as_u64().map_or_else(|| "unknown".to_owned(), sized);
    let stored = &store["stored"];
    let mut line = format!(
        "store {}: {} written, {} behind; {} segments, {}, {} deleted",
        text(&store["directory"]),
        bytes(&store["bytes"]),
        bytes(&store["lag_bytes"]),
        counter(stored["segments"].as_u64()),
        bytes(&stored["bytes"]),
        counter(stored["deleted_segments"].as_u64()),
    );
    if let Some(room) = store["room_bytes"].as_u64() {
        let _ = write!(line, ", room for {}", sized(room));
    }
    if let Some(fired) = store["trigger"]["fired"].as_u64() {
        let _ = write!(line, "; triggered {fired} times");
    }
    if store["trouble"].is_string() {
        let _ = write!(line, "; {}", text(&store["trouble"]));
    }
    line + "\n"
}

/// A number, or three digits of it.
fn figure(value: Option<u64>, rounded: bool) -> String {
    match value {
        Some(value) if rounded => scaled(value as f64).trim_end().to_owned(),
        value => counter(value),
    }
}

fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |rate| scaled(rate).trim_end().to_owned())
}

impl StatisticsSection {
    /// The kind of its rows.
    fn head(&self) -> &'static str {
        if self.list == "handles" { "handle" } else { "queue" }
    }

    fn rows(&self, document: &Value) -> Vec<Value> {
        let entries = list(document, self.list);
        let Some(within) = self.within else { return entries.to_vec() };
        let parts = entries.iter().flat_map(|entry| {
            list(entry, within).iter().map(move |part| {
                let mut row = part.clone();
                if let Some(row) = row.as_object_mut() {
                    row.insert("port".into(), entry["port"].clone());
                    row.insert("queue".into(), entry["queue"].clone());
                }
                row
            })
        });
        parts.collect()
    }
}

impl StatisticsColumn {
    /// Whether another row counts these packets, which rings of several interfaces have lost or
    /// rejected.
    fn is_elsewhere(&self, row: &Value) -> bool {
        let is_shared = match self.1 {
            // Otherwise it is unknown.
            "/filtered" => row["received"].is_u64(),
            place => place.starts_with("/dropped/"),
        };
        is_shared && row["interface"].is_string() && self.value(row).is_none()
    }

    /// The figure; `None` if it is unknown.
    fn value(&self, row: &Value) -> Option<u64> {
        row.pointer(self.1).and_then(Value::as_u64)
    }

    /// The change per second, in bits instead of bytes. A missing earlier row counts as 0.
    fn rate(&self, row: &Value, before: Option<&Value>, seconds: f64) -> Option<f64> {
        let before = before.map_or(Some(0), |before| self.value(before));
        let difference = self.value(row)?.saturating_sub(before?);
        let scale = if self.2 == FigureKind::Bytes { 8.0 } else { 1.0 };
        Some(difference as f64 * scale / seconds)
    }
}

fn list<'a>(document: &'a Value, key: &str) -> &'a [Value] {
    document[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn key(row: &Value) -> [&Value; 6] {
    KEYS.map(|name| &row[name])
}

#[cfg(test)]
mod tests;
