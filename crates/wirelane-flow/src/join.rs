//! Halves of conversations that came by different queues, put together.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use wirelane_wire::{Protocol, TunnelKind};

use crate::flow::Flow;

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

/// Who sent all packets of a flow; `None` if both did.
fn sender(flow: &Flow) -> Option<(IpAddr, u16)> {
    let key = &flow.key;
    match (flow.forward.packets, flow.reverse.packets) {
        (_, 0) => Some((key.source, key.source_port)),
        // What it answers was not seen here.
        (0, _) => Some((key.destination, key.destination_port)),
        _ => None,
    }
}

/// Holds flows of which one direction was seen until the other comes, or cannot come any more.
pub(crate) struct Joiner {
    /// How long apart both halves may end, in ns: that of which packets come ends when it is
    /// silent.
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
        let Some(sender) = sender(&flow) else {
            out.push(flow);
            return;
        };
        let Some(conversation) = Conversation::of(&flow) else {
            out.push(flow);
            return;
        };
        let waiting = self.halves.entry(conversation.clone()).or_default();
        let is_other_half = |other: &Flow| {
            self::sender(other) != Some(sender)
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

#[cfg(test)]
mod tests {
    use wirelane_wire::TcpFlags;

    use super::*;
    use crate::flow::Half;

    const SYN_ACK: TcpFlags = TcpFlags::SYN.with(TcpFlags::ACK);

    /// What client and server sent, as two tables have it that saw nothing of each other.
    fn halves(start: u64) -> [Flow; 2] {
        let mut client = Flow::default();
        client.key.source = [10, 0, 0, 1].into();
        client.key.destination = [10, 0, 0, 2].into();
        (client.key.source_port, client.key.destination_port) = (4000, 80);
        client.key.protocol = Protocol::TCP;
        // Who answers a SYN did not begin: the table knows that.
        let mut server = client.clone();
        let half = |packets, start, tcp_flags| Half {
            packets,
            octets: packets * 40,
            start,
            end: start + 10,
            tcp_flags,
            min_ttl: 64,
            ..Half::default()
        };
        client.forward = half(3, start, TcpFlags::SYN.with(TcpFlags::ACK));
        client.handshake_rtt = Some(7);
        server.reverse = half(2, start + 1, SYN_ACK);
        [client, server]
    }

    #[test]
    fn halves_are_joined_whichever_comes_first() {
        for order in [[0, 1], [1, 0]] {
            let (mut joiner, mut out) = (Joiner::new(100, 10), Vec::new());
            for at in order {
                joiner.add(halves(1000)[at].clone(), 1000, &mut out);
            }
            let [flow] = &mut out[..] else { panic!("{out:?}") };
            flow.settle();
            assert_eq!((flow.key.source_port, flow.key.destination_port), (4000, 80));
            assert_eq!((flow.forward.packets, flow.reverse.packets), (3, 2));
            assert_eq!((flow.handshake_rtt, flow.start(), flow.last()), (Some(7), 1000, 1011));
            assert_eq!((joiner.held, joiner.halves.len()), (0, 0));
        }
    }

    #[test]
    fn halves_that_began_in_the_middle_are_joined() {
        let [client, mut server] = halves(1000);
        std::mem::swap(&mut server.forward, &mut server.reverse);
        std::mem::swap(&mut server.key.source, &mut server.key.destination);
        std::mem::swap(&mut server.key.source_port, &mut server.key.destination_port);
        let (mut joiner, mut out) = (Joiner::new(100, 10), Vec::new());
        joiner.add(server, 1000, &mut out);
        joiner.add(client, 1000, &mut out);
        assert_eq!((out.len(), out[0].key.source_port, out[0].forward.packets), (1, 4000, 3));
    }

    #[test]
    fn what_stays_alone_goes_after_a_while_or_for_lack_of_room() {
        let (mut joiner, mut out) = (Joiner::new(100, 2), Vec::new());
        let [client, _] = halves(1000);
        joiner.add(client.clone(), 1000, &mut out);
        joiner.tick(1100, &mut out);
        assert!(out.is_empty());
        joiner.tick(1101, &mut out);
        assert_eq!(out.len(), 1);
        // The same conversation much later is another flow; nothing is joined with itself.
        for start in [1000, 5000, 9000] {
            joiner.add(halves(start)[0].clone(), start, &mut out);
        }
        assert_eq!((out.len(), joiner.held), (2, 2));
        joiner.finish(&mut out);
        assert_eq!((out.len(), joiner.held), (4, 0));
        assert!(out.iter().all(|flow| flow.packets() == 3));
    }
}
