//! Picks the packets that are asked for out of the blocks of an extent.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use wirelane_filter::Metadata;
use wirelane_pcap::Record;
use wirelane_pcap::pcapng::{self, Content};

use super::engine::Verdict;
use super::flows::Flows;
use super::order::{Key, Run, Window};
use crate::extent::{Extent, ExtentHeader};
use crate::index::FlowId;
use crate::narrow::Plan;

/// What one way through the stores is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// The packets themselves.
    Packets,
    /// The conversations that they belong to.
    Flows,
    /// How many there are.
    Count,
}

/// What came out of an extent.
#[derive(Debug)]
pub(super) enum Sifted {
    Packets(Run),
    Flows(HashSet<FlowId>),
    Count(u64),
}

/// Which packets are asked for.
#[derive(Clone, Debug)]
pub(super) struct Sieve {
    pub(super) aim: Aim,
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    /// What the keys of an extent have to fulfil.
    pub(super) keys: Option<Arc<Plan>>,
    /// Also those of these conversations, of any time.
    pub(super) flows: Option<Arc<Flows>>,
}

/// What is known of an interface of a segment.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) link_type: u16,
    pub(super) metadata: Metadata,
    pub(super) verdict: Verdict,
}

impl Sieve {
    /// Whether an extent may hold packets that are asked for, by its times.
    pub(super) fn may_include(&self, oldest: u64, newest: u64) -> bool {
        self.flows.is_some() || self.is_in_time(oldest, newest)
    }

    /// Whether some of these times are asked for.
    pub(super) fn is_in_time(&self, oldest: u64, newest: u64) -> bool {
        self.from.is_none_or(|from| from <= newest) && self.to.is_none_or(|to| oldest < to)
    }

    /// Whether the header of an extent says how many of its packets are asked for: all.
    pub(super) fn counts_unread(&self, header: &ExtentHeader, interfaces: &[Interface]) -> bool {
        self.aim == Aim::Count
            && self.keys.is_none()
            && self.includes(header.oldest)
            && self.includes(header.newest)
            && interfaces.iter().all(|interface| matches!(interface.verdict, Verdict::All))
    }

    /// The packets of an extent, given its blocks, that are asked for and in the window.
    ///
    /// # Errors
    /// What is wrong with the blocks.
    pub(super) fn sift(
        &self,
        blocks: &[u8],
        extent: &Extent,
        interfaces: &[Interface],
        mut run: Run,
        window: Window,
    ) -> Result<Sifted, Cow<'static, str>> {
        let (mut flows, mut count) = (HashSet::new(), 0);
        for block in pcapng::blocks(blocks) {
            let block = block
                .map_err(|bad| format!("at byte {} of its blocks: {}", bad.offset, bad.what))?;
            let Content::Packet { record, .. } = block.content else { continue };
            let Some(interface) = interfaces.get(record.interface as usize) else {
                return Err("a packet names an interface that was not described".into());
            };
            let time = record.timestamp;
            if time < extent.header.oldest || extent.header.newest < time {
                return Err("a packet is outside of the times of its extent".into());
            }
            if !self.wants(&record, interface) {
                continue;
            }
            match self.aim {
                Aim::Packets => {
                    let place = Key { time, block: block.offset as u32, ..run.start() };
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
    fn wants(&self, record: &Record<'_>, interface: &Interface) -> bool {
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
