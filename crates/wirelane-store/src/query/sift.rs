//! Selects the matching packets from the blocks of an extent.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use wirelane_filter::Metadata;
use wirelane_pcap::Record;
use wirelane_pcap::pcapng::{self, Content};

use super::engine::LinkFilter;
use super::flows::ConversationSet;
use super::order::{AnswerRun, AnswerWindow, PacketPosition};
use crate::extent::{Extent, ExtentHeader};
use crate::index::FlowId;
use crate::narrow::Plan;

/// The purpose of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// The packets themselves.
    Packets,
    /// The conversations that they belong to.
    Flows,
    /// The number of packets.
    Count,
}

/// The result of an extent.
#[derive(Debug)]
pub(super) enum Sifted {
    Packets(AnswerRun),
    Flows(HashSet<FlowId>),
    Count(u64),
}

/// The conditions of a query.
#[derive(Clone, Debug)]
pub(super) struct QueryConditions {
    pub(super) aim: Aim,
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    /// The condition on the keys of an extent.
    pub(super) keys: Option<Arc<Plan>>,
    /// Also packets of these conversations, at any time.
    pub(super) flows: Option<Arc<ConversationSet>>,
}

/// The properties of a segment's interface.
#[derive(Clone, Debug)]
pub(super) struct SegmentInterface {
    pub(super) link_type: u16,
    pub(super) metadata: Metadata,
    pub(super) verdict: LinkFilter,
}

impl QueryConditions {
    /// Whether an extent with these times may hold matching packets.
    pub(super) fn may_include(&self, oldest: u64, newest: u64) -> bool {
        self.flows.is_some() || self.is_in_time(oldest, newest)
    }

    /// Whether the query's times overlap these times.
    pub(super) fn is_in_time(&self, oldest: u64, newest: u64) -> bool {
        self.from.is_none_or(|from| from <= newest) && self.to.is_none_or(|to| oldest < to)
    }

    /// Whether the header is enough to count an extent, because all its packets match.
    pub(super) fn counts_unread(
        &self,
        header: &ExtentHeader,
        interfaces: &[SegmentInterface],
    ) -> bool {
        self.aim == Aim::Count
            && self.keys.is_none()
            && self.includes(header.oldest)
            && self.includes(header.newest)
            && interfaces.iter().all(|interface| matches!(interface.verdict, LinkFilter::All))
    }

    /// The packets of an extent that match and are in the window, selected from its blocks.
    ///
    /// # Errors
    /// The error in the blocks.
    pub(super) fn sift(
        &self,
        blocks: &[u8],
        extent: &Extent,
        interfaces: &[SegmentInterface],
        mut run: AnswerRun,
        window: AnswerWindow,
    ) -> Result<Sifted, Cow<'static, str>> {
        let (mut flows, mut count) = (HashSet::new(), 0);
        for block in pcapng::blocks(blocks) {
            let block = block
                .map_err(|bad| format!("at byte {} of its blocks: {}", bad.offset, bad.what))?;
            let Content::Packet { record, .. } = block.content else { continue };
            let Some(interface) = interfaces.get(record.interface as usize) else {
                return Err("a packet refers to an unknown interface".into());
            };
            let time = record.timestamp;
            if time < extent.header.oldest || extent.header.newest < time {
                return Err("a packet is outside the times of its extent".into());
            }
            if !self.wants(&record, interface) {
                continue;
            }
            match self.aim {
                Aim::Packets => {
                    let place = PacketPosition { time, block: block.offset as u32, ..run.start() };
                    if window.includes(&place) {
                        run.push(time, &block);
                    }
                }
                Aim::Flows => flows.extend(FlowId::of(interface.link_type, record.data)),
                Aim::Count => count += 1,
            }
        }
        Ok(match self.aim {
            Aim::Packets => {
                run.sort();
                Sifted::Packets(run)
            }
            Aim::Flows => Sifted::Flows(flows),
            Aim::Count => Sifted::Count(count),
        })
    }

    #[inline]
    fn wants(&self, record: &Record<'_>, interface: &SegmentInterface) -> bool {
        if self.includes(record.timestamp) && interface.verdict.accepts(record, interface.metadata)
        {
            return true;
        }
        self.flows.as_ref().is_some_and(|flows| flows.have(interface.link_type, record.data))
    }

    #[inline]
    fn includes(&self, time: u64) -> bool {
        self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time < to)
    }
}
