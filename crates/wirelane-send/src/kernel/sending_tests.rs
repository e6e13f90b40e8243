//! Frames of the kernel engine through a veth pair.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with, sockopt,
};
use wirelane::port::{OpenOptions, open};
use wirelane_gen::sizes::Sizes;
use wirelane_gen::{Recipe, Signature};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::*;

const MS: Duration = Duration::from_millis(1);
const KEY: SignatureKey = SignatureKey(77);

/// A veth pair whose end `b` runs NAPI, and a socket that receives the frames there.
fn lab() -> (Namespace, Namespace, VethPair, OwnedFd) {
    let (a, b) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&a, &b, 1, 3000);
    pair.b.ethtool(&["-K", &pair.b.interface, "gro", "on"]);
    let socket = b.inside(|| {
        let all = Protocol::from_raw(std::num::NonZero::new(u32::from(3_u16.to_be())).unwrap());
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socket_with(AddressFamily::PACKET, SocketType::RAW, flags, Some(all)).unwrap()
    });
    sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).unwrap();
    (a, b, pair, socket)
}

fn stream(recipe: &str, sizes: Option<&str>, reserved: usize) -> Stream {
    let recipe: Recipe = recipe.parse().unwrap();
    let sizes = sizes.map(|sizes| sizes.parse::<Sizes>().unwrap());
    Stream::new("s", &recipe, sizes.as_ref(), reserved).unwrap()
}

/// Sends from the namespace of `pair.a` until the end.
fn send(
    pair: &VethPair,
    streams: &[Stream],
    key: Option<SignatureKey>,
    config: &SendConfig,
) -> SendOutcome {
    let spec = format!("packet:{}", pair.a.interface).parse().unwrap();
    let port = open(&spec, &OpenOptions::default().transmit(true)).unwrap();
    let kernel = start(port, streams, key, config).unwrap();
    assert!(kernel.wait(Duration::from_secs(60)));
    kernel.join()
}

/// Receives `count` frames, and any that arrive within 50 ms after them.
fn receive(socket: &OwnedFd, count: usize, is_ours: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let mut received = Vec::new();
    let mut buffer = vec![0; 10_000];
    let mut deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        if received.len() == count {
            // Waits a little for surplus frames.
            deadline = deadline.min(Instant::now() + 50 * MS);
        }
        match recv(socket, buffer.as_mut_slice(), RecvFlags::empty()) {
            Ok((_, length)) if is_ours(&buffer[..length]) => {
                received.push(buffer[..length].to_vec())
            }
            Ok(_) => {}
            Err(_) => thread::sleep(MS),
        }
    }
    received
}

/// The start of each recipe: addresses that identify its frames.
const ETHERNET: &str = "eth src=02:11:22:33:44:55 dst=02:66:77:88:99:aa";

fn is_ours(frame: &[u8]) -> bool {
    frame.get(6..12) == Some(&[2, 0x11, 0x22, 0x33, 0x44, 0x55])
}

#[test]
fn privileged_what_arrives_is_what_templates_write() {
    if !privileged::require() {
        return;
    }
    let (a, _b, pair, socket) = lab();
    let _inside = a.enter();
    for (recipe, sizes) in [
        ("ipv4 src=10.0.0.1-10.0.0.200 udp src=random dst=53,80,443", None),
        // The receiver's GRO lets TCP without payload overtake the rest.
        ("ipv6 dst=random tcp seq=random", None),
        ("ipv6 dst=random udp src=random", Some("imix")),
        ("mpls label=16-99 ipv4 udp payload fill=count", Some("100-1500@random")),
        ("ipv4 udp vxlan vni=1-1000 ipv4 src=10.0.0.0/16@random udp", Some("200,3000")),
    ] {
        let mut stream = stream(&format!("{ETHERNET} {recipe}"), sizes, 0);
        stream.count = Some(200);
        let outcome = send(&pair, &[stream.clone()], None, &SendConfig::default());
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        let bytes: usize = (0..200).map(|number| stream.lengths.at(number)).sum();
        assert_eq!((outcome.sent(), outcome.tx[0].bytes), (200, bytes as u64), "{recipe}");
        let received = receive(&socket, 200, is_ours);
        for (number, frame) in (0..).zip(&received) {
            let mut expected = vec![0; stream.lengths.at(number)];
            stream.template.write(number, &mut expected);
            assert_eq!(*frame, expected, "{recipe}, packet {number}");
        }
        assert_eq!(received.len(), 200, "{recipe}");
    }
}

#[test]
fn privileged_a_schedule_is_kept_and_packets_are_signed() {
    if !privileged::require() {
        return;
    }
    let (a, _b, pair, socket) = lab();
    let _inside = a.enter();
    for rate in [1000.0, 20_000.0] {
        let mut stream = stream(&format!("{ETHERNET} ipv4 udp"), Some("60"), signature::LEN);
        stream.rate = Rate::Packets(rate);
        let outcome =
            send(&pair, &[stream.clone()], Some(KEY), &SendConfig::default().packets(100));
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        assert_eq!((outcome.sent(), outcome.timing.packets), (100, 100));
        let interval = (1e9 / rate) as u64;
        assert_eq!(outcome.timing.scheduled, Some(Duration::from_nanos(99 * interval)));
        assert!(outcome.timing.error.is_some());
        let received = receive(&socket, 100, is_ours);
        let signatures: Vec<_> =
            received.iter().map(|frame| Signature::parse(KEY, frame).unwrap()).collect();
        assert!(signatures.iter().map(|signature| signature.sequence).eq(0..100));
        // Packets leave one by one, and never early.
        let time = |number: usize| signatures[number].time.wrapping_sub(signatures[0].time);
        let early = outcome.timing.error.unwrap().max.as_nanos() as u64 + 64;
        for number in 1..100 {
            assert!(time(number) + early >= number as u64 * interval, "{number}");
            assert!(time(number) - time(number - 1) >= interval * 7 / 8 - 1, "{number}");
        }
    }
}

