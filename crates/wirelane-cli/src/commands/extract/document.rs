//! The answer as JSON.

use std::time::Duration;

use serde::Serialize;
use wirelane_store::Report;
use wirelane_store::query::Listed;

use super::arguments::{ExtractArgs, SearchArguments};
use super::list::SegmentEntry;
use super::text;
use crate::store_check::DamageEntry;
use crate::time_span;

#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    command: &'static str,
    version: &'static str,
    stores: Vec<String>,
    /// RFC 3339; `null` if not given.
    from: Option<String>,
    to: Option<String>,
    /// The expression; empty for all packets.
    filter: String,
    /// Where the packets are; `null` if they were only counted.
    output: Option<String>,
    packets: u64,
    /// Of the packets written.
    bytes: u64,
    elapsed_s: f64,
    segments: SegmentTotals,
    extents: Extents,
    /// Conversations that were followed.
    flows: u64,
    damage: Vec<DamageEntry>,
    /// Why the answer may be incomplete without a fault, in words.
    notes: Vec<String>,
    /// Whether a signal ended the search.
    stopped: bool,
    /// Where the answer may be, with --list.
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<Vec<SegmentEntry>>,
}

#[derive(Serialize)]
struct SegmentTotals {
    stored: u64,
    opened: u64,
    deleted: u64,
}

#[derive(Serialize)]
struct Extents {
    /// In the segments that were opened.
    stored: u64,
    read: u64,
    bytes_read: u64,
}

impl Document {
    pub(super) fn new(
        args: &ExtractArgs,
        asked: &SearchArguments,
        report: &Report,
        elapsed: Duration,
    ) -> Self {
        Self {
            schema: "wirelane.extract/1",
            command: "extract",
            version: env!("CARGO_PKG_VERSION"),
            stores: asked.paths.iter().map(|path| path.display().to_string()).collect(),
            from: asked.span.from.map(time_span::show),
            to: asked.span.to.map(time_span::show),
            filter: asked.expression.clone(),
            output: args.write.as_ref().map(|path| path.display().to_string()),
            packets: report.packets,
            bytes: report.bytes,
            elapsed_s: elapsed.as_secs_f64(),
            segments: SegmentTotals {
                stored: report.segments,
                opened: report.opened,
                deleted: report.deleted,
            },
            extents: Extents {
                stored: report.extents,
                read: report.extents_read,
                bytes_read: report.bytes_read,
            },
            flows: report.flows,
            damage: report.damage.iter().map(DamageEntry::from).collect(),
            notes: text::notes(report),
            stopped: report.stopped,
            list: None,
        }
    }

    /// Adds the segments that may hold matches.
    pub(super) fn with_list(mut self, listed: &[Listed]) -> Self {
        self.list = Some(listed.iter().map(SegmentEntry::new).collect());
        self
    }
}
