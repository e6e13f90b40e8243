//! What came of metering, for Python.

use serde_json::{Value, json};
use wirelane::Error;
use wirelane::stats::QueueStats;
use wirelane_flow::MeterCounts;
use wirelane_flow::session::FlowCounts;

/// What came of it.
pub(super) struct Ended {
    pub(super) stats: Value,
    /// The first one first.
    pub(super) errors: Vec<Error>,
}

impl Ended {
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
