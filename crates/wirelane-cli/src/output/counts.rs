//! The results of `wirelane count`: as tables that fit the terminal, and as JSON.

use clap::ValueEnum;
use serde::Serialize;
use wirelane::internal::session::Reason;
use wirelane::session::count::{By, Counts, Endpoint, Key, Load, Row};

use super::table::TextTable;
use super::{counted, grouped};

/// The sort key of rows, descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowOrder {
    /// Many packets
    Packets,
    /// Many bytes
    Bytes,
}

/// A table, sorted.
#[derive(Serialize)]
pub(crate) struct TableView {
    by: &'static str,
    /// How many rows there are; not all may be shown.
    rows_total: usize,
    rows: Vec<RowView>,
    /// Packets that have no row, by reason.
    without: Vec<Without>,
    /// Packets whose row found no room.
    no_room: DirectionAmounts,
    #[serde(skip)]
    kind: By,
    #[serde(skip)]
    order: RowOrder,
    /// All packets, those without a row included. Of tables with directions, each one once.
    total: Amount,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Amount {
    packets: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Default, Serialize)]
struct DirectionAmounts {
    #[serde(flatten)]
    all: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    received: Option<Amount>,
}

#[derive(Serialize)]
struct RowView {
    key: String,
    #[serde(flatten)]
    parts: KeyParts,
    #[serde(flatten)]
    load: DirectionAmounts,
    /// Nanoseconds since 1970; `null` if the port keeps no time, or counts by itself.
    first_ns: Option<u64>,
    last_ns: Option<u64>,
}

/// The parts of a key.
#[derive(Serialize)]
#[serde(untagged)]
enum KeyParts {
    Proto { ethertype: u16, protocol: Option<u8> },
    Host { address: String },
    Port { port: u16, protocol: String },
    Queue {},
    Vlan { vlan: Option<u16>, inner_vlan: Option<u16> },
    Flow { source: EndpointCell, destination: EndpointCell, protocol: String },
}

#[derive(Serialize)]
struct EndpointCell {
    address: String,
    port: Option<u16>,
}

#[derive(Serialize)]
struct Without {
    reason: &'static str,
    #[serde(flatten)]
    load: Amount,
    #[serde(skip)]
    why: Reason,
}

impl TableView {
    /// The rows, the largest first; `most` of them, if there are more.
    pub(crate) fn new(counts: &mut Counts, order: RowOrder, most: usize) -> Self {
        counts.sort(order == RowOrder::Bytes, most);
        let by = counts.by;
        let without = |(why, load): &(Reason, Load)| Without {
            reason: why.as_str(),
            load: (*load).into(),
            why: *why,
        };
        let rows = counts.rows.iter().map(|row| row.sum);
        let placed = rows.chain([counts.unplaced]).fold(Load::default(), |mut all, sum| {
            // Count each packet once: by sender for hosts and ports, in both directions for flows.
            all += if matches!(by, By::Host | By::Port) { sum.sent } else { sum.all() };
            all
        });
        let total = counts.without.iter().fold(placed, |mut all, (_, load)| {
            all += *load;
            all
        });
        let row = |row: &Row| RowView::new(by, row);
        Self {
            by: by.as_str(),
            rows_total: counts.rows.len(),
            rows: counts.rows.iter().take(most).map(row).collect(),
            without: counts.without.iter().map(without).collect(),
            no_room: DirectionAmounts::new(by, &counts.unplaced),
            kind: by,
            order,
            total: total.into(),
        }
    }

    /// A table with as many columns as fit in `width`, followed by the packets without a row.
    pub(crate) fn text(&self, width: usize) -> String {
        let columns = [Columns::All, Columns::Packets, Columns::Sum, Columns::Least];
        let tables = columns.into_iter().map(|columns| self.table(columns));
        let mut fitting = tables.filter(|table| table.width() <= width);
        let table = fitting.next().unwrap_or_else(|| self.stacked());
        let mut text = table.to_string();
        let rest = self.rows_total.saturating_sub(self.rows.len());
        if rest > 0 {
            let rows = counted(rest as u64, "smaller row");
            text += &format!("and {rows} (--top 0 shows all)\n");
        }
        for Without { why, load, .. } in &self.without {
            text += &format!("{} {}\n", counted(load.packets, "packet"), reason(*why, self.kind));
        }
        if self.no_room.all.packets > 0 {
            let count = counted(self.no_room.all.packets, "packet");
            let each =
                if matches!(self.kind, By::Host | By::Port) { ", once for each end" } else { "" };
            text += &format!("{count} found no room in the table{each} (--max-rows)\n");
        }
        text
    }

    fn table(&self, columns: Columns) -> TextTable {
        let has_directions = self.kind.has_directions();
        let mut table = TextTable::figures(&columns.titles(self.by, has_directions));
        for row in &self.rows {
            let cells = columns.cells(&row.load, self.share(&row.load.all), has_directions);
            table.row([row.key.clone()].into_iter().chain(cells));
        }
        table
    }

