//! Linux as the oracle: the packets that it makes of a frame for a device that cannot segment.
//!
//! The test writes the frame with a `virtio_net_hdr` to one TAP device. A bridge forwards it to
//! another without offloads, so that the kernel segments it (`validate_xmit_skb`). The test reads
//! the packets from the second device.

use std::time::{Duration, Instant};

use wirelane::frame::{Gso, Offload};
use wirelane_os::iface;
use wirelane_os::packet::{PacketSocket, VirtioNetHdr};
use wirelane_os::tun::{Offload as TunOffload, Options, Tap};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;
use wirelane_wire::{EtherType, Protocol, TcpFlags};

use super::frames::{Frame, cut};

/// Two TAP devices on a bridge.
pub(crate) struct Oracle {
    input: Tap,
    output: Tap,
    _namespace: Namespace,
}

impl Oracle {
    pub(crate) fn new() -> Self {
        let namespace = Namespace::new();
        let (input, output) = namespace.inside(|| {
            let options = Options { vnet_hdr: true, ..Options::default() };
            let input = Tap::open("in", 1, options).unwrap();
            let all = TunOffload {
                checksum: true,
                tso4: true,
                tso6: true,
                tso_ecn: true,
                uso4: true,
                uso6: true,
            };
            input.set_offload(all).unwrap();
            let output = Tap::open("out", 1, Options::default()).unwrap();
            output.set_offload(TunOffload::default()).unwrap();
            (input, output)
        });
        bridge(&namespace);
        let oracle = Self { input, output, _namespace: namespace };
        oracle.drain();
        oracle
    }

    fn drain(&self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let mut buffer = vec![0; 1 << 17];
        while let Ok(length) = self.output.read(0, &mut buffer) {
            packets.push(buffer[..length].to_vec());
        }
        packets
    }

    pub(crate) fn cut(&self, frame: &[u8], offload: &Offload, header_len: usize) -> Vec<Vec<u8>> {
        if let Err(error) = self.write(frame, offload, header_len) {
            panic!("the kernel does not take {offload:?}: {error}");
        }
        self.drain()
    }

    /// Passes a frame to the kernel.
    pub(crate) fn write(
        &self,
        frame: &[u8],
        offload: &Offload,
        header_len: usize,
    ) -> std::io::Result<()> {
        let header = offload.to_virtio(header_len as u16);
        let VirtioNetHdr { flags, gso_type, hdr_len, gso_size, csum_start, csum_offset } = header;
        let mut bytes = vec![flags, gso_type];
        for field in [hdr_len, gso_size, csum_start, csum_offset] {
            bytes.extend(field.to_ne_bytes());
        }
        bytes.extend(frame);
        self.input.write(0, &bytes).map(drop)
    }
}

/// Joins the devices `in` and `out` of a namespace with a bridge, and brings all three up.
pub(crate) fn bridge(namespace: &Namespace) {
    let options = ["forward_delay", "0", "mcast_snooping", "0"];
    let add = ["link", "add", "name", "bridge0", "type", "bridge"];
    namespace.run("ip", [&add[..], &options].concat());
    for device in ["in", "out"] {
        namespace.run("ip", ["link", "set", device, "master", "bridge0"]);
    }
    namespace.inside(|| ["bridge0", "in", "out"].map(|device| iface::up(device).unwrap()));
}

/// Linux as the oracle of merging. The test sends packets through one end of a veth pair; the other
/// end merges them. The test reads the frames from a TAP device on a bridge, which accepts long
/// frames unchanged.
pub(crate) struct Merger {
    input: PacketSocket,
    output: Tap,
    _namespaces: [Namespace; 2],
}

