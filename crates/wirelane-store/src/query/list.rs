//! Lists segments that may hold matching packets, by names, headers and indexes.

use std::path::PathBuf;
use std::sync::Arc;

use wirelane_pcap::CancelSource;

use super::candidates::candidates;
use super::engine::FilterEngines;
use super::opened::StoreSegment;
use super::request::{Query, Report};
use super::route::{Atlas, merge};
use super::sift::{Aim, QueryConditions};
use crate::directory::Directory;
use crate::error::Result;
use crate::extent::ExtentHeader;
use crate::names::SegmentName;
use crate::narrow::Plan;

/// A segment that may hold matching packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its path.
    pub path: PathBuf,
    /// Its parsed name.
    pub name: SegmentName,
    /// Whether a pin protects it from deletion.
    pub is_pinned: bool,
    /// Whether an index was used to find the candidate extents; otherwise, only times were.
    pub is_indexed: bool,
    /// The number of its extents.
    pub extents: u64,
    /// The number of extents that may hold matching packets. The following fields refer to them.
    pub candidates: u64,
    /// Their packets, matching or not.
    pub packets: u64,
    /// Their bytes on disk.
    pub bytes: u64,
    /// Time of their oldest packet.
    pub oldest: u64,
    /// Time of their newest packet.
    pub newest: u64,
}

/// The segments that may hold matching packets, in the order of stores and numbers. It reads no
/// packets, and does not follow conversations.
///
/// # Errors
/// The filter is wrong, or the system refuses.
pub fn list(stores: &[Directory], query: &Query) -> Result<(Vec<Listed>, Report)> {
    let mut atlas = Atlas::new(stores, FilterEngines::new(query.filter.as_ref()))?;
    let mut report = Report { segments: atlas.places.len() as u64, ..Report::default() };
    let keys = query.keys.as_ref().map(|keys| Arc::new(Plan::of_keys(keys)));
    let conditions =
        QueryConditions { aim: Aim::Count, from: query.from, to: query.to, keys, flows: None };
    let mut listed = Vec::new();
    for rank in 0..atlas.places.len() as u32 {
        if query.cancel.is_asked() {
            report.stopped = true;
            break;
        }
        let Some(StoreSegment { name, is_pinned, .. }) = atlas.places.get(rank as usize).copied()
        else {
            break;
        };
        if name.times.is_some_and(|(oldest, newest)| !conditions.is_in_time(oldest, newest)) {
            continue;
        }
        let Some(opened) = atlas.open(rank)? else {
            report.deleted += 1;
            continue;
        };
        let segment = &opened.segment;
        report.opened += 1;
        report.extents += segment.extents().len() as u64;
        if !opened.is_growing {
            merge(&mut report.damage, segment.damage());
        }
        let (found, damage) = candidates(&opened, &conditions);
        merge(&mut report.damage, &damage);
        let headers = || found.iter().map(|extent| &extent.header);
        let (Some(oldest), Some(newest)) =
            (headers().map(|it| it.oldest).min(), headers().map(|it| it.newest).max())
        else {
            continue;
        };
        let compressed = segment.name().is_compressed();
        let bytes = |header: &ExtentHeader| header.extent_len(compressed) as u64;
        listed.push(Listed {
            path: segment.path().into(),
            name: *segment.name(),
            is_pinned,
            is_indexed: segment.index().is_some(),
            extents: segment.extents().len() as u64,
            candidates: found.len() as u64,
            packets: headers().map(|header| u64::from(header.packets)).sum(),
            bytes: headers().map(bytes).sum(),
            oldest,
            newest,
        });
    }
    report.unfiltered = atlas.engines.into_notes();
    Ok((listed, report))
}
