//! Compares every sink with the kernel: the packets at its far end equal Linux's packets of the
//! same super-frame. Frames that fit arrive unchanged.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wirelane::Batch;
use wirelane::frame::{Gso, Offload};
use wirelane::internal::frame::Protocols;
use wirelane::internal::packet::PacketPort;
use wirelane::internal::port::{Forwarding, ProgramOptions, Switches, gso};
use wirelane::internal::segment::{SegmentCounters, Segmenter};
use wirelane::pcap::CaptureReader;
use wirelane::pool::{Pool, PoolConfig};
use wirelane::port::{self, OpenOptions, Port, Rx, Tx};
use wirelane_os::iface;
use wirelane_os::packet::PacketSocket;
use wirelane_os::tun::{Offload as TunOffload, Options, Tap};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::veth::VethPair;
use wirelane_wire::{EtherType, TcpFlags};

use super::frames::{Checksum, Frame};
use super::oracle::{Oracle, Random, bridge};

const PATIENCE: Duration = Duration::from_secs(20);
/// The number of frames for each sink.
const CASES: usize = 300;
const MTU: usize = 1500;
/// The number of datagrams per frame that every version of the kernel accepts (`UDP_MAX_SEGMENTS`).
const DATAGRAMS: usize = 64;

/// A frame and the expected packets.
struct Case {
    name: String,
    bytes: Vec<u8>,
    /// The length without a trailer.
    len: usize,
    offload: Offload,
    expected: Vec<Vec<u8>>,
}

/// The packets that the kernel makes of a frame. The frame is split if the kernel does not accept
/// it at once.
fn by_kernel(oracle: &Oracle, frame: &Frame) -> Vec<Vec<u8>> {
    let most = match frame.gso {
        Gso::Udp => DATAGRAMS * usize::from(frame.mss),
        _ => usize::MAX,
    };
    let mut packets = Vec::new();
    for (index, part) in frame.payload.chunks(most).enumerate() {
        let part = Frame {
            payload: part.to_vec(),
            id: frame.id.wrapping_add((index * DATAGRAMS) as u16),
            // The kernel segments only frames with partial checksums.
            checksum: Checksum::Partial,
            ..frame.clone()
        };
        let (bytes, offload) = part.build();
        // In a fragmented datagram the UDP header counts as payload.
        let header = if part.gso == Gso::UdpFragment { 8 } else { 0 };
        let offload = match header + part.payload.len() > part.mss.into() {
            true => offload,
            false => Offload { gso: Gso::None, size: 0, ..offload },
        };
        packets.extend(oracle.cut(&bytes, &offload, part.header_len()));
    }
    if frame.checksum == Checksum::None {
        // RFC 768: if a datagram has no checksum, its segments have none.
        let at = frame.header_len() - 2;
        packets.iter_mut().for_each(|packet| packet[at..at + 2].fill(0));
    }
    packets
}

/// A super-frame of 1 to 200 segments.
fn super_frame(random: &mut Random) -> Frame {
    let (gso, v6) = random.of(&[
        (Gso::Tcp4, false),
        (Gso::Tcp6, true),
        (Gso::Udp, false),
        (Gso::Udp, false),
        (Gso::Udp, true),
    ]);
    let mss = random.of(&[100, 300, 536, 1000, 1200, 1400]) + random.below(8);
    let segments = 1 + random.below((60_000 / mss).min(200));
    let payload = segments * mss - random.below(mss.min(99));
    let mut frame = Frame::new(gso, v6, payload, mss as u16);
    (frame.sequence, frame.id) = (random.next() as u32, random.next() as u16);
    frame.dont_fragment = random.chance(2);
    if random.chance(3) {
        frame.flags = frame.flags.with(TcpFlags::PSH);
    }
    if gso == Gso::Udp && !v6 && random.chance(2) {
        frame.checksum = Checksum::None;
    }
    frame
}