    /// For long keys: flows with one end per line, and the traffic that this end sent.
    fn stacked(&self) -> TextTable {
        let mut table = TextTable::figures(&[self.by, "packets", "bytes"]);
        for row in &self.rows {
            let cells = |load: &Amount| [grouped(load.packets), grouped(load.bytes)];
            match (&row.parts, row.load.sent, row.load.received) {
                (KeyParts::Flow { source, destination, protocol }, Some(sent), Some(received)) => {
                    table.row([source.text()].into_iter().chain(cells(&sent)));
                    let other = format!(" <> {} {protocol}", destination.text());
                    table.row([other].into_iter().chain(cells(&received)));
                }
                _ => table.row([row.key.clone()].into_iter().chain(cells(&row.load.all))),
            }
        }
        table
    }

    /// The share of all packets or bytes.
    fn share(&self, load: &Amount) -> String {
        let (part, whole) = match self.order {
            RowOrder::Packets => (load.packets, self.total.packets),
            RowOrder::Bytes => (load.bytes, self.total.bytes),
        };
        format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
    }
}

/// The columns that are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Columns {
    All,
    /// Of each direction, only packets.
    Packets,
    /// No directions.
    Sum,
    Least,
}

impl Columns {
    fn titles(self, key: &'static str, has_directions: bool) -> Vec<&'static str> {
        let mut titles = vec![key, "packets", "bytes"];
        if self != Self::Least {
            titles.push("share");
        }
        match self {
            Self::All if has_directions => {
                titles.extend(["sent", "sent bytes", "received", "received bytes"]);
            }
            Self::Packets if has_directions => titles.extend(["sent", "received"]),
            _ => {}
        }
        titles
    }

    fn cells(self, load: &DirectionAmounts, share: String, has_directions: bool) -> Vec<String> {
        let mut cells = vec![grouped(load.all.packets), grouped(load.all.bytes)];
        if self != Self::Least {
            cells.push(share);
        }
        for direction in [load.sent, load.received].into_iter().flatten() {
            if has_directions && matches!(self, Self::All | Self::Packets) {
                cells.push(grouped(direction.packets));
            }
            if has_directions && self == Self::All {
                cells.push(grouped(direction.bytes));
            }
        }
        cells
    }
}

impl RowView {
    fn new(by: By, row: &Row) -> Self {
        let time = |time: u64| (time > 0).then_some(time);
        Self {
            key: row.key.to_string(),
            parts: KeyParts::of(&row.key),
            load: DirectionAmounts::new(by, &row.sum),
            first_ns: time(row.sum.first),
            last_ns: time(row.sum.last),
        }
    }
}

impl KeyParts {
    fn of(key: &Key) -> Self {
        match key {
            Key::Proto(ethertype, protocol) => {
                Self::Proto { ethertype: *ethertype, protocol: protocol.map(|protocol| protocol.0) }
            }
            Key::Host(address) => Self::Host { address: address.to_string() },
            Key::Port(port, protocol) => Self::Port { port: *port, protocol: protocol.to_string() },
            Key::Queue(_) => Self::Queue {},
            Key::Vlan([vlan, inner_vlan]) => Self::Vlan { vlan: *vlan, inner_vlan: *inner_vlan },
            Key::Flow(source, destination, protocol) => Self::Flow {
                source: EndpointCell::of(source),
                destination: EndpointCell::of(destination),
                protocol: protocol.to_string(),
            },
        }
    }
}

impl EndpointCell {
    fn of(end: &Endpoint) -> Self {
        Self { address: end.address.to_string(), port: end.port }
    }

    fn text(&self) -> String {
        match self.port {
            None => self.address.clone(),
            Some(port) if self.address.contains(':') => format!("[{}]:{port}", self.address),
            Some(port) => format!("{}:{port}", self.address),
        }
    }
}

impl DirectionAmounts {
    fn new(by: By, sum: &wirelane::session::count::Sum) -> Self {
        let of = |load: Load| by.has_directions().then(|| load.into());
        Self { all: sum.all().into(), sent: of(sum.sent), received: of(sum.received) }
    }
}

impl From<Load> for Amount {
    fn from(Load { packets, bytes }: Load) -> Self {
        Self { packets, bytes }
    }
}

/// Why packets have no row.
fn reason(reason: Reason, by: By) -> String {
    match reason {
        Reason::NotIp => "not IP".to_owned(),
        Reason::NoPorts => "without ports".to_owned(),
        Reason::Cut => format!("cut before their {by} is known"),
        Reason::Malformed => format!("malformed before their {by} is known"),
        Reason::UnknownLink => "of an unknown link type".to_owned(),
        Reason::Encrypted => "encrypted".to_owned(),
    }
}
