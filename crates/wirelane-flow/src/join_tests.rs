use std::sync::Arc;

use wirelane_wire::{MacAddr, Tcp, packet};

use super::*;
use crate::flow::Half;
use crate::{Meter, Packet, Room};

const SECOND: u64 = 1_000_000_000;
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;
const FIN_ACK: TcpFlags = TcpFlags::FIN.with(TcpFlags::ACK);
const RST_ACK: TcpFlags = TcpFlags::RST.with(TcpFlags::ACK);

fn config() -> MeterConfig {
    let seconds = std::time::Duration::from_secs;
    MeterConfig { idle: seconds(10), active: seconds(60) }
}

/// A packet of one of two hosts.
#[derive(Clone, Debug)]
struct Sent {
    time: u64,
    port: u16,
    from_client: bool,
    /// TCP flags; `None` for UDP.
    flags: Option<TcpFlags>,
    /// The TCP sequence number and payload length.
    sequence: (u32, usize),
    queue: usize,
}

impl Sent {
    fn udp(queue: usize, time: u64, from_client: bool) -> Self {
        Self { time, port: 4000, from_client, flags: None, sequence: (0, 0), queue }
    }

    fn tcp(queue: usize, time: u64, from_client: bool, flags: TcpFlags) -> Self {
        Self { flags: Some(flags), ..Self::udp(queue, time, from_client) }
    }

    fn bytes(&self) -> Vec<u8> {
        let ends = [([10, 0, 0, 1], self.port, 64), ([10, 0, 0, 2], 80, 60)];
        let [from, to] = if self.from_client { ends } else { [ends[1], ends[0]] };
        let ip = packet::ethernet(MAC, MAC).ipv4(from.0.into(), to.0.into()).ttl(from.2);
        let (sequence, len) = self.sequence;
        let packet = match self.flags {
            Some(flags) => {
                let tcp = Tcp { flags, window: 9, sequence, ..Tcp::between(from.1, to.1) };
                ip.tcp(tcp, &[7; 100][..len])
            }
            None => ip.udp(from.1, to.1, b"payload"),
        };
        let mut frame = vec![0; 200];
        let len = packet.emit(&mut frame).unwrap();
        frame.truncate(len);
        frame
    }
}

/// The tables of some queues, and the records of their flows.
struct Bench {
    meters: Vec<Meter>,
    joiner: Joiner,
    flows: Vec<Flow>,
}

impl Bench {
    fn new(tables: usize) -> Self {
        Self::with(config(), tables)
    }

    fn with(config: MeterConfig, tables: usize) -> Self {
        let room = Arc::new(Room::new(usize::MAX));
        let table = |seed| {
            let mut meter = Meter::new(config, Arc::clone(&room), seed);
            meter.track(7);
            // Interface numbers differ between tables.
            for number in 0..seed {
                meter.interface(&number.to_string());
            }
            meter
        };
        let meters = (0..tables as u64).map(table).collect();
        Self { meters, joiner: Joiner::new(config, tables, usize::MAX), flows: Vec::new() }
    }

    fn push(&mut self, sent: &Sent) {
        self.pass(sent.time);
        self.put(sent);
        self.pass(sent.time);
    }

    /// Adds a packet without a report of its table.
    fn put(&mut self, sent: &Sent) {
        let meter = &mut self.meters[sent.queue];
        let interface = meter.interface("eth0");
        meter.push(&Packet {
            link_type: 1,
            data: &sent.bytes(),
            original_len: sent.bytes().len() as u32,
            time: sent.time,
            interface,
            // The queue of the packet, even if a file stores it.
            queue: sent.port,
        });
        meter.flush();
    }

    /// Advances all queues to this time without packets.
    fn pass(&mut self, time: u64) {
        for at in 0..self.meters.len() {
            let meter = &mut self.meters[at];
            meter.advance(time);
            let mut parts = TableReport { time, ..TableReport::default() };
            meter.take_parts(&mut parts);
            self.joiner.take(at, parts, &mut self.flows);
            let origins: Vec<_> = self.joiner.origins().collect();
            for (table, origin) in origins {
                self.meters[table].began(&origin);
            }
        }
    }

    fn end(mut self) -> Vec<Flow> {
        for at in 0..self.meters.len() {
            let meter = &mut self.meters[at];
            while meter.finish(3) {}
            let mut parts = TableReport { time: u64::MAX, ..TableReport::default() };
            meter.take_parts(&mut parts);
            self.joiner.take(at, parts, &mut self.flows);
        }
        self.joiner.finish(&mut self.flows);
        assert_eq!(self.joiner.held, 0);
        self.flows.iter_mut().for_each(Flow::settle);
        self.flows
    }
}