/// A packet of about the MTU, without an offload request.
fn about_the_mtu(random: &mut Random) -> Frame {
    let (gso, v6) = random.of(&[(Gso::Tcp4, false), (Gso::Tcp6, true), (Gso::Udp, false)]);
    let network = MTU - 4 + random.below(9);
    let headers = Frame::new(gso, v6, 0, 1).header_len() - 14;
    let mut frame = Frame::new(gso, v6, network - headers, (MTU - headers) as u16);
    (frame.sequence, frame.id) = (random.next() as u32, random.next() as u16);
    frame.checksum = Checksum::Complete;
    if gso == Gso::Udp && network > MTU {
        // A datagram can only be fragmented.
        frame.gso = Gso::UdpFragment;
        frame.mss = ((MTU - 20) / 8 * 8) as u16;
    }
    frame
}

fn case(random: &mut Random, oracle: &Oracle, index: usize) -> Case {
    let is_super = random.chance(2);
    let mut frame = if is_super { super_frame(random) } else { about_the_mtu(random) };
    frame.tags =
        random.of(&[vec![], vec![EtherType::VLAN], vec![EtherType::QINQ, EtherType::VLAN]]);
    let trailer = if random.chance(3) { 1 + random.below(60) } else { 0 };
    let (bytes, mut offload) = frame.build();
    let len = bytes.len();
    let network = len - 14 - 4 * frame.tags.len();
    let with_trailer = [&bytes[..], &vec![0xee; trailer]].concat();
    let expected = match () {
        () if is_super || network > MTU => by_kernel(oracle, &frame),
        // Padding and trailers remain if they fit.
        () if network + trailer <= MTU => vec![with_trailer.clone()],
        () => vec![bytes],
    };
    if !is_super {
        offload = Offload::default();
    }
    let shown = Frame { payload: vec![], ..frame.clone() };
    let name = format!("frame {index} with {} + {trailer}: {shown:?}", frame.payload.len());
    Case { name, bytes: with_trailer, len, offload, expected }
}

/// A sink and its far end.
struct Bed {
    tx: Tx,
    counters: Arc<SegmentCounters>,
    pool: Pool,
    far: Far,
    _port: Port,
    _namespaces: Vec<Namespace>,
}

enum Far {
    Device(MultiQueueTap),
    Bridge(Tap),
    Veth { ends: Vec<Rx>, _receiver: Box<PacketPort>, _pair: VethPair },
    File { path: PathBuf, _directory: tempfile::TempDir },
}

impl Bed {
    fn new(sink: &str) -> Self {
        let ns = Namespace::new();
        let open = |spec: &str| {
            let options = OpenOptions::default().receive(false).transmit(true).internal(
                ProgramOptions::default().forwarding(Forwarding::default().segments(true)),
            );
            ns.inside(|| port::open(&spec.parse().unwrap(), &options).unwrap())
        };
        let mut others = Vec::new();
        let (mut port, far) = match sink.split_once(':').unwrap() {
            ("tap", _) => {
                let port = open("tap:in");
                let output = ns.inside(|| Tap::open("out", 1, Options::default()).unwrap());
                output.set_offload(TunOffload::default()).unwrap();
                bridge(&ns);
                // A bridge forwards packets that exceed its MTU by one tag (`is_skb_forwardable`).
                ns.run("ip", ["link", "set", "out", "mtu", "1600"]);
                let mut far = Far::Bridge(output);
                far.drain();
                (port, far)
            }
            ("file", _) => {
                let directory = tempfile::tempdir().unwrap();
                let path = directory.path().join("sink.pcapng");
                (
                    open(&format!("file:{}", path.display())),
                    Far::File { path, _directory: directory },
                )
            }
            ("veth", options) => {
                let right = Namespace::new();
                let pair = VethPair::new(&ns, &right, 1, 1500);
                // A veth accepts packets that exceed its MTU by at most one tag
                // (`is_skb_forwardable`).
                right.run("ip", ["link", "set", &pair.b.interface, "mtu", "1600"]);
                for feature in ["tx", "tso", "gso"] {
                    pair.a.ethtool(&["-K", &pair.a.interface, feature, "off"]);
                }
                let port = open(&format!("packet:{}{options}", pair.a.interface));
                let spec = format!("packet:{}", pair.b.interface).parse().unwrap();
                let quick = OpenOptions::default().latency(Duration::from_millis(1));
                let mut receiver = right.inside(|| PacketPort::open(&spec, &quick).unwrap());
                let ends = receiver.rx().unwrap();
                receiver.start().unwrap();
                others.push(right);
                (port, Far::Veth { ends, _receiver: Box::new(receiver), _pair: pair })
            }
            (backend, options) => {
                let device = MultiQueueTap::new(&ns, "wl-far", 1);
                device.drain();
                (open(&format!("{backend}:wl-far{options}")), Far::Device(device))
            }
        };
        let segmenter = Segmenter::new(port.sink());
        let counters = Arc::clone(segmenter.counters());
        let switches = Arc::new(Switches::new(Protocols::ALL, None));
        let tx = gso::tx(port.tx().unwrap().pop().unwrap(), segmenter, switches);
        let config = PoolConfig { chunks: 8, chunk_size: 65_536, headroom: 128, numa_node: None };
        port.start().unwrap();
        others.push(ns);
        let pool = Pool::new(config).unwrap();
        Self { tx, counters, pool, far, _port: port, _namespaces: others }
    }

