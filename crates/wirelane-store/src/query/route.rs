//! The route through the stores: every extent that may hold matching packets, the oldest first.
//!
//! The names of segments contain their times, so a segment is opened when the route reaches it, and
//! closed after its last extent. Only segments that overlap in time are open at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use wirelane_pcap::Source;

use super::candidates::candidates;
use super::engine::{self, FilterEngines};
use super::opened::{ExtentRead, OpenedSegment, StoreSegment};
use super::order::AnswerWindow;
use super::request::{Damage, Report};
use super::segment::Segment;
use super::sift::{QueryConditions, SegmentInterface};
use crate::directory::{Directory, SegmentEntry};
use crate::error::Result;
use crate::extent::Extent;

/// The state that all routes of a query share.
pub(super) struct Atlas<'a> {
    pub(super) stores: &'a [Directory],
    /// All segments, by store and number: the rank of a segment is its index here.
    pub(super) places: Vec<StoreSegment>,
    pub(super) engines: FilterEngines<'a>,
    /// The store of each interface of the answer.
    origins: Vec<usize>,
    pub(super) sources: Vec<Source>,
}

impl<'a> Atlas<'a> {
    /// Lists the segments of the stores.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn new(stores: &'a [Directory], engines: FilterEngines<'a>) -> Result<Self> {
        let mut places = Vec::new();
        for (store, directory) in stores.iter().enumerate() {
            let segments = directory.segments()?;
            places.extend(segments.into_iter().map(|entry| {
                let SegmentEntry { name, is_pinned, .. } = entry;
                StoreSegment { store, name, is_pinned }
            }));
        }
        Ok(Self { stores, places, engines, origins: Vec::new(), sources: Vec::new() })
    }

    /// Opens the segment of this rank; `None` if it was deleted.
    pub(super) fn open(&mut self, rank: u32) -> Result<Option<OpenedSegment>> {
        let Some(StoreSegment { store, name, .. }) = self.places.get(rank as usize).copied() else {
            return Ok(None);
        };
        let Some(directory) = self.stores.get(store) else { return Ok(None) };
        let is_growing = name.is_part() && directory.is_recording()?;
        let Some(segment) = Segment::open(directory, &name)? else { return Ok(None) };
        let (mut interfaces, mut numbers) = (Vec::new(), Vec::new());
        for source in segment.sources() {
            let verdict = self.engines.verdict(source.link_type)?;
            let (link_type, metadata) = (source.link_type, engine::metadata(source));
            interfaces.push(SegmentInterface { link_type, metadata, verdict });
            numbers.push(self.number(store, source));
        }
        Ok(Some(OpenedSegment { segment, rank, interfaces, numbers: numbers.into(), is_growing }))
    }

    /// Reads the interfaces of each store's newest segment that has any.
    ///
    /// # Errors
    /// The system refuses, or the filter cannot be compiled.
    pub(super) fn learn_sources(&mut self) -> Result<()> {
        for store in 0..self.stores.len() {
            let ranks = (0..).zip(&self.places).filter(|(_, place)| place.store == store);
            let ranks: Vec<u32> = ranks.map(|(rank, _)| rank).collect();
            for rank in ranks.into_iter().rev() {
                if self.open(rank)?.is_some_and(|opened| !opened.interfaces.is_empty()) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The number of an interface in the answer. The segments of a store usually have the same
    /// ones.
    fn number(&mut self, store: usize, source: &Source) -> u32 {
        let mut known = self.sources.iter().zip(&self.origins);
        let at = known.position(|(known, origin)| known == source && *origin == store);
        let at = at.unwrap_or_else(|| {
            self.sources.push(source.clone());
            self.origins.push(store);
            self.sources.len() - 1
        });
        at as u32
    }
}

/// A route through the stores.
pub(super) struct StoreRoute<'a> {
    conditions: &'a QueryConditions,
    /// Unopened segments, the oldest last.
    closed: Vec<(u64, u32)>,
    /// The next extent of every open segment.
    heads: BinaryHeap<Reverse<(u64, u32, usize)>>,
    open: Vec<Option<Branch>>,
}

/// The remaining extents of an open segment.
struct Branch {
    opened: Arc<OpenedSegment>,
    /// The oldest last.
    extents: Vec<Extent>,
}

impl<'a> StoreRoute<'a> {
    /// The route for `conditions` and `window`.
    pub(super) fn new(
        atlas: &Atlas<'_>,
        conditions: &'a QueryConditions,
        window: AnswerWindow,
    ) -> Self {
        let mut closed: Vec<_> = (0..)
            .zip(&atlas.places)
            .filter_map(|(rank, place): (u32, &StoreSegment)| match place.name.times {
                Some((oldest, newest)) => (conditions.may_include(oldest, newest)
                    && window.from.time <= newest)
                    .then_some((oldest, rank)),
                // Its name has no times.
                None => Some((0, rank)),
            })
            .collect();
        closed.sort_unstable_by_key(|next| Reverse(*next));
        Self { conditions, closed, heads: BinaryHeap::new(), open: Vec::new() }
    }

    /// No packet of a later extent is older than this; `None` at the end.
    pub(super) fn oldest(&self) -> Option<u64> {
        let closed = self.closed.last().map(|(oldest, _)| *oldest);
        let open = self.heads.peek().map(|Reverse((oldest, ..))| *oldest);
        closed.into_iter().chain(open).min()
    }

    /// The next extent; `None` at the end, or if it is beyond the window.
    ///
    /// # Errors
    /// The system refuses, or the filter cannot be compiled.
    pub(super) fn next(
        &mut self,
        atlas: &mut Atlas<'_>,
        window: AnswerWindow,
        report: &mut Report,
    ) -> Result<Option<ExtentRead>> {
        let is_behind = |time| window.until.is_some_and(|until| until.time < time);
        loop {
            let head = self.heads.peek().map(|Reverse((oldest, ..))| *oldest);
            match self.closed.last() {
                Some((oldest, rank)) if head.is_none_or(|head| *oldest <= head) => {
                    if is_behind(*oldest) {
                        return Ok(None);
                    }
                    let rank = *rank;
                    self.closed.pop();
                    self.open(atlas, rank, window, report)?;
                }
                _ => break,
            }
        }
        let Some(Reverse((oldest, rank, at))) = self.heads.pop() else { return Ok(None) };
        if is_behind(oldest) {
            self.heads.push(Reverse((oldest, rank, at)));
            return Ok(None);
        }
        let Some(slot) = self.open.get_mut(at) else { return Ok(None) };
        let Some(branch) = slot else { return Ok(None) };
        let Some(extent) = branch.extents.pop() else { return Ok(None) };
        let stop = ExtentRead { opened: Arc::clone(&branch.opened), extent };
        match branch.extents.last() {
            Some(next) => self.heads.push(Reverse((next.header.oldest, rank, at))),
            None => *slot = None,
        }
        Ok(Some(stop))
    }

    fn open(
        &mut self,
        atlas: &mut Atlas<'_>,
        rank: u32,
        window: AnswerWindow,
        report: &mut Report,
    ) -> Result<()> {
        let Some(opened) = atlas.open(rank)? else {
            report.deleted += 1;
            return Ok(());
        };
        report.opened += 1;
        report.extents += opened.segment.extents().len() as u64;
        if !opened.is_growing {
            merge(&mut report.damage, opened.segment.damage());
        }
        let (mut extents, damage) = candidates(&opened, self.conditions);
        merge(&mut report.damage, &damage);
        extents.retain(|extent| window.from.time <= extent.header.newest);
        extents.sort_by_key(|extent| Reverse((extent.header.oldest, extent.offset)));
        let Some(next) = extents.last() else { return Ok(()) };
        // The order relies on the names of unopened segments.
        if opened.segment.name().times.is_some_and(|(oldest, _)| next.header.oldest < oldest) {
            let path = opened.segment.path().into();
            let what =
                "it has packets older than the time in its name: the order may be wrong".into();
            merge(&mut report.damage, &[Damage { path, offset: next.offset, what }]);
        }
        let at = self.open.iter().position(Option::is_none).unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.heads.push(Reverse((next.header.oldest, rank, at)));
        if let Some(slot) = self.open.get_mut(at) {
            *slot = Some(Branch { opened: Arc::new(opened), extents });
        }
        Ok(())
    }
}

/// Adds new damage: the stores may be read more than once.
pub(super) fn merge(all: &mut Vec<Damage>, more: &[Damage]) {
    for damage in more {
        if !all.contains(damage) {
            all.push(damage.clone());
        }
    }
}