/// The flows of the same packets with several queues, and with one.
fn both(packets: &[Sent], tables: usize, config: MeterConfig) -> [Vec<Flow>; 2] {
    let mut bench = Bench::with(config, tables);
    packets.iter().for_each(|sent| bench.push(&Sent { queue: sent.queue % tables, ..*sent }));
    let mut flows = [bench.end(), alone(packets, config)];
    flows.iter_mut().for_each(|all| all.sort_by_key(|flow| (flow.start(), flow.community)));
    flows
}

/// The flows of one table.
fn alone(packets: &[Sent], config: MeterConfig) -> Vec<Flow> {
    let mut bench = Bench::with(config, 1);
    bench.meters = vec![Meter::new(config, Arc::new(Room::new(usize::MAX)), 7)];
    packets.iter().for_each(|sent| bench.put(&Sent { queue: 0, ..*sent }));
    let [mut meter] = <[Meter; 1]>::try_from(bench.meters).ok().unwrap();
    while meter.finish(3) {}
    let mut flows = Vec::new();
    meter.take(&mut flows);
    flows.iter_mut().for_each(Flow::settle);
    flows
}

#[track_caller]
fn check(packets: &[Sent], tables: usize) -> Vec<Flow> {
    let [ours, theirs] = both(packets, tables, config());
    assert_eq!(ours, theirs);
    ours
}

#[test]
fn the_sender_of_the_earliest_packet_is_the_source() {
    for queues in [[0, 1], [1, 0], [1, 1]] {
        let packets = [Sent::udp(queues[0], 5, true), Sent::udp(queues[1], 6, false)];
        let flows = check(&packets, 2);
        assert_eq!((flows.len(), flows[0].key.source_port, flows[0].forward.start), (1, 4000, 5));
    }
}

/// The queues of SYN, its answer, the ACK and a later ACK: the first ACK is not in the queue of
/// SYN.
#[test]
fn a_handshake_has_its_time_on_several_queues() {
    for [syn, answer, first, later] in [[0, 1, 2, 0], [0, 1, 1, 0], [0, 0, 1, 2], [2, 0, 1, 1]] {
        let mut bench = Bench::new(3);
        for sent in [
            Sent::tcp(syn, SECOND, true, SYN),
            Sent::tcp(answer, SECOND + 5, false, SYN.with(ACK)),
            Sent::tcp(first, SECOND + 9, true, ACK),
            Sent::tcp(later, SECOND + 20, true, ACK),
        ] {
            bench.push(&sent);
        }
        let flows = bench.end();
        assert_eq!(flows.len(), 1);
        assert_eq!(flows[0].handshake_rtt, Some(9), "{syn} {answer} {first} {later}");
    }
}

/// The packets of one queue end earlier than the packets of another.
#[test]
fn a_flow_of_a_table_that_ended_early_is_idle() {
    let mut bench = Bench::new(2);
    bench.put(&Sent::udp(0, SECOND, true));
    bench.put(&Sent { port: 5000, ..Sent::udp(1, 20 * SECOND, true) });
    let mut ends: Vec<_> =
        bench.end().iter().map(|flow| (flow.key.source_port, flow.end)).collect();
    ends.sort_by_key(|(port, _)| *port);
    assert_eq!(ends, [(4000, EndReason::Idle), (5000, EndReason::Forced)]);
}

#[test]
fn packets_that_are_metered_out_of_order_have_the_source_of_the_earliest() {
    let mut bench = Bench::new(1);
    // First every packet of one queue, then every packet of the other.
    [(9, false), (7, false), (8, true), (6, true)]
        .into_iter()
        .for_each(|(time, from_client)| bench.put(&Sent::udp(0, time, from_client)));
    let flows = bench.end();
    assert_eq!((flows.len(), flows[0].key.source_port, flows[0].start()), (1, 4000, 6));
    let mut bench = Bench::new(1);
    bench.put(&Sent::tcp(0, 9, false, RST_ACK));
    bench.put(&Sent::tcp(0, 8, true, SYN));
    let flows = bench.end();
    assert_eq!((flows.len(), flows[0].key.source_port, flows[0].packets()), (1, 4000, 2));
}