    /// Sends one frame, and waits until all of it is sent.
    fn send(&mut self, case: &Case) {
        let mut batch = Batch::new(1);
        assert_eq!(self.pool.take(&mut batch, 1), 1, "frames come back");
        let frame = &mut batch[0];
        assert!(frame.fill(&case.bytes) && frame.set_offload(case.offload));
        let deadline = Instant::now() + PATIENCE;
        while !batch.is_empty() || self.tx.pending() > 0 {
            assert!(Instant::now() < deadline, "{}: not sent", case.name);
            self.tx.transmit(&mut batch);
            self.tx.flush().unwrap();
        }
    }

    /// Waits until `count` packets have arrived, and returns all.
    fn arrived(&mut self, count: usize) -> Vec<Vec<u8>> {
        let deadline = Instant::now() + PATIENCE;
        let mut packets = self.far.drain();
        while packets.len() < count && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(200));
            packets.extend(self.far.drain());
        }
        packets
    }
}

impl Far {
    fn drain(&mut self) -> Vec<Vec<u8>> {
        match self {
            Self::Device(device) => device.drain().into_iter().map(|(_, frame)| frame).collect(),
            Self::Bridge(tap) => {
                let mut packets = Vec::new();
                let mut buffer = vec![0; 1 << 17];
                while let Ok(length) = tap.read(0, &mut buffer) {
                    packets.push(buffer[..length].to_vec());
                }
                packets
            }
            Self::Veth { ends, .. } => {
                let (mut packets, mut batch) = (Vec::new(), Batch::default());
                for rx in ends {
                    while rx.receive(&mut batch) > 0 {
                        packets.extend(batch.iter().map(|frame| frame.data().to_vec()));
                        batch.clear();
                    }
                }
                packets
            }
            Self::File { path, .. } => {
                let mut reader = CaptureReader::open(path).unwrap();
                let mut packets = Vec::new();
                while let Some(record) = reader.next_record().unwrap() {
                    packets.push(record.data.to_vec());
                }
                packets
            }
        }
    }
}

#[track_caller]
fn compare(name: &str, ours: &[Vec<u8>], theirs: &[Vec<u8>]) {
    let lengths = |packets: &[Vec<u8>]| packets.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(ours), lengths(theirs), "{name}");
    for (index, (our, their)) in ours.iter().zip(theirs).enumerate() {
        let differs = our.iter().zip(their).position(|(a, b)| a != b);
        assert!(our == their, "{name}: packet {index} differs at {differs:?}");
    }
}