#[test]
fn privileged_streams_take_turns_and_lanes_share() {
    if !privileged::require() {
        return;
    }
    let (a, _b, pair, socket) = lab();
    let _inside = a.enter();
    let streams = ["1", "2"]
        .map(|port| stream(&format!("{ETHERNET} ipv4 udp src={port}"), Some("60"), signature::LEN));
    let outcome = send(&pair, &streams, Some(KEY), &SendConfig::default().packets(200));
    assert_eq!(outcome.sent(), 200, "{:?}", outcome.errors);
    let received = receive(&socket, 200, is_ours);
    let of = |flow| {
        received
            .iter()
            .filter_map(|frame| Signature::parse(KEY, frame))
            .filter(move |s| s.flow == flow)
            .count()
    };
    assert!(of(0) > 0 && of(1) > 0 && of(0) + of(1) == 200, "{} {}", of(0), of(1));
}

#[test]
fn streams_share_a_number_of_packets_equally() {
    let of = |own: [Option<u64>; 3], most| {
        let streams = own.map(|count| stream("ipv4 udp", None, 0).count(count));
        counts(&streams, most)
    };
    assert_eq!(of([None, Some(7), None], None), [None, Some(7), None]);
    assert_eq!(of([None; 3], Some(11)), [4, 4, 3].map(Some));
    assert_eq!(of([None, Some(2), None], Some(11)), [5, 2, 4].map(Some));
    assert_eq!(of([Some(1), Some(2), Some(3)], Some(11)), [1, 2, 3].map(Some));
}

#[test]
fn privileged_drops_are_not_counted_as_sent() {
    if !privileged::require() {
        return;
    }
    let (a, b, pair, _socket) = lab();
    let stream = stream(&format!("{ETHERNET} ipv4 udp"), Some("60"), 0);
    let _inside = a.enter();
    // The receiver's ring overflows.
    let config = SendConfig::default().duration(300 * MS);
    let outcome = send(&pair, std::slice::from_ref(&stream), None, &config);
    let frames: u64 = outcome.sent() + outcome.tx[0].refused;
    let link = b.inside(|| wirelane_os::netdev::link(&pair.b.interface).unwrap());
    assert!(frames > 0 && link.tx_dropped.is_some());
    assert!(outcome.timing.packets == frames, "{} {frames}", outcome.timing.packets);

    // A peer without NAPI accepts no frames. `can` reports this before anything is sent.
    pair.b.ethtool(&["-K", &pair.b.interface, "gro", "off"]);
    let spec = format!("packet:{}", pair.a.interface).parse().unwrap();
    let port = open(&spec, &OpenOptions::default().transmit(true)).unwrap();
    let refusal = can(port.info(), std::slice::from_ref(&stream)).unwrap_err().to_string();
    assert!(refusal.contains("does not transmit frames of programs now"), "{refusal}");
    let error = start(port, &[stream], None, &config).err().unwrap().to_string();
    assert!(error.contains("the kernel cannot send this"), "{error}");
}

#[test]
fn privileged_an_interface_that_goes_down_or_loses_its_link_is_an_error() {
    if !privileged::require() {
        return;
    }
    let all = [Rate::Max, Rate::Packets(50_000.0)];
    for (rate, near) in all.into_iter().flat_map(|rate| [(rate, true), (rate, false)]) {
        let (a, b, pair, _socket) = lab();
        let _inside = a.enter();
        let mut stream = stream(&format!("{ETHERNET} ipv4 udp"), Some("60"), 0);
        stream.rate = rate;
        let spec = format!("packet:{}", pair.a.interface).parse().unwrap();
        let port = open(&spec, &OpenOptions::default().transmit(true)).unwrap();
        let config = SendConfig::default();
        let kernel = start(port, &[stream], None, &config).unwrap();
        while kernel.monitor().read().tx[0].packets == 0 {
            thread::sleep(MS);
        }
        let (end, there) = if near { (&pair.a, &a) } else { (&pair.b, &b) };
        there.inside(|| iface::down(&end.interface).unwrap());
        assert!(kernel.wait(Duration::from_secs(60)), "it ends by itself");
        let outcome = kernel.join();
        let said = outcome.errors[0].to_string();
        let words = if near { "the interface is down" } else { "the interface has no link" };
        assert!(said.starts_with(&format!("{}: {words}; ", pair.a.interface)), "{said}");
        // Packets on their way at that moment do not count as sent.
        let tx = &outcome.tx[0];
        assert!(tx.packets > 0 && tx.refused > 0, "{tx:?}");
        assert_eq!(tx.packets + tx.refused, outcome.timing.packets);
    }
}