#[test]
fn a_one_way_flow_of_all_queues_is_one_record_soon_after_its_end() {
    let mut bench = Bench::new(4);
    (0..40).for_each(|at| bench.push(&Sent::udp(at % 4, SECOND + at as u64, true)));
    // No queue receives another packet.
    (2..11).for_each(|second| bench.pass(second * SECOND));
    assert!(bench.flows.is_empty());
    bench.pass(11 * SECOND + SECOND / 2);
    assert_eq!((bench.flows.len(), bench.flows[0].packets()), (1, 40));
    assert_eq!(bench.flows[0].end, EndReason::Idle);
    assert!(bench.joiner.conversations.is_empty());
}

#[test]
fn a_part_waits_for_one_that_goes_on_by_another_queue() {
    let mut packets = vec![Sent::udp(1, 5, true)];
    packets.extend((0..50).map(|second| Sent::udp(0, second * SECOND + 6, second % 3 == 0)));
    packets.push(Sent::udp(2, 50 * SECOND, true));
    assert_eq!(check(&packets, 3).len(), 1);
}

#[test]
fn records_of_a_long_flow_are_cut_at_the_same_times() {
    let packets: Vec<_> = (0..300)
        .map(|at| Sent::udp([0, 0, 1, 0, 2][at as usize % 5], at * SECOND / 2 + at, at % 2 == 0))
        .collect();
    let flows = check(&packets, 3);
    let told: Vec<_> = flows.iter().map(|flow| (flow.packets(), flow.end)).collect();
    let active = EndReason::Active;
    assert_eq!(told, [(120, active), (120, active), (60, EndReason::Forced)]);
}

#[test]
fn connections_with_the_same_ports_are_told_apart() {
    let begin = |time| {
        [
            Sent::tcp(0, time, true, SYN),
            Sent::tcp(1, time + 1, false, SYN.with(ACK)),
            Sent::tcp(0, time + 2, true, ACK),
            Sent::tcp(0, time + 3, true, FIN_ACK),
            Sent::tcp(1, time + 4, false, FIN_ACK),
            Sent::tcp(0, time + 5, true, ACK),
        ]
    };
    let packets = [begin(SECOND), begin(SECOND + 1000), begin(4 * SECOND)].concat();
    let flows = check(&packets, 2);
    let told: Vec<_> = flows.iter().map(|flow| (flow.packets(), flow.end)).collect();
    assert_eq!(told, [(6, EndReason::Ended); 3]);
}

#[test]
fn without_room_records_go_early_and_what_was_lost_waits_for_nobody() {
    let mut bench = Bench::new(2);
    bench.joiner.most = 1;
    for port in [1, 2, 3] {
        bench.push(&Sent { port, ..Sent::udp(0, SECOND, true) });
    }
    bench.pass(11 * SECOND + SECOND / 2);
    assert_eq!(bench.flows.len(), 3);
    // A flow was lost before the joiner: a later part becomes a separate record and is released.
    bench.push(&Sent::udp(0, 30 * SECOND, true));
    bench.push(&Sent::udp(1, 30 * SECOND, true));
    bench.meters[0].advance(41 * SECOND);
    let mut parts = TableReport { time: 41 * SECOND, ..TableReport::default() };
    bench.meters[0].take_parts(&mut parts);
    parts.lose_flows();
    bench.joiner.take(0, parts, &mut bench.flows);
    bench.pass(42 * SECOND);
    assert_eq!((bench.flows.len(), bench.joiner.conversations.len()), (4, 0));
}

/// A part of one packet at each of two times.
fn part(first: u64, last: u64) -> Flow {
    let forward = Half { packets: 2, start: first, end: last, ..Half::default() };
    Flow { forward, end: EndReason::Idle, ..Flow::default() }
}

/// One direction of a TCP connection.
fn half_of_tcp(start: u64, from_client: bool) -> Flow {
    let mut flow = part(start, start + 2);
    flow.key.protocol = wirelane_wire::Protocol::TCP;
    flow.key.source_port = if from_client { 4000 } else { 80 };
    flow.key.destination_port = if from_client { 80 } else { 4000 };
    flow.forward.tcp_flags = SYN.with(FIN_ACK);
    flow.end = EndReason::Ended;
    flow
}

/// A report of parts that have begun and ended since the last one.
fn report(time: u64, parts: impl IntoIterator<Item = (u64, Flow)>) -> TableReport {
    let mut report = TableReport { time, ..TableReport::default() };
    for (conversation, flow) in parts {
        report.begun.push(Begun { conversation, slot: 0, start: flow.start() });
        report.conversations.push(conversation);
        report.flows.push(flow);
    }
    report
}