/// Compares a sink with the kernel for frames without a checksum, with one or two tags, with
/// trailers, close to the MTU, and with 1 to 200 segments.
fn check(sink: &str, seed: u64) {
    if !privileged::require() {
        return;
    }
    let oracle = Oracle::new();
    let mut random = Random(seed);
    let mut bed = Bed::new(sink);
    // A file has no MTU, so frames that fit are not segmented.
    let is_file = sink.starts_with("file");
    let mut all = Vec::new();
    for index in 0..CASES {
        let mut case = case(&mut random, &oracle, index);
        if is_file && case.offload.gso == Gso::None {
            case.expected = vec![case.bytes.clone()];
        }
        bed.send(&case);
        if is_file {
            all.extend(case.expected);
            continue;
        }
        let mut arrived = bed.arrived(case.expected.len());
        if matches!(bed.far, Far::Bridge(_)) {
            // A bridge may remove trailers.
            let packets = arrived.iter_mut().chain(&mut case.expected);
            packets.for_each(|packet| packet.truncate(case.len));
        }
        compare(&format!("{sink}: {}", case.name), &arrived, &case.expected);
    }
    if is_file {
        compare(sink, &bed.arrived(all.len()), &all);
    }
    assert_eq!(bed.tx.counters().errors.value(), 0, "{:?}", bed.counters.snapshot());
}

#[test]
fn privileged_a_packet_port_sends_what_the_kernel_makes() {
    check("packet:?vnet=off", 11);
}

#[test]
fn privileged_a_packet_port_hands_on_what_the_kernel_cuts() {
    check("packet:?vnet=on", 12);
}

#[test]
fn privileged_a_packet_port_on_a_pair_sends_what_the_kernel_makes() {
    check("veth:?vnet=off", 13);
    check("veth:?vnet=on", 14);
}

#[test]
fn privileged_a_tap_device_gets_what_the_kernel_cuts() {
    check("tap:", 15);
}

#[test]
fn privileged_an_xdp_port_sends_what_the_kernel_makes() {
    check("xdp:", 16);
}

#[test]
fn privileged_a_file_gets_what_the_kernel_makes() {
    check("file:", 17);
}

/// A veth delivers super-frames unsegmented, with their offload requests. The port reinserts a tag
/// from the metadata, and offsets count it.
#[test]
fn privileged_super_frames_are_received_as_they_were_sent() {
    if !privileged::require() {
        return;
    }
    let (left, right) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&left, &right, 1, 1500);
    let quick = Some(Duration::from_millis(1));
    let intact = ProgramOptions::default().forwarding(Forwarding::default().intact(true));
    let intact = OpenOptions::default().latency(quick).internal(intact);
    let spec = format!("packet:{}", pair.b.interface).parse().unwrap();
    let mut receiver = right.inside(|| PacketPort::open(&spec, &intact).unwrap());
    let mut ends = receiver.rx().unwrap();
    receiver.start().unwrap();
    let socket = left.inside(|| {
        let socket = PacketSocket::open().unwrap();
        socket.set_vnet_hdr(true).unwrap();
        socket.bind(iface::index(&pair.a.interface).unwrap(), 0).unwrap();
        socket
    });
    let mut random = Random(18);
    let mut batch = Batch::default();
    for index in 0..CASES {
        let mut frame = super_frame(&mut random);
        frame.checksum = Checksum::Partial;
        // The kernel segments frames with two tags before.
        frame.tags = random.of(&[vec![], vec![EtherType::VLAN], vec![EtherType::QINQ]]);
        if frame.gso == Gso::Udp {
            frame.payload.truncate(DATAGRAMS * usize::from(frame.mss));
        }
        let (bytes, mut offload) = frame.build();
        if frame.payload.len() <= frame.mss.into() {
            (offload.gso, offload.size) = (Gso::None, 0);
        }
        let header = offload.to_virtio(frame.header_len() as u16);
        socket.send_with_header(&header, &bytes).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while batch.is_empty() {
            assert!(Instant::now() < deadline, "frame {index} does not come");
            ends.iter_mut().for_each(|rx| _ = rx.receive(&mut batch));
        }
        let [got] = &batch[..] else { panic!("frame {index}: {} frames", batch.len()) };
        assert!(got.data() == bytes, "frame {index}: {} bytes", got.len());
        assert_eq!(got.offload(), Some(offload), "frame {index}: {:?}", frame.tags);
        batch.clear();
    }
}
