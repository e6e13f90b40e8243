//! The JSON object of `wirelane ndr`, which the page shows, too.

use serde::Serialize;
use wirelane::port::PortInfo;
use wirelane_send::ndr::NdrReport;

/// The JSON object.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    pub(super) schema: &'static str,
    pub(super) version: &'static str,
    pub(super) command: String,
    pub(super) ports: Vec<ReceivingPort>,
    #[serde(flatten)]
    pub(super) report: &'a NdrReport,
}

impl<'a> Document<'a> {
    /// The results, and the ports that received the packets.
    pub(super) fn new(report: &'a NdrReport, ports: impl Iterator<Item = &'a PortInfo>) -> Self {
        let words: Vec<_> =
            std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        Self {
            schema: "wirelane.ndr/1",
            version: env!("CARGO_PKG_VERSION"),
            command: words.join(" "),
            ports: ports.map(ReceivingPort::of).collect(),
            report,
        }
    }
}

/// Where packets were received.
#[derive(Serialize)]
pub(super) struct ReceivingPort {
    pub(super) spec: String,
    pub(super) backend: &'static str,
    pub(super) mode: String,
    pub(super) interface: Option<String>,
    pub(super) queues: Vec<u16>,
    pub(super) notes: Vec<String>,
}

impl ReceivingPort {
    fn of(info: &PortInfo) -> Self {
        Self {
            spec: info.spec.clone(),
            backend: info.backend.as_str(),
            mode: info.mode.to_string(),
            interface: info.interface.clone(),
            queues: info.queues.clone(),
            notes: info.notes.clone(),
        }
    }
}
