//! Publishes the counters of each live handle for `wirelane stats`, on one board per handle
//! ([`wirelane_os::board`]).
//!
//! A JSON text describes the counters once, with the place of each number. Then the thread that
//! reads packets stores the numbers. Updates need no extra thread or system call and work after the
//! program drops privileges; nothing remains after the process ends. Without a board (no descriptor
//! left, a limit) the program still works, but `wirelane stats` does not list it.

use std::sync::Arc;

use serde_json::{Value, json};
use wirelane::internal::session::counters;
use wirelane::internal::stats::{RxCounters, TxCounters};
use wirelane::port::{PortInfo, Rx};
use wirelane::stats::{QueueStats, TxStats};
use wirelane_os::board::Board;
use wirelane_os::clock;

/// The counters of a handle, for others.
pub(crate) struct Status {
    /// `None` without a board.
    board: Option<Board>,
    /// The name given to `pcap_create`.
    device: String,
    info: PortInfo,
    /// Monotonic time of opening.
    since: u64,
    /// The counters of each receiving end: several if it receives from several queues.
    rx: Vec<Vec<Arc<RxCounters>>>,
    /// The position of each end's first number, and then the end of the last.
    firsts: Vec<usize>,
    tx: Vec<Arc<TxCounters>>,
    /// `None` until `pcap_stats` has counted.
    totals: Option<StatTotals>,
}

/// The counters of `pcap_stats`, in 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatTotals {
    /// `ps_recv`
    pub(crate) received: u64,
    /// `ps_drop`
    pub(crate) dropped: u64,
    /// `ps_ifdrop`
    pub(crate) interface_dropped: u64,
}

