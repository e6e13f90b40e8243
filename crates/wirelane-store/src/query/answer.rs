//! Answers: packets in order of time, or their number.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use wirelane_pcap::Source;

use super::engine::FilterEngines;
use super::flows::ConversationSet;
use super::order::AnswerWindow;
use super::pace::ReadPace;
use super::pipeline::{self, PipelineWork, Taker};
use super::request::{Found, Query, Report};
use super::route::Atlas;
use super::sift::{Aim, QueryConditions, Sifted};
use super::sweep::Sweep;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::index::FlowId;
use crate::narrow::Plan;

/// Passes every matching packet to `sink`, in order of time over lanes, segments and stores.
/// Packets of the same time are ordered by store, by segment number, and by position in the file.
/// `sink` may stop the search.
///
/// The answer covers packets on disk at the start, and may include later ones; it does not wait for
/// them. It lacks segments that were deleted before they were opened ([`Report::deleted`]) and
/// damaged parts ([`Report::damage`]). Everything else is complete.
///
/// # Errors
/// The filter is wrong, there are too many conversations for [`Query::memory`], or the system
/// refuses.
pub fn run(
    stores: &[Directory],
    query: &Query,
    mut sink: impl FnMut(&Found<'_>) -> ControlFlow<()>,
) -> Result<Report> {
    hand_over(stores, query, &mut sink)
}

/// [`run`] without a type of its caller: so this crate contains the search, and optimises it.
fn hand_over(stores: &[Directory], query: &Query, sink: Sink<'_>) -> Result<Report> {
    let mut search = RunningSearch::new(stores, query)?;
    let Some(conditions) = search.conditions(Aim::Packets)? else { return search.report() };
    let memory = query.memory.max(Query::LEAST_MEMORY);
    let mut window = AnswerWindow::default();
    loop {
        let (packets, bytes) = (0, 0);
        let mut hand = Hand { sweep: Sweep::new(window, memory), sink: &mut *sink, packets, bytes };
        let flow = search.go(&conditions, &mut hand)?;
        let (packets, bytes, end) = (hand.packets, hand.bytes, hand.sweep.window().until);
        search.report.packets += packets;
        search.report.bytes += bytes;
        match end {
            Some(until) if flow.is_continue() => window = AnswerWindow { from: until, until: None },
            _ => return search.report(),
        }
    }
}

/// Counts the matching packets ([`Report::packets`]). Without a filter, extents that are wholly
/// within the query's times are counted by their headers, without reading them.
///
/// # Errors
/// The same as of [`run`].
pub fn count(stores: &[Directory], query: &Query) -> Result<Report> {
    let mut search = RunningSearch::new(stores, query)?;
    let Some(conditions) = search.conditions(Aim::Count)? else { return search.report() };
    let mut packets = 0;
    let _ = search.go(&conditions, &mut PacketCounter(&mut packets))?;
    search.report.packets += packets;
    search.report()
}

/// A running query.
struct RunningSearch<'a> {
    query: &'a Query,
    atlas: Atlas<'a>,
    pace: ReadPace,
    report: Report,
}

impl<'a> RunningSearch<'a> {
    fn new(stores: &'a [Directory], query: &'a Query) -> Result<Self> {
        let atlas = Atlas::new(stores, FilterEngines::new(query.filter.as_ref()))?;
        let segments = atlas.places.len() as u64;
        let report = Report { segments, ..Report::default() };
        Ok(Self { query, atlas, pace: ReadPace::new(query.rate), report })
    }

    /// The conditions of the query. With [`Query::flows`], it first finds the conversations. `None`
    /// if the query was stopped.
    fn conditions(&mut self, aim: Aim) -> Result<Option<QueryConditions>> {
        let (from, to) = (self.query.from, self.query.to);
        let keys = self.query.keys.as_ref().map(|keys| Arc::new(Plan::of_keys(keys)));
        let conditions = QueryConditions { aim, from, to, keys, flows: None };
        if !self.query.flows {
            return Ok(Some(conditions));
        }
        let mut flows = ConversationCollector { found: HashSet::new(), memory: self.query.memory };
        if self
            .go(&QueryConditions { aim: Aim::Flows, ..conditions.clone() }, &mut flows)?
            .is_break()
        {
            return Ok(None);
        }
        self.report.flows = flows.found.len() as u64;
        Ok(Some(QueryConditions {
            flows: Some(Arc::new(ConversationSet::new(flows.found))),
            ..conditions
        }))
    }

    fn go(
        &mut self,
        conditions: &QueryConditions,
        taker: &mut impl Taker,
    ) -> Result<ControlFlow<()>> {
        self.report.passes += u32::from(conditions.aim != Aim::Flows);
        let Self { query, atlas, pace, report } = self;
        let work = PipelineWork { threads: query.threads, cancel: &query.cancel, pace };
        let (opened, extents) = (report.opened, report.extents);
        (report.opened, report.extents) = (0, 0);
        let flow = pipeline::go(atlas, conditions, work, taker, report);
        // Each pass opens the same segments, or some of them.
        report.opened = report.opened.max(opened);
        report.extents = report.extents.max(extents);
        flow
    }

    fn report(mut self) -> Result<Report> {
        if self.atlas.sources.is_empty() {
            self.atlas.learn_sources()?;
        }
        let Atlas { sources, engines, .. } = self.atlas;
        Ok(Report { sources, unfiltered: engines.into_notes(), ..self.report })
    }
}

/// Takes a packet; it may end the query.
type Sink<'a> = &'a mut dyn FnMut(&Found<'_>) -> ControlFlow<()>;

/// Passes packets on in their order.
struct Hand<'a> {
    sweep: Sweep,
    sink: Sink<'a>,
    packets: u64,
    bytes: u64,
}

impl Taker for Hand<'_> {
    fn window(&self) -> AnswerWindow {
        self.sweep.window()
    }

    fn take(
        &mut self,
        sifted: Option<Sifted>,
        oldest: Option<u64>,
        sources: &[Source],
    ) -> Result<ControlFlow<()>> {
        if let Some(Sifted::Packets(run)) = sifted {
            self.sweep.add(run);
        }
        let Self { sweep, sink, packets, bytes } = self;
        Ok(sweep.emit(oldest, |record, block| {
            *packets += 1;
            *bytes += record.data.len() as u64;
            sink(&Found { record: *record, options: block.options(), sources })
        }))
    }
}

struct PacketCounter<'a>(&'a mut u64);

impl Taker for PacketCounter<'_> {
    fn window(&self) -> AnswerWindow {
        AnswerWindow::default()
    }

    fn take(
        &mut self,
        sifted: Option<Sifted>,
        _: Option<u64>,
        _: &[Source],
    ) -> Result<ControlFlow<()>> {
        if let Some(Sifted::Count(count)) = sifted {
            *self.0 += count;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Collects conversations.
struct ConversationCollector {
    found: HashSet<FlowId>,
    memory: usize,
}

impl Taker for ConversationCollector {
    fn window(&self) -> AnswerWindow {
        AnswerWindow::default()
    }

    fn take(
        &mut self,
        sifted: Option<Sifted>,
        _: Option<u64>,
        _: &[Source],
    ) -> Result<ControlFlow<()>> {
        if let Some(Sifted::Flows(flows)) = sifted {
            self.found.extend(flows);
        }
        if self.found.capacity() * (size_of::<FlowId>() + 1) > self.memory {
            let cause = format!("more than {} of them match", self.found.len());
            let error = Error::new("conversations", cause);
            return Err(error.help("narrow the expression or the time"));
        }
        Ok(ControlFlow::Continue(()))
    }
}