/// A report of a part that has begun.
fn opens(time: u64, conversation: u64, start: u64) -> TableReport {
    TableReport {
        begun: vec![Begun { conversation, slot: 0, start }],
        time,
        ..TableReport::default()
    }
}

impl Joiner {
    /// Checks the counters against the contents, and the bound.
    #[track_caller]
    fn audit(&self) {
        let all = || self.conversations.values();
        assert!(self.held <= self.most);
        assert_eq!(self.held, all().map(Conversation::weight).sum::<usize>());
        assert_eq!(self.waiting.len(), all().filter(|known| known.weight() > 0).count());
        assert_eq!(self.due.len(), all().filter(|known| known.scheduled < u64::MAX).count());
        assert!(all().all(|known| !known.open.is_empty() || known.weight() > 0));
        assert!(all().all(|known| known.records.len() <= MOST_OF_ONE));
    }
}

#[test]
fn many_connections_with_the_same_ports_are_few_records_at_a_time() {
    const MANY: u64 = 20_000;
    let connection = |at: u64, from_client| (7, half_of_tcp(SECOND + at * 50_000, from_client));
    for step in [1, 250] {
        let mut joiner = Joiner::new(config(), 2, usize::MAX);
        let mut flows = Vec::new();
        for first in (0..MANY).step_by(step) {
            for (table, from_client) in [(0, true), (1, false)] {
                let parts = (first..first + step as u64).map(|at| connection(at, from_client));
                joiner.take(table, report(SECOND, parts), &mut flows);
                joiner.audit();
                assert!(joiner.conversations[&7].records.capacity() <= 4 * MOST_OF_ONE);
            }
        }
        joiner.finish(&mut flows);
        assert_eq!(flows.iter().map(Flow::packets).sum::<u64>(), 4 * MANY);
        if step == 1 {
            assert_eq!(flows.len() as u64, MANY);
        }
    }
    // Any number of lost parts releases its memory.
    let mut joiner = Joiner::new(config(), 2, usize::MAX);
    joiner.take(1, opens(SECOND, 7, SECOND), &mut Vec::new());
    let parts = (0..100_000).map(|at| connection(at, true));
    let mut parts = report(SECOND, parts);
    parts.lose_flows();
    joiner.take(0, parts, &mut Vec::new());
    assert_eq!(joiner.conversations[&7].open.len(), 1);
    assert!(joiner.conversations[&7].open.capacity() <= 8);
}

#[test]
fn without_room_the_oldest_records_go_first() {
    let mut joiner = Joiner::new(config(), 2, 4);
    let mut flows = Vec::new();
    let times = [5, 2, 8, 1, 7, 3, 6, 4];
    for time in times {
        // The other table also has a part of it.
        joiner.take(1, opens(0, time, time * SECOND), &mut flows);
    }
    let parts = times.map(|time| (time, part(time * SECOND, time * SECOND)));
    joiner.take(0, report(9 * SECOND, parts), &mut flows);
    joiner.audit();
    let told: Vec<_> = flows.iter().map(|flow| flow.last() / SECOND).collect();
    assert_eq!(told, [1, 2, 3, 4]);
    // Conversation 5 was the next to be released, but now has the newest packet.
    joiner.take(0, report(9 * SECOND, [(5, part(9 * SECOND, 9 * SECOND))]), &mut flows);
    joiner.take(0, report(9 * SECOND, [(9, part(9 * SECOND, 9 * SECOND))]), &mut flows);
    joiner.audit();
    assert_eq!((flows.len(), flows[4].last() / SECOND), (5, 6));
}

#[test]
fn what_goes_early_leaves_nothing_that_is_not_counted() {
    let mut joiner = Joiner::new(config(), 2, 10);
    let mut flows = Vec::new();
    for at in 0..5000 {
        // The other table never reports a later time.
        let time = SECOND + at * 1000;
        let parts = [(at, part(time, time)), (at / 7, part(time, time))];
        joiner.take(0, report(time, parts), &mut flows);
        joiner.audit();
        assert!(joiner.conversations.len() <= 10 && joiner.due.len() <= 10);
    }
    joiner.finish(&mut flows);
    assert_eq!(flows.iter().map(Flow::packets).sum::<u64>(), 20_000);
}

