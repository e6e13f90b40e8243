//! Halves of conversations that came by different queues, put together.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use wirelane_wire::Protocol;

use crate::flow::Flow;
use crate::key::TunnelKind;

/// What both halves share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Conversation {
    ends: [(IpAddr, u16); 2],
    protocol: Protocol,
    vlans: [Option<u16>; 2],
    tunnel: Option<(TunnelKind, [IpAddr; 2], u32)>,
    interface: Arc<str>,
}

impl Conversation {
    /// `None` for a flow that has no other half: its ICMP messages get no answer.
    fn of(flow: &Flow) -> Option<Self> {
        let key = &flow.key;
        let mut ends = [(key.source, key.source_port), (key.destination, key.destination_port)];
        if matches!(key.protocol, Protocol::ICMP | Protocol::ICMPV6) {
            let kind = u8::try_from(key.source_port).ok()?;
            let ([from, to], is_one_way) = crate::icmp::ports(key.protocol, kind, 0);
            if is_one_way {
                return None;
            }
            ends = [(key.source, from), (key.destination, to)];
        }
        ends.sort_unstable();
        let tunnel = key.tunnel.map(|tunnel| {
            let mut ends = [tunnel.source, tunnel.destination];
            ends.sort_unstable();
            (tunnel.kind, ends, tunnel.id)
        });
        let interface = Arc::clone(&flow.interface);
        let vlans = [key.vlan, key.inner_vlan];
        Some(Self { ends, protocol: key.protocol, vlans, tunnel, interface })
    }
}

/// Holds flows of which one direction was seen until the other comes, or cannot come any more.
pub(crate) struct Joiner {
    /// How long apart both halves may end, in ns: that of which packets come ends when it is silent.
    patience: u64,
    /// Most flows to hold.
    most: usize,
    halves: HashMap<Conversation, Vec<(u64, Flow)>>,
    /// In the order in which they came: their number, when they came, and where they are.
    order: VecDeque<(u64, u64, Conversation)>,
    next: u64,
    held: usize,
}

impl Joiner {
    pub(crate) fn new(patience: u64, most: usize) -> Self {
        let (halves, order) = (HashMap::new(), VecDeque::new());
        Self { patience, most, halves, order, next: 0, held: 0 }
    }

    /// Takes a flow; `out` gets what is complete. `now` is the time of packets, in ns.
    pub(crate) fn add(&mut self, flow: Flow, now: u64, out: &mut Vec<Flow>) {
        if flow.reverse.packets > 0 {
            out.push(flow);
            return;
        }
        let Some(conversation) = Conversation::of(&flow) else {
            out.push(flow);
            return;
        };
        let waiting = self.halves.entry(conversation.clone()).or_default();
        let is_other_half = |other: &Flow| {
            other.key.source == flow.key.destination
                && other.start() <= flow.last().saturating_add(self.patience)
                && flow.start() <= other.last().saturating_add(self.patience)
        };
        if let Some(at) = waiting.iter().position(|(_, other)| is_other_half(other)) {
            let (_, mut whole) = waiting.remove(at);
            if waiting.is_empty() {
                self.halves.remove(&conversation);
            }
            self.held -= 1;
            whole.join(flow);
            out.push(whole);
            return;
        }
        waiting.push((self.next, flow));
        self.order.push_back((self.next, now, conversation));
        self.next += 1;
        self.held += 1;
        if self.held > self.most {
            self.release(u64::MAX, 1, out);
        }
    }

    /// Lets go those whose other half will not come any more.
    pub(crate) fn tick(&mut self, now: u64, out: &mut Vec<Flow>) {
        self.release(now.saturating_sub(self.patience), usize::MAX, out);
    }

    /// Lets go all.
    pub(crate) fn finish(&mut self, out: &mut Vec<Flow>) {
        self.release(u64::MAX, usize::MAX, out);
    }

    /// Lets go at most so many that came before a time.
    fn release(&mut self, before: u64, most: usize, out: &mut Vec<Flow>) {
        let mut released = 0;
        while released < most {
            let Some((number, _, conversation)) =
                self.order.pop_front_if(|(_, came, _)| *came < before)
            else {
                return;
            };
            let Some(waiting) = self.halves.get_mut(&conversation) else { continue };
            // It may have found its other half long ago.
            let Some(at) = waiting.iter().position(|(other, _)| *other == number) else { continue };
            out.push(waiting.remove(at).1);
            if waiting.is_empty() {
                self.halves.remove(&conversation);
            }
            self.held -= 1;
            released += 1;
        }
    }
}
