//! The conversations with the most bytes, as a table.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use wirelane::Result;
use wirelane_flow::{Flow, Key, Sink};

use crate::output::screen;
use crate::output::table::TextTable;
use crate::output::{self, scaled};

/// Conversations to keep in memory, independent of the number of rows.
const KEPT: usize = 10_000;

/// The conversations with the most bytes.
pub(super) struct Top {
    rows: usize,
    all: HashMap<[u8; 20], ConversationRow>,
    /// Conversations that were too small to be kept.
    forgotten: u64,
}

/// A conversation: the records of a long one together.
struct ConversationRow {
    flow: Flow,
    rtt: Option<u64>,
    start: u64,
    end: u64,
    packets: [u64; 2],
    octets: [u64; 2],
    retransmissions: u64,
}

impl ConversationRow {
    fn octets(&self) -> u64 {
        self.octets.iter().sum()
    }
}

impl Top {
    pub(super) fn new(rows: usize) -> Self {
        Self { rows, all: HashMap::new(), forgotten: 0 }
    }

    fn add(&mut self, flow: &Flow) {
        let row = self.all.entry(flow.community).or_insert_with(|| ConversationRow {
            flow: flow.clone(),
            rtt: None,
            start: u64::MAX,
            end: 0,
            packets: [0; 2],
            octets: [0; 2],
            retransmissions: 0,
        });
        let is_same_way = row.flow.key.source == flow.key.source
            && row.flow.key.source_port == flow.key.source_port;
        let (there, back) = match is_same_way {
            true => (&flow.forward, &flow.reverse),
            false => (&flow.reverse, &flow.forward),
        };
        for (at, half) in [there, back].into_iter().enumerate() {
            row.packets[at] += half.packets;
            row.octets[at] += half.octets;
            row.retransmissions += u64::from(half.retransmissions);
        }
        row.rtt = row.rtt.or(flow.handshake_rtt);
        (row.start, row.end) = (row.start.min(flow.start()), row.end.max(flow.last()));
        if self.all.len() > KEPT.max(self.rows.saturating_mul(2)) {
            self.forget();
        }
    }

    /// Keeps the larger half.
    fn forget(&mut self) {
        let mut sizes: Vec<_> = self.all.values().map(ConversationRow::octets).collect();
        let middle = sizes.len() / 2;
        let (_, least, _) = sizes.select_nth_unstable(middle);
        let (least, before) = (*least, self.all.len());
        let mut equal = before - middle;
        self.all.retain(|_, row| {
            let keeps = row.octets() > least || row.octets() == least && equal > 0;
            equal -= usize::from(keeps && row.octets() == least);
            keeps
        });
        self.forgotten += (before - self.all.len()) as u64;
    }

    /// Prints the table, as wide as the terminal allows.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn print(&self) -> Result<()> {
        let columns = screen::width_of_output().unwrap_or(usize::MAX);
        let table = (3..=COLUMNS.len()).rev().map(|count| self.table(count));
        let mut narrow = None;
        for table in table {
            let fits = table.width() <= columns;
            narrow = Some(table);
            if fits {
                break;
            }
        }
        let Some(table) = narrow.filter(|table| !table.is_empty()) else { return Ok(()) };
        let mut text = table.to_string();
        let shown = self.all.len().min(self.rows) as u64;
        let more = self.all.len() as u64 - shown + self.forgotten;
        if more > 0 {
            text += &format!("… and {} more (--top)\n", output::grouped(more));
        }
        output::print(&text)
    }

    fn table(&self, columns: usize) -> TextTable {
        let shown = COLUMNS.get(..columns).unwrap_or_default();
        let mut table = TextTable::new(&shown.iter().map(|column| column.0).collect::<Vec<_>>());
        let mut rows: Vec<_> = self.all.values().collect();
        rows.sort_by_key(|row| (Reverse(row.octets()), row.start));
        for row in rows.into_iter().take(self.rows) {
            table.row(shown.iter().map(|column| (column.1)(row)));
        }
        table
    }
}

/// A title, and the cell of a conversation.
type Column = (&'static str, fn(&ConversationRow) -> String);

/// The columns, the most important ones first.
const COLUMNS: [Column; 9] = [
    ("source", |row| end(&row.flow.key, true)),
    ("destination", |row| end(&row.flow.key, false)),
    ("bytes", |row| scaled(row.octets() as f64)),
    ("proto", |row| row.flow.key.protocol.to_string()),
    ("packets", |row| format!("{} / {}", row.packets[0], row.packets[1])),
    ("seconds", |row| format!("{:.1}", row.end.saturating_sub(row.start) as f64 / 1e9)),
    ("rtt", |row| row.rtt.map_or_else(|| "-".into(), |rtt| format!("{:.2} ms", rtt as f64 / 1e6))),
    ("sent again", |row| row.retransmissions.to_string()),
    ("on", |row| row.flow.interface.to_string()),
];

fn end(key: &Key, is_source: bool) -> String {
    let (address, port) = match is_source {
        true => (key.source, key.source_port),
        false => (key.destination, key.destination_port),
    };
    match key.protocol.has_ports() && (key.source_port, key.destination_port) != (0, 0) {
        true => SocketAddr::new(address, port).to_string(),
        false => address.to_string(),
    }
}

/// Puts flows into the table.
pub(super) struct TopSink(Arc<Mutex<Top>>);

impl TopSink {
    pub(super) fn new(top: &Arc<Mutex<Top>>) -> Self {
        Self(Arc::clone(top))
    }
}

impl Sink for TopSink {
    fn add(&mut self, flow: &Flow) -> Result<()> {
        if let Ok(mut top) = self.0.lock() {
            top.add(flow);
        }
        Ok(())
    }

    fn needs_ticks(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept() {
        let mut top = Top::new(3);
        let mut flow = Flow::default();
        for number in 0..25_000_u32 {
            flow.community[..4].copy_from_slice(&number.to_be_bytes());
            flow.forward.packets = 1;
            flow.forward.octets = u64::from(number % 7 + 1);
            top.add(&flow);
        }
        flow.forward.octets = 1 << 30;
        top.add(&flow);
        assert!(top.all.len() <= KEPT && top.forgotten as usize + top.all.len() == 25_000);
        let text = top.table(3).to_string();
        assert_eq!(text.lines().count(), 4);
        assert!(text.lines().nth(1).unwrap().contains("1.07 G"), "{text}");
    }
}