#[test]
fn previous_records_count_while_nothing_else_is_known() {
    let mut joiner = Joiner::new(config(), 1, 50);
    let mut flows = Vec::new();
    // The active timeout is over, and the idle timeout is not.
    let parts = (0..50).map(|at| (at, part(SECOND, 60 * SECOND + at)));
    joiner.take(0, report(62 * SECOND, parts), &mut flows);
    joiner.audit();
    assert_eq!((flows.len(), joiner.held, joiner.conversations.len()), (50, 50, 50));
    joiner.most = 5;
    joiner.take(0, report(62 * SECOND, []), &mut flows);
    joiner.audit();
    assert_eq!((flows.len(), joiner.held, joiner.conversations.len()), (50, 5, 5));
    // Continuing flows do not count until their parts are lost.
    for at in 45..50 {
        joiner.take(0, opens(62 * SECOND, at, 62 * SECOND), &mut flows);
    }
    joiner.audit();
    assert_eq!((joiner.held, joiner.conversations.len()), (0, 5));
    let anew = TableReport { begins_anew: true, time: 62 * SECOND, ..TableReport::default() };
    joiner.take(0, anew, &mut flows);
    joiner.audit();
    assert_eq!((joiner.held, joiner.conversations.len()), (5, 5));
    joiner.take(0, report(72 * SECOND, []), &mut flows);
    joiner.audit();
    assert_eq!((joiner.held, joiner.conversations.len()), (0, 0));
}

#[test]
fn without_room_there_is_progress_even_if_a_conversation_has_nothing_to_give() {
    for begins_anew in [false, true] {
        let mut joiner = Joiner::new(config(), 2, 1);
        let mut flows = Vec::new();
        // The second part is checked before all records, and cannot give up any.
        joiner.take(1, opens(0, 1, SECOND), &mut flows);
        joiner.take(0, opens(0, 1, SECOND), &mut flows);
        // After an overflow, parts end whose begin is unknown.
        let parts = [2, 3, 4].map(|at| (at, part(at * SECOND, at * SECOND)));
        let unknown = TableReport { begun: Vec::new(), begins_anew, ..report(4 * SECOND, parts) };
        joiner.take(1, unknown, &mut flows);
        joiner.audit();
        assert_eq!((flows.len(), joiner.held), (2, 1));
        // The remaining record does not wait for parts any longer.
        for table in [0, 1] {
            let lost = if table == 1 && begins_anew { Vec::new() } else { vec![1] };
            let parts = TableReport { lost, time: 20 * SECOND, ..TableReport::default() };
            joiner.take(table, parts, &mut flows);
            joiner.audit();
        }
        assert_eq!((flows.len(), joiner.conversations.len()), (3, 0));
    }
}

#[test]
fn a_check_that_is_brought_forward_leaves_no_other_behind() {
    let mut joiner = Joiner::new(config(), 2, usize::MAX);
    for at in 0..1000 {
        let time = SECOND + at * 1000;
        joiner.take(0, report(time, [(7, part(time, time))]), &mut Vec::new());
        joiner.take(1, report(time, [(7, part(time, time))]), &mut Vec::new());
        joiner.audit();
        assert_eq!((joiner.due.len(), joiner.waiting.len(), joiner.held), (1, 1, 1));
    }
}

#[test]
fn a_connection_that_uses_ports_again_does_not_continue_one_that_is_half_seen() {
    let one = |queue, time, from_client| {
        [SYN, ACK, FIN_ACK]
            .into_iter()
            .enumerate()
            .map(move |(at, flags)| Sent::tcp(queue, time + at as u64, from_client, flags))
    };
    for (queue, from_client) in [(0, true), (1, true), (1, false)] {
        let mut bench = Bench::new(2);
        one(0, SECOND, true).for_each(|sent| bench.push(&sent));
        one(queue, 3 * SECOND, from_client).for_each(|sent| bench.push(&sent));
        (4..16).for_each(|second| bench.pass(second * SECOND));
        let flows = bench.end();
        let told: Vec<_> = flows.iter().map(|flow| (flow.key.source_port, flow.end)).collect();
        let second = if from_client { 4000 } else { 80 };
        let ended = EndReason::Ended;
        assert_eq!(told, [(4000, ended), (second, ended)], "{queue} {from_client}");
    }
    // Another queue receives the first answer; no queue receives the end of the answers.
    let mut bench = Bench::new(3);
    bench.push(&Sent::tcp(0, SECOND, true, SYN));
    bench.push(&Sent::tcp(1, SECOND + 1, false, SYN.with(ACK)));
    bench.push(&Sent::tcp(0, SECOND + 2, true, FIN_ACK));
    one(2, 3 * SECOND, false).for_each(|sent| bench.push(&sent));
    (4..16).for_each(|second| bench.pass(second * SECOND));
    let flows = bench.end();
    let told: Vec<_> = flows.iter().map(|flow| (flow.key.source_port, flow.packets())).collect();
    assert_eq!(told, [(4000, 3), (80, 3)]);
    assert!(flows.iter().all(|flow| flow.end != EndReason::Active), "{flows:?}");
}