impl Status {
    /// Publishes an open port; `rx` are all of its receiving ends.
    pub(crate) fn new<'a>(
        device: &str,
        info: &PortInfo,
        rx: impl IntoIterator<Item = &'a Rx>,
    ) -> Self {
        let rx: Vec<_> = rx.into_iter().map(counters).collect();
        let mut firsts = vec![0];
        for counters in &rx {
            firsts.push(firsts.last().unwrap_or(&0) + counters.len() * QUEUE.len());
        }
        let mut status = Self {
            board: None,
            device: device.to_owned(),
            info: info.clone(),
            since: clock::monotonic_ns(),
            rx,
            firsts,
            tx: Vec::new(),
            totals: None,
        };
        status.show();
        status
    }

    /// Adds a sending end, if it is new.
    pub(crate) fn sends(&mut self, tx: &Arc<TxCounters>) {
        if !self.tx.iter().any(|known| Arc::ptr_eq(known, tx)) {
            self.tx.push(Arc::clone(tx));
            self.show();
        }
    }

    /// Updates the numbers of the receiving end at this position.
    #[inline]
    pub(crate) fn received(&mut self, rx: usize) {
        if self.is_shown() {
            self.set_received(rx);
        }
    }

    /// Updates the numbers of sent packets.
    pub(crate) fn sent(&mut self) {
        if self.is_shown() {
            self.set_sent();
        }
    }

    /// Sets the totals that `pcap_stats` read.
    pub(crate) fn counted(&mut self, totals: StatTotals) {
        self.totals = Some(totals);
        if self.is_shown() {
            // The kernel's counters were read for them.
            (0..self.rx.len()).for_each(|rx| self.set_received(rx));
            self.set_totals();
        }
    }

    /// Whether this process has a board. A forked process makes a new one.
    #[inline]
    fn is_shown(&mut self) -> bool {
        match &self.board {
            Some(board) if board.is_inherited() => self.show(),
            _ => {}
        }
        self.board.is_some()
    }

    /// Makes the board, with the current numbers.
    fn show(&mut self) {
        let (document, places) = self.document();
        let text = json!({
            "schema": "wirelane.board/1",
            "version": env!("CARGO_PKG_VERSION"),
            "since_ns": self.since,
            "document": document,
            "numbers": places,
        });
        self.board = Board::new(&text.to_string(), places.len()).ok();
        (0..self.rx.len()).for_each(|rx| self.set_received(rx));
        self.set_sent();
        self.set_totals();
    }

    fn set_received(&mut self, rx: usize) {
        let Some(board) = &mut self.board else { return };
        let (Some(counters), Some(first)) = (self.rx.get(rx), self.firsts.get(rx)) else { return };
        for (row, counters) in counters.iter().enumerate() {
            let stats = counters.snapshot(0);
            let numbers = QUEUE.iter().map(|(_, number)| number(&stats).unwrap_or(u64::MAX));
            board.set(first + row * QUEUE.len(), numbers);
        }
    }

    fn set_sent(&mut self) {
        let first = self.firsts.last().copied().unwrap_or(0);
        let Some(board) = &mut self.board else { return };
        for (row, counters) in self.tx.iter().enumerate() {
            let stats = counters.snapshot(0);
            board.set(first + row * SENT.len(), SENT.iter().map(|(_, number)| number(&stats)));
        }
    }

    fn set_totals(&mut self) {
        let first = self.firsts.last().unwrap_or(&0) + self.tx.len() * SENT.len();
        let Some(board) = &mut self.board else { return };
        let number = |number: fn(&StatTotals) -> u64| self.totals.as_ref().map_or(u64::MAX, number);
        board.set(first, HANDLE.iter().map(|(_, of)| number(*of)));
    }

    /// The document, and for each number its place in it (a JSON pointer), in the order of the
    /// board.
    fn document(&self) -> (Value, Vec<String>) {
        let queues: Vec<_> =
            self.rx.iter().flatten().map(|counters| json!(counters.snapshot(0))).collect();
        let tx: Vec<_> = self.tx.iter().map(|counters| json!(counters.snapshot(0))).collect();
        let mut places = Vec::new();
        let mut add = |list: &str, rows: usize, names: &mut dyn Iterator<Item = &'static str>| {
            let names: Vec<_> = names.collect();
            for row in 0..rows {
                places.extend(names.iter().map(|name| format!("/{list}/{row}/{name}")));
            }
        };
        add("queues", queues.len(), &mut QUEUE.iter().map(|(name, _)| *name));
        add("tx", tx.len(), &mut SENT.iter().map(|(name, _)| *name));
        add("handles", 1, &mut HANDLE.iter().map(|(name, _)| *name));
        let device = &self.device;
        let handle = json!({ "port": 0, "device": device, "ps_recv": null, "ps_drop": null, "ps_ifdrop": null });
        let document = json!({
            "ports": [self.info],
            "queues": queues,
            "tx": tx,
            "handles": [handle],
        });
        (document, places)
    }
}

