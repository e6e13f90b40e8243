//! VLAN tags in the metadata of a packet: a socket receives them in the packet, and the host as
//! usual.

use wirelane::filter::Filter;
use wirelane::internal::packet::PacketPort;
use wirelane::internal::port::{Forwarding, ProgramOptions};
use wirelane_os::bpf::{Insn, Link, Load, Program, ProgramType, Reg};
use wirelane_os::iface;
use wirelane_os::packet::PacketSocket;
use wirelane_os::xdp::wait_for_receivers;
use wirelane_testkit::privileged;

use super::*;

/// Priority 3, VLAN 7.
const TAG: [u8; 4] = [0x81, 0x00, 0x60, 0x07];

/// The host at the near end, which sends through its whole stack and can add tags.
struct Host<'a> {
    bench: &'a Bench,
    socket: PacketSocket,
    tagger: Option<(Program, Link)>,
}

impl<'a> Host<'a> {
    fn new(bench: &'a Bench) -> Self {
        let socket = bench.near.inside(|| {
            let socket = PacketSocket::open().unwrap();
            socket.bind(iface::index(&bench.pair.a.interface).unwrap(), 0).unwrap();
            socket
        });
        Self { bench, socket, tagger: None }
    }

    /// From now on packets have a tag in their metadata, as packets of a VLAN device do.
    fn tag(&mut self) {
        /// `BPF_FUNC_skb_vlan_push`, Linux 4.3.
        const SKB_VLAN_PUSH: i32 = 18;
        let tci = u16::from_be_bytes([TAG[2], TAG[3]]);
        let insns = [
            Insn::mov(Reg::R2, i32::from(u16::from_ne_bytes([TAG[0], TAG[1]]))),
            Insn::mov(Reg::R3, i32::from(tci)),
            Insn::call(SKB_VLAN_PUSH),
            Insn::mov(Reg::R0, 0),
            Insn::exit(),
        ];
        let program = Program::load(&Load::new(ProgramType::Traffic, "tagger", &insns)).unwrap();
        let interface = &self.bench.pair.a.interface;
        let link = self
            .bench
            .near
            .inside(|| Link::attach_egress(iface::index(interface).unwrap(), &program).unwrap());
        self.tagger = Some((program, link));
    }

    fn send(&self, frame: &[u8]) {
        assert_eq!(self.socket.send_frame(frame).unwrap(), frame.len());
    }

    /// Waits until all sent packets have arrived at the far end.
    fn settle(&self) {
        assert!(eventually(|| self.socket.outstanding().unwrap() == 0));
        wait_for_receivers();
    }
}

fn tagged(frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &TAG, &frame[12..]].concat()
}

fn bytes(got: &[Got]) -> Vec<Vec<u8>> {
    got.iter().map(|got| got.bytes.clone()).collect()
}

/// Sends packets without and with tags. Returns them, the packets that a port at the far end
/// received, and its notes.
fn exchange(mtu: u32, longest: usize, query: &str) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, Vec<String>) {
    stay();
    let bench = Bench::new(1, mtu);
    let mut host = Host::new(&bench);
    let mut receiver = bench.far(query, &receiving());
    let mut ends = receiver.rx().unwrap();
    receiver.start().unwrap();
    let frame = |n: u64| packets::udp4(n).length(60 + n as usize * (longest - 60) / 39).build();
    let mut sent = Vec::new();
    for n in 0..20 {
        host.send(&frame(n));
        sent.push(frame(n));
    }
    host.tag();
    for n in 20..40 {
        host.send(&frame(n));
        sent.push(tagged(&frame(n)));
    }
    let mut got = Vec::new();
    finish_after(&*receiver.control(), &mut ends, &mut got, sent.len());
    assert_conserved(&receiver);
    (sent, bytes(&got), receiver.info().notes.clone())
}

#[test]
fn privileged_a_tag_beside_the_packet_comes_back_into_it() {
    if !privileged::require() {
        return;
    }
    for (mtu, longest, kind) in [(1500, 1514, ""), (1500, 1514, "&tags=on"), (9000, 9014, "")] {
        let (sent, got, notes) = exchange(mtu, longest, &format!("?mode=native{kind}"));
        assert!(sent == got, "{mtu}{kind}: {} of {}", got.len(), sent.len());
        assert!(!notes.iter().any(|note| note.contains("tags")), "{notes:?}");
    }
}