#[path = "join_sequence_tests.rs"]
mod sequence;

mod property {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The distribution of packets over queues does not change the flows. A part that begins
        /// just before an active timeout may end after it; this test avoids that case.
        #[test]
        fn flows_do_not_depend_on_the_queues(
            packets in prop::collection::vec(
                (1_u64..12_000_000_000, 0_u16..3, any::<bool>(), 0_usize..4),
                1..120,
            ),
            tables in 2_usize..5,
            speed in 1_u64..5,
            is_lasting: bool,
        ) {
            let mut time = SECOND;
            let packets: Vec<_> = packets.into_iter().map(|(pause, port, from_client, queue)| {
                let pause = pause / speed.pow(3);
                time += if is_lasting { pause } else { pause.max(LAG * 2) };
                Sent { port, ..Sent::udp(queue, time, from_client) }
            }).collect();
            let lasting = MeterConfig { active: std::time::Duration::from_secs(9999), ..config() };
            let config = if is_lasting { lasting } else { config() };
            let [mut ours, mut theirs] = both(&packets, tables, config);
            // The time at which a table checks decides whether it notices in time that a flow is
            // silent.
            let all = ours.iter_mut().chain(&mut theirs);
            all.for_each(|flow| flow.end = EndReason::Forced);
            prop_assert_eq!(ours, theirs);
        }

        /// Tables may report anything: the joiner holds a bounded number of records and loses no
        /// packet.
        #[test]
        fn what_is_held_is_bounded(
            reports in prop::collection::vec(
                (0_usize..3, 0..6, 0_u64..5, 0..4 * SECOND, 0..15 * SECOND, any::<bool>()),
                1..200,
            ),
            most in 0_usize..6,
        ) {
            let mut joiner = Joiner::new(config(), 3, most);
            let (mut flows, mut packets, mut now) = (Vec::new(), 0, SECOND * 20);
            for (table, kind, conversation, pause, age, is_tcp) in reports {
                now += pause;
                let start = now - age;
                let mut parts = match kind {
                    0 | 1 => opens(now, conversation, start),
                    2 => {
                        let lost = vec![conversation];
                        TableReport { lost, time: now, ..TableReport::default() }
                    }
                    _ if is_tcp => report(now, [(conversation, half_of_tcp(start, age % 2 == 0))]),
                    _ => report(now, [(conversation, part(start, now))]),
                };
                if kind > 3 {
                    // The part began in an earlier report, or that report was lost.
                    parts.begun.clear();
                }
                parts.begins_anew = kind == 5 && age % 4 == 0;
                packets += parts.flows.iter().map(Flow::packets).sum::<u64>();
                joiner.take(table, parts, &mut flows);
                joiner.audit();
            }
            for table in 0..3 {
                let time = u64::MAX;
                let end = TableReport { time, begins_anew: true, ..TableReport::default() };
                joiner.take(table, end, &mut flows);
            }
            joiner.audit();
            prop_assert!(joiner.conversations.is_empty());
            prop_assert_eq!(flows.iter().map(Flow::packets).sum::<u64>(), packets);
        }

        /// Each direction of TCP has its queue.
        #[test]
        fn halves_of_connections_are_joined(
            pauses in prop::collection::vec(1_u64..900_000_000, 5..20),
            queues in prop::array::uniform2(0_usize..3),
            is_reset: bool,
        ) {
            let mut time = SECOND;
            let last = pauses.len() - 1;
            let packets: Vec<_> = pauses.iter().enumerate().map(|(at, pause)| {
                time += pause;
                let from_client = at % 2 == 0;
                let flags = match at {
                    0 => SYN,
                    1 => SYN.with(ACK),
                    _ if at == last && is_reset => RST_ACK,
                    _ if at + 1 >= last && !is_reset => FIN_ACK,
                    _ => ACK,
                };
                Sent::tcp(queues[usize::from(from_client)], time, from_client, flags)
            }).collect();
            let [ours, theirs] = both(&packets, 3, config());
            prop_assert_eq!(ours, theirs);
        }
    }
}