impl Merger {
    pub(crate) fn new() -> Self {
        let (near, far) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&near, &far, 1, 1500);
        let (a, b) = (&pair.a, &pair.b);
        // The kernel merges only packets that the sending device would not have segmented
        // (`veth_skb_is_eligible_for_gro()`).
        a.ethtool(&["-K", &a.interface, "tso", "off"]);
        b.ethtool(&["-K", &b.interface, "gro", "on", "rx-udp-gro-forwarding", "on"]);
        // Packets arrive one by one, so the kernel must wait for more.
        let wait = format!("echo 20000000 > /sys/class/net/{}/gro_flush_timeout", b.interface);
        far.run("sh", ["-c", &wait]);
        let output = far.inside(|| {
            let output =
                Tap::open("out", 1, Options { vnet_hdr: true, ..Options::default() }).unwrap();
            let (checksum, tso4, tso6, tso_ecn) = (true, true, true, true);
            let (uso4, uso6) = (true, true);
            let all = TunOffload { checksum, tso4, tso6, tso_ecn, uso4, uso6 };
            output.set_offload(all).unwrap();
            output
        });
        let bridge = ["link", "add", "name", "bridge0", "type", "bridge"];
        far.run("ip", [&bridge[..], &["forward_delay", "0", "mcast_snooping", "0"]].concat());
        for device in [b.interface.as_str(), "out"] {
            far.run("ip", ["link", "set", device, "master", "bridge0"]);
        }
        far.inside(|| ["bridge0", "out"].map(|device| iface::up(device).unwrap()));
        let input = near.inside(|| {
            let socket = PacketSocket::open().unwrap();
            socket.bind(iface::index(&a.interface).unwrap(), 0).unwrap();
            socket
        });
        Self { input, output, _namespaces: [near, far] }
    }

    /// Sends the packets, and returns the frames into which the kernel merges them.
    pub(crate) fn merge(&self, packets: &[Vec<u8>]) -> Vec<(Vec<u8>, Offload)> {
        let patience = Instant::now() + Duration::from_secs(60);
        let (mut frames, mut came) = (Vec::new(), 0);
        // Send fewer packets at a time than a queue of the kernel holds.
        for some in packets.chunks(100) {
            some.iter().for_each(|packet| assert!(self.input.send_frame(packet).is_ok()));
            let wanted = came + some.len();
            while came < wanted {
                assert!(Instant::now() < patience, "{came} of {wanted} packets came");
                let before = frames.len();
                self.drain(&mut frames);
                let new = frames[before..].iter();
                came += new.map(|(frame, left)| packets_in(frame, left)).sum::<usize>();
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        frames
    }

    fn drain(&self, frames: &mut Vec<(Vec<u8>, Offload)>) {
        let mut buffer = vec![0; 1 << 17];
        while let Ok(length) = self.output.read(0, &mut buffer) {
            let (header, frame) = buffer[..length].split_first_chunk::<10>().unwrap();
            let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
            let header = VirtioNetHdr {
                flags: header[0],
                gso_type: header[1],
                hdr_len: half(2),
                gso_size: half(4),
                csum_start: half(6),
                csum_offset: half(8),
            };
            frames.push((frame.to_vec(), Offload::from_virtio(&header).unwrap()));
        }
    }
}

/// The number of packets into which a frame is segmented.
fn packets_in(frame: &[u8], left: &Offload) -> usize {
    if left.gso == Gso::None { 1 } else { cut(frame, left).len() }
}

/// SplitMix64: the same frames in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    pub(crate) fn of<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

pub(crate) fn random_frame(random: &mut Random) -> Frame {
    let gso = random.of(&[Gso::Tcp4, Gso::Tcp6, Gso::Udp, Gso::UdpFragment]);
    let v6 = match gso {
        Gso::Tcp4 => false,
        Gso::Tcp6 => true,
        _ => random.chance(2),
    };
    let mut mss = random.of(&[536, 1000, 1001, 1220, 1400, 1424]) + random.below(8) as u16;
    if gso == Gso::UdpFragment {
        mss -= mss % 8;
    }
    // A payload close to a multiple of the segment size, or of any size.
    let segments = 1 + random.below(if gso == Gso::UdpFragment { 40 } else { 44 });
    let payload = match random.below(3) {
        0 => segments * usize::from(mss) + 1,
        1 => (segments + 1) * usize::from(mss) - random.below(3),
        _ => usize::from(mss) + 1 + random.below(segments * usize::from(mss)),
    };
    let mut frame = Frame::new(gso, v6, payload.min(64_000), mss);
    frame.tags =
        random.of(&[vec![], vec![], vec![EtherType::VLAN], vec![EtherType::QINQ, EtherType::VLAN]]);
    frame.sequence = random.next() as u32;
    frame.id = random.next() as u16;
    frame.ecn = random.below(4) as u8;
    if gso != Gso::UdpFragment {
        frame.dont_fragment = random.chance(2);
    }
    if !v6 && random.chance(3) {
        // Router alert, an option that is copied to fragments.
        frame.ip_options = random.of(&[vec![0x94, 4, 0, 0], vec![0x94, 4, 0, 0, 1, 1, 1, 0]]);
    }
    if v6 && random.chance(3) {
        let hop = (Protocol::HOP_BY_HOP, vec![0, 0, 1, 4, 0, 0, 0, 0]);
        let destination =
            (Protocol::DESTINATION_OPTIONS, vec![0, 0, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        // The kernel repeats destination options in every fragment, although no router reads them.
        // They belong to the fragmentable part (RFC 8200 section 4.5), so the packets would differ.
        frame.extensions = match gso {
            Gso::UdpFragment => vec![hop],
            _ => random.of(&[vec![hop.clone()], vec![destination.clone()], vec![hop, destination]]),
        };
    }
    if random.chance(2) {
        let stamps = vec![1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
        let sack = vec![1, 1, 5, 10, 0, 0, 0, 9, 0, 0, 1, 0];
        frame.tcp_options =
            random.of(&[stamps.clone(), sack.clone(), [stamps, sack].concat(), vec![1; 40]]);
    }
    for flag in [TcpFlags::PSH, TcpFlags::FIN, TcpFlags::CWR, TcpFlags::ECE] {
        if random.chance(3) {
            frame.flags = frame.flags.with(flag);
        }
    }
    // No packet exceeds the MTU: the kernel would drop it.
    let headers = frame.header_len() - 14 - 4 * frame.tags.len() + 8;
    frame.mss = frame.mss.min((1500 - headers) as u16);
    if gso == Gso::UdpFragment {
        frame.mss -= frame.mss % 8;
    }
    // Sometimes random data, so that checksums have all values.
    if random.chance(2) {
        frame.payload.iter_mut().for_each(|byte| *byte = random.next() as u8);
    }
    frame
}

/// The offset of the fragment header in the packets of a frame, and the length of the extension
/// headers before it.
fn fragment_header(frame: &Frame) -> Option<(usize, usize)> {
    let hop = frame.extensions.iter().filter(|(kind, _)| *kind == Protocol::HOP_BY_HOP);
    let before: usize = hop.map(|(_, bytes)| bytes.len()).sum();
    let is = frame.gso == Gso::UdpFragment && frame.v6;
    is.then_some((14 + 4 * frame.tags.len() + 40 + before, before))
}

/// Checks that all fragments of a datagram have the same IPv6 identification, and clears it. The
/// kernel chooses it at random (RFC 8200 section 4.5 only requires that identifications differ).
fn clear_fragment_ids(packets: &mut [Vec<u8>], frame: &Frame) {
    let Some((at, _)) = fragment_header(frame) else { return };
    let ids: Vec<_> = packets.iter().map(|packet| packet[at + 4..at + 8].to_vec()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
    packets.iter_mut().for_each(|packet| packet[at + 4..at + 8].fill(0));
}

/// Corrects the fragment offsets of the kernel. It adds the length of the extension headers that
/// every fragment repeats to the offset of the next (`ipv6_gso_segment` adds `payload_len` less the
/// fragment header), so that its fragments leave holes and cannot be reassembled. The offset counts
/// from the start of the fragmentable part (RFC 8200 section 4.5). The packets must differ only in
/// this.
fn mend_fragment_offsets(packets: &mut [Vec<u8>], frame: &Frame) {
    let Some((at, before)) = fragment_header(frame) else { return };
    for (index, packet) in packets.iter_mut().enumerate() {
        let field = &mut packet[at + 2..at + 4];
        let stated = u16::from_be_bytes([field[0], field[1]]);
        field.copy_from_slice(&stated.wrapping_sub((index * before) as u16).to_be_bytes());
    }
}

#[track_caller]
fn compare(oracle: &Oracle, frame: &Frame, name: &str) {
    let (bytes, offload) = frame.build();
    let mut theirs = oracle.cut(&bytes, &offload, frame.header_len());
    let mut ours = cut(&bytes, &offload);
    mend_fragment_offsets(&mut theirs, frame);
    clear_fragment_ids(&mut theirs, frame);
    clear_fragment_ids(&mut ours, frame);
    let shown = Frame { payload: vec![], ..frame.clone() };
    assert_eq!(ours.len(), theirs.len(), "{name}: {shown:?} {}", frame.payload.len());
    for (index, (our, their)) in ours.iter().zip(&theirs).enumerate() {
        let differs = our.iter().zip(their).position(|(a, b)| a != b);
        assert!(
            our == their,
            "{name}: {shown:?}: packet {index} of {} differs at {differs:?}:\nours   {:02x?}\ntheirs {:02x?}",
            ours.len(),
            &our[..our.len().min(120)],
            &their[..their.len().min(120)],
        );
    }
}

#[test]
fn privileged_linux_cuts_the_same() {
    if !privileged::require() {
        return;
    }
    let oracle = Oracle::new();
    let mut random = Random(1);
    for index in 0..4000 {
        compare(&oracle, &random_frame(&mut random), &format!("frame {index}"));
    }
}

#[test]
fn privileged_linux_cuts_the_same_at_every_boundary() {
    if !privileged::require() {
        return;
    }
    let oracle = Oracle::new();
    for (gso, v6) in [
        (Gso::Tcp4, false),
        (Gso::Tcp6, true),
        (Gso::Udp, false),
        (Gso::Udp, true),
        (Gso::UdpFragment, false),
        (Gso::UdpFragment, true),
    ] {
        for mss in [8_u16, 536, 1000, 1400] {
            for segments in [1_usize, 2, 3, 44] {
                for around in -2_isize..=2 {
                    let payload = (segments * usize::from(mss)).wrapping_add_signed(around);
                    // A single segment passes: the kernel does not treat a frame that fits as a
                    // super-frame.
                    if payload <= usize::from(mss) + 8 {
                        continue;
                    }
                    compare(&oracle, &Frame::new(gso, v6, payload, mss), "boundary");
                }
            }
        }
    }
}

#[test]
fn privileged_linux_completes_the_same_checksums() {
    if !privileged::require() {
        return;
    }
    let oracle = Oracle::new();
    for (gso, v6) in [(Gso::Tcp4, false), (Gso::Tcp6, true), (Gso::Udp, false), (Gso::Udp, true)] {
        for payload in [1, 2, 3, 99, 1400] {
            let (frame, mut offload) = Frame::new(gso, v6, payload, 1460).build();
            (offload.gso, offload.size) = (Gso::None, 0);
            assert_eq!(cut(&frame, &offload), oracle.cut(&frame, &offload, 0));
        }
    }
}
