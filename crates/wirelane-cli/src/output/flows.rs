//! The result of metering.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wirelane_flow::MeterCounts;
use wirelane_flow::ipfix::Sent;
use wirelane_flow::session::FlowCounts;

use super::{counted, grouped, line};

/// Counters of metered packets and of flows.
pub(crate) struct FlowFigures {
    pub(crate) metered: MeterCounts,
    pub(crate) flows: FlowCounts,
}

/// Of a summary: the sum of `packets`, `dropped_packets`, `refused_packets`, `not_ip`, `encrypted`,
/// `truncated` and `malformed` is the number of packets delivered.
#[derive(Serialize)]
pub(crate) struct FlowSummary {
    /// Exported flows, and the packets in them.
    exported: u64,
    packets: u64,
    /// Exported flows that were evicted to make room for others.
    evicted: u64,
    /// Flows for which the output was too slow, and the packets in them.
    dropped: u64,
    dropped_packets: u64,
    /// Flows that ended after the output had failed, and the packets in them.
    refused: u64,
    refused_packets: u64,
    not_ip: u64,
    encrypted: u64,
    truncated: u64,
    malformed: u64,
    /// Packets of tunnels that share a flow because there are too many tunnels.
    tunnels_not_told_apart: u64,
    /// The stores that were read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stores: Vec<String>,
    /// Collectors, and directories or stores of files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) exports: Vec<Export>,
}

/// The result of exporting flows or packets. `wirelane-query` reports it, too.
#[derive(Default, Deserialize, Serialize)]
pub(crate) struct Export {
    to: String,
    /// Exported flows or packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flows: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    packets: Option<u64>,
    /// Flows or packets that were lost.
    lost: u64,
    /// Of a collector: messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    messages: Option<u64>,
    /// Of a directory or store: files that are complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    bytes: u64,
    /// How often the collector or store failed.
    failures: u64,
    last_failure: Option<String>,
}

impl Export {
    pub(crate) fn of_collector(to: &str, sent: Sent) -> Self {
        Self {
            to: to.to_owned(),
            flows: Some(sent.flows),
            packets: None,
            lost: sent.lost,
            messages: Some(sent.messages),
            files: None,
            bytes: sent.octets,
            failures: sent.failures,
            last_failure: sent.last_failure,
        }
    }

    /// The result for `given` packets, as the program reported it in `told`. Packets that it did
    /// not report are lost.
    pub(crate) fn of_packets(to: &str, told: Option<Value>, given: Option<u64>) -> Self {
        let told = told.and_then(|told| serde_json::from_value::<Self>(told).ok());
        let mut export = told.unwrap_or_default();
        to.clone_into(&mut export.to);
        let rows = *export.packets.get_or_insert(0);
        export.lost = given.map_or(export.lost, |given| given.saturating_sub(rows));
        // A stream has none.
        export.files = export.files.filter(|files| *files > 0);
        export
    }

    /// Exported and lost packets.
    pub(super) fn all_packets(&self) -> u64 {
        self.packets.unwrap_or(0) + self.lost
    }

    fn print(&self) {
        let files = self.files.map_or(String::new(), |it| format!(" in {}", counted(it, "file")));
        let (rows, noun) = match (self.flows, self.packets) {
            (None, Some(packets)) => (packets, "packet"),
            (flows, _) => (flows.unwrap_or(0), "flow"),
        };
        let flows = counted(rows, noun);
        let bytes = grouped(self.bytes);
        let lost = match self.lost {
            0 => String::new(),
            lost => format!("; {} lost", counted(lost, noun)),
        };
        let away = match &self.last_failure {
            Some(cause) => format!("; {} ({cause})", counted(self.failures, "failure")),
            None => String::new(),
        };
        line(format_args!("→ {}: {flows}{files}, {bytes} bytes{lost}{away}", self.to));
    }
}

/// Rows of packets in a summary. Exported and lost packets add up to all delivered packets.
#[derive(Serialize)]
pub(crate) struct PacketSummary {
    /// The stores, or the file, that were read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sources: Vec<String>,
    exports: Vec<Export>,
}

impl PacketSummary {
    pub(super) fn new(sources: Vec<String>, export: Export) -> Self {
        Self { sources, exports: vec![export] }
    }

    pub(super) fn print(&self) {
        self.exports.iter().for_each(Export::print);
    }
}

impl FlowSummary {
    pub(super) fn new(figures: FlowFigures, stores: Vec<String>) -> Self {
        let FlowFigures { metered, flows } = figures;
        Self {
            exported: flows.flows,
            packets: flows.packets,
            evicted: metered.evicted,
            dropped: flows.dropped,
            dropped_packets: flows.dropped_packets,
            refused: flows.refused,
            refused_packets: flows.refused_packets,
            not_ip: metered.not_ip,
            encrypted: metered.encrypted,
            truncated: metered.truncated,
            malformed: metered.malformed,
            tunnels_not_told_apart: metered.tunnels_lost,
            stores,
            exports: Vec::new(),
        }
    }

    /// The flows, and how many packets are in them.
    pub(super) fn headline(&self) -> String {
        format!("{} of {}", counted(self.exported, "flow"), counted(self.packets, "packet"))
    }

    /// Prints exports, packets in no flow, and flows that were exported early, dropped or refused.
    pub(super) fn print(&self) {
        self.exports.iter().for_each(Export::print);
        let parts = [
            (self.not_ip, "not IP"),
            (self.encrypted, "encrypted"),
            (self.truncated, "cut before their ports"),
            (self.malformed, "with impossible headers"),
        ];
        let parts: Vec<_> = parts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", grouped(count)))
            .collect();
        if !parts.is_empty() {
            line(format_args!("packets in no flow: {}", parts.join(", ")));
        }
        if self.evicted > 0 {
            let flows = counted(self.evicted, "flow");
            line(format_args!("{flows} exported early for lack of room; try a larger --max-flows"));
        }
        if self.dropped > 0 {
            line(format_args!(
                "{} of {} dropped: the output was too slow",
                counted(self.dropped, "flow"),
                counted(self.dropped_packets, "packet")
            ));
        }
        if self.refused > 0 {
            line(format_args!(
                "{} of {} refused: the output had failed",
                counted(self.refused, "flow"),
                counted(self.refused_packets, "packet")
            ));
        }
        if self.tunnels_not_told_apart > 0 {
            let packets = counted(self.tunnels_not_told_apart, "packet");
            line(format_args!("{packets} of more than 65,535 tunnels count as outside of them"));
        }
    }
}
