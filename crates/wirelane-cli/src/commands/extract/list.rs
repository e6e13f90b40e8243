//! `wirelane extract --list`: the segments that may hold matches, according to their indexes.

use std::path::Path;

use serde::Serialize;
use wirelane_store::query::Listed;

use crate::output::table::TextTable;
use crate::output::{grouped, sized};
use crate::time_span;

/// A segment, for JSON.
#[derive(Serialize)]
pub(super) struct SegmentEntry {
    path: String,
    /// Oldest and newest packet of the extents that may match, RFC 3339.
    from: String,
    to: String,
    extents: u64,
    candidates: u64,
    /// In these extents.
    packets: u64,
    bytes: u64,
    indexed: bool,
    pinned: bool,
    /// Whether it is being written, or its recorder was killed.
    unfinished: bool,
}

impl SegmentEntry {
    pub(super) fn new(listed: &Listed) -> Self {
        Self {
            path: listed.path.display().to_string(),
            from: time_span::show(listed.oldest),
            to: time_span::show(listed.newest),
            extents: listed.extents,
            candidates: listed.candidates,
            packets: listed.packets,
            bytes: listed.bytes,
            indexed: listed.is_indexed,
            pinned: listed.is_pinned,
            unfinished: listed.name.is_part(),
        }
    }
}

/// One line per segment.
pub(super) fn table(listed: &[Listed]) -> String {
    let head = ["from", "to", "packets", "bytes", "extents", "", "segment"];
    let mut table = TextTable::new(&head);
    for one in listed {
        let extents = match one.candidates == one.extents {
            true => grouped(one.extents),
            false => format!("{} of {}", grouped(one.candidates), grouped(one.extents)),
        };
        table.row([
            time_span::show_whole(one.oldest),
            time_span::show_whole(one.newest),
            grouped(one.packets),
            sized(one.bytes),
            extents,
            marks(one),
            name(&one.path),
        ]);
    }
    table.to_string()
}

fn marks(listed: &Listed) -> String {
    let marks = [
        (listed.is_pinned, "pinned"),
        (listed.name.is_part(), "unfinished"),
        (!listed.is_indexed && !listed.name.is_part(), "no index"),
    ];
    let marks: Vec<_> = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
    marks.join(", ")
}

fn name(path: &Path) -> String {
    path.display().to_string()
}
