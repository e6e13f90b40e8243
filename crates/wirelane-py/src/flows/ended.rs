//! The result of metering, for Python.

use serde_json::{Value, json};
use wirelane::Error;
use wirelane::stats::QueueStats;
use wirelane_flow::MeterCounts;
use wirelane_flow::session::FlowCounts;

/// The result of metering.
pub(super) struct MeteringResult {
    pub(super) stats: Value,
    /// In the order in which they occurred.
    pub(super) errors: Vec<Error>,
}

impl MeteringResult {
    pub(super) fn new(
        metered: &MeterCounts,
        flows: &FlowCounts,
        queues: &[QueueStats],
        notes: &[String],
        errors: Vec<Error>,
    ) -> Self {
        let stats = json!({
            "packets": metered.packets,
            "in_flows": flows.packets,
            "not_ip": metered.not_ip,
            "encrypted": metered.encrypted,
            "truncated": metered.truncated,
            "malformed": metered.malformed,
            "flows": flows.flows,
            "evicted": metered.evicted,
            "dropped_flows": flows.dropped + flows.refused,
            "queues": queues,
            "notes": notes,
        });
        Self { stats, errors }
    }
}