#[test]
fn privileged_where_tags_are_lost_the_port_says_so() {
    if !privileged::require() {
        return;
    }
    for query in ["?mode=native&tags=off", "?mode=generic"] {
        let (sent, got, notes) = exchange(1500, 1514, query);
        let without: Vec<_> = sent[20..].iter().map(|f| [&f[..12], &f[16..]].concat()).collect();
        assert!(got[..20] == sent[..20] && got[20..] == without, "{query}");
        let said = |note: &String| note.contains("VLAN tags") && note.contains("txvlan off");
        assert!(notes.iter().any(said), "{query}: {notes:?}");
    }
    let bench = Bench::new(1, 1500);
    let spec = format!("xdp:{}?mode=generic&tags=on", bench.pair.b.interface);
    let error = open(&bench.far, &spec, &receiving()).err().unwrap();
    assert!(error.to_string().contains("tags=on"), "{error}");
    // If the sender inserts tags into the packets, every mode keeps them.
    bench.pair.a.ethtool(&["-K", &bench.pair.a.interface, "txvlan", "off"]);
    let mut host = Host::new(&bench);
    host.tag();
    let mut receiver = bench.far("?mode=generic", &receiving());
    let mut ends = receiver.rx().unwrap();
    receiver.start().unwrap();
    host.send(&packets::udp4(1).build());
    let mut got = Vec::new();
    finish_after(&*receiver.control(), &mut ends, &mut got, 1);
    assert_eq!(bytes(&got), [tagged(&packets::udp4(1).build())]);
}

#[test]
fn privileged_who_sends_packets_on_is_refused_a_port_that_loses_tags() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let name = &bench.pair.b.interface;
    let intact = ProgramOptions::default().forwarding(Forwarding::default().intact(true));
    let sender = sending().internal(intact.clone());
    let intact = receiving().internal(intact);
    let generic = format!("xdp:{name}?mode=generic");
    // The setting of this interface does not matter, because the other end decides.
    for rxvlan in ["on", "off"] {
        bench.pair.b.ethtool(&["-K", name, "rxvlan", rxvlan]);
        let error = open(&bench.far, &generic, &intact).err().unwrap().to_string();
        for part in [name.as_str(), "VLAN tags", "veth", "generic", "txvlan off", "tags=off"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
    // The next mode that keeps tags is accepted, and so is an explicit `tags=off`.
    let port = open(&bench.far, &format!("xdp:{name}"), &intact).unwrap();
    assert_eq!(port.info().mode, PortMode::Native);
    drop(port);
    open(&bench.far, &format!("{generic}&tags=off"), &intact).unwrap();
    open(&bench.far, &generic, &sender).unwrap();
}

#[test]
fn privileged_filters_see_tags_and_the_host_gets_its_packets_as_ever() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let mut host = Host::new(&bench);
    let filter: Filter = "vlan 7 and udp".parse().unwrap();
    for take_management in [false, true] {
        let options = OpenOptions::default()
            .filter(filter.clone())
            .take(Take::Matching.management(take_management));
        let mut taker = bench.far("?mode=native", &options);
        let spec: Spec = format!("packet:{}", bench.pair.b.interface).parse().unwrap();
        let watching = OpenOptions::default();
        let mut watcher = bench.far.inside(|| PacketPort::open(&spec, &watching)).unwrap();
        let (mut taken, mut seen) = (taker.rx().unwrap(), watcher.rx().unwrap());
        watcher.start().unwrap();
        taker.start().unwrap();
        host.tagger = None;
        let udp = |n: u64| packets::udp4(n).build();
        let tcp = |n: u64| packets::tcp4(n).build();
        host.send(&udp(1));
        host.tag();
        for n in 2..10 {
            host.send(&udp(n));
            host.send(&tcp(n));
        }
        host.settle();
        let got = finish(&*taker.control(), &mut taken);
        let expected: Vec<_> = (2..10).map(|n| tagged(&udp(n))).collect();
        assert_eq!(bytes(&got), expected);
        watcher.control().stop();
        let mut batch = Batch::new(64);
        let mut at_host = Vec::new();
        for rx in &mut seen {
            while !matches!(rx.readiness().unwrap(), Readiness::End) {
                rx.receive(&mut batch);
                at_host.extend(batch.iter().map(|frame| frame.data().to_vec()));
                batch.clear();
            }
        }
        let mut expected = vec![udp(1)];
        expected.extend((2..10).map(|n| tagged(&tcp(n))));
        assert_eq!(at_host, expected, "take_management: {take_management}");
    }
}