/// A number of a row: its place in the row, and how to read it; `None` if it is unknown.
type Number<T, N> = (&'static str, fn(&T) -> N);

const QUEUE: [Number<QueueStats, Option<u64>>; 10] = [
    ("received", |stats| stats.received),
    ("packets", |stats| Some(stats.packets)),
    ("bytes", |stats| stats.bytes),
    ("merged", |stats| Some(stats.merged)),
    ("filtered", |stats| stats.filtered),
    ("dropped/kernel", |stats| stats.dropped.kernel),
    ("dropped/ring_full", |stats| stats.dropped.ring_full),
    ("dropped/writer", |stats| stats.dropped.writer),
    ("dropped/bad_header", |stats| stats.dropped.bad_header),
    ("dropped/tx_full", |stats| stats.dropped.tx_full),
];

const SENT: [Number<TxStats, u64>; 9] = [
    ("packets", |stats| stats.packets),
    ("bytes", |stats| stats.bytes),
    ("errors", |stats| stats.errors),
    ("unfinished", |stats| stats.unfinished),
    ("wrong_length", |stats| stats.wrong_length),
    ("refused", |stats| stats.refused),
    ("unsent", |stats| stats.unsent),
    ("copied", |stats| stats.copied),
    ("stalls", |stats| stats.stalls),
];

const HANDLE: [Number<StatTotals, u64>; 3] = [
    ("ps_recv", |totals| totals.received),
    ("ps_drop", |totals| totals.dropped),
    ("ps_ifdrop", |totals| totals.interface_dropped),
];

#[cfg(test)]
mod tests {
    use super::*;
    use wirelane::frame::Batch;
    use wirelane::port::{self, OpenOptions};
    use wirelane_os::board;

    /// The documents of a device on this process's boards, with the numbers in place.
    fn shown(device: &str) -> Vec<Value> {
        let boards = board::of_process(std::process::id()).unwrap();
        let documents = boards.into_iter().map(|shown| {
            let text: Value = serde_json::from_str(&shown.text).unwrap();
            let mut document = text["document"].clone();
            let places = text["numbers"].as_array().unwrap();
            assert_eq!(places.len(), shown.numbers.len());
            for (place, number) in places.iter().zip(shown.numbers) {
                let number = (number != u64::MAX).then_some(number);
                *document.pointer_mut(place.as_str().unwrap()).unwrap() = json!(number);
            }
            document
        });
        documents.filter(|document| document["handles"][0]["device"] == device).collect()
    }

    /// After every batch the board has the counters' values in every queue.
    #[test]
    fn a_board_says_what_the_counters_do() {
        let spec = "sim:3?count=1000&flows=64".parse().unwrap();
        let mut port = port::open(&spec, &OpenOptions::default()).unwrap();
        let mut inputs = port.rx().unwrap();
        port.start().unwrap();
        let mut status = Status::new("counters", port.info(), &inputs);
        let mut batch = Batch::new(7);
        let mut total = 0;
        loop {
            let before = total;
            for (position, rx) in inputs.iter_mut().enumerate() {
                total += rx.receive(&mut batch);
                batch.clear();
                status.received(position);
                let seen = &shown("counters")[0]["queues"];
                let stats = rx.counters().snapshot(0);
                assert_eq!(seen[position], json!(stats));
            }
            if total == before {
                break;
            }
        }
        assert_eq!(total, 1000);
        status.counted(StatTotals { received: 1 << 33, dropped: 2, interface_dropped: 3 });
        let seen = shown("counters");
        let handle = json!({ "port": 0, "device": "counters", "ps_recv": 1_u64 << 33, "ps_drop": 2, "ps_ifdrop": 3 });
        assert_eq!((seen.len(), &seen[0]["handles"][0]), (1, &handle));
        assert_eq!(seen[0]["ports"][0]["spec"], "sim:3?count=1000&flows=64");
        drop(status);
        assert!(shown("counters").is_empty());
    }

    #[test]
    fn a_sending_end_is_added_once_and_nothing_is_lost() {
        let spec = "sim:1?count=10".parse().unwrap();
        let mut port = port::open(&spec, &OpenOptions::default()).unwrap();
        let inputs = port.rx().unwrap();
        let mut status = Status::new("sending", port.info(), &inputs);
        assert_eq!(shown("sending")[0]["handles"][0]["ps_recv"], Value::Null);
        status.counted(StatTotals { received: 5, ..StatTotals::default() });
        let counters = Arc::new(TxCounters::new(4));
        status.sends(&counters);
        counters.count(3, 180);
        status.sends(&counters);
        status.sent();
        let seen = shown("sending");
        assert_eq!((seen.len(), &seen[0]["tx"]), (1, &json!([counters.snapshot(0)])));
        assert_eq!(
            (&seen[0]["tx"][0]["packets"], &seen[0]["handles"][0]["ps_recv"]),
            (&json!(3), &json!(5))
        );
        // Positions without an end are ignored.
        status.received(1);
        status.received(usize::MAX);
    }
}
