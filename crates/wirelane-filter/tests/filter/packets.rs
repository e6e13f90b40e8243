//! Packets of all kinds: valid, truncated, damaged and random, the same in every run.

use wirelane_testkit::packets as kit;

use super::dice::Dice;

/// Every frame of the corpus, Ethernet first.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let mut dice = Dice::new(7);
    let whole = whole();
    let mut packets = whole.clone();
    for frame in &whole {
        for _ in 0..2 {
            let len = dice.below(frame.len() as u32 + 1) as usize;
            packets.push(frame[..len].to_vec());
        }
        let mut damaged = frame.clone();
        for _ in 0..1 + dice.below(4) {
            let at = dice.below(damaged.len().min(64) as u32) as usize;
            damaged[at] = dice.draw() as u8;
        }
        packets.push(damaged);
    }
    // The headers of one packet after the headers of another.
    for _ in 0..60 {
        let (a, b) = (dice.below(whole.len() as u32), dice.below(whole.len() as u32));
        let (a, b) = (&whole[a as usize], &whole[b as usize]);
        let cut = 14 + 4 * dice.below(3) as usize;
        packets.push(a.iter().take(cut).chain(b.iter().skip(14)).copied().collect());
    }
    for len in [0, 1, 11, 12, 13, 14, 15, 16, 17, 20, 33, 34, 54, 60, 61, 128, 300, 1514, 2900] {
        packets.push((0..len).map(|_| dice.draw() as u8).collect());
        packets.push(vec![0; len]);
        packets.push(vec![0xff; len]);
    }
    packets
}

const SOURCE: [u8; 6] = [2, 0x57, 0x4c, 0xff, 0, 1];
const DESTINATION: [u8; 6] = [2, 0x57, 0x4c, 0xff, 0, 2];
const HOSTS: [[u8; 4]; 6] = [
    [10, 0, 0, 1],
    [10, 0, 0, 2],
    [192, 0, 2, 1],
    [198, 51, 100, 1],
    [224, 0, 0, 5],
    [10, 0, 0, 77],
];

fn ethernet(destination: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = destination.to_vec();
    frame.extend(SOURCE);
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame.resize(frame.len().max(60), 0);
    frame
}

/// Puts headers between the addresses and the EtherType of a frame.
fn tagged(frame: &[u8], tags: &[u16]) -> Vec<u8> {
    let words = tags.iter().flat_map(|word| word.to_be_bytes());
    frame[..12].iter().copied().chain(words).chain(frame[12..].iter().copied()).collect()
}

struct V4 {
    source: [u8; 4],
    destination: [u8; 4],
    protocol: u8,
    options: usize,
    fragment: u16,
}

impl V4 {
    fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let header = 20 + 4 * self.options;
        let mut packet = vec![0x40 | (header / 4) as u8, 0x10];
        packet.extend(((header + payload.len()) as u16).to_be_bytes());
        packet.extend([0x12, 0x34]);
        packet.extend(self.fragment.to_be_bytes());
        packet.extend([64, self.protocol, 0xab, 0xcd]);
        packet.extend(self.source);
        packet.extend(self.destination);
        packet.resize(header, 1);
        packet.extend(payload);
        packet
    }
}

/// Source port, destination port, and the rest of a header.
fn transport(protocol: u8, source: u16, destination: u16, flags: u8) -> Vec<u8> {
    let mut bytes = source.to_be_bytes().to_vec();
    bytes.extend(destination.to_be_bytes());
    match protocol {
        6 => bytes.extend([0, 0, 0, 9, 0, 0, 0, 8, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]),
        17 => bytes.extend([0, 28, 0, 0]),
        _ => bytes.extend([0; 8]),
    }
    bytes.extend(b"GET / HTTP/1.1\r\n");
    bytes
}

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend(payload);
    packet
}

fn llc(payload: &[u8]) -> Vec<u8> {
    ethernet([1, 0x80, 0xc2, 0, 0, 0], payload.len() as u16, payload)
}

/// Frames that are what they say.
fn whole() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let ports = [(10_000, 443), (443, 10_000), (10_000, 9), (53, 53), (1500, 80), (0, 65_535)];
    for (at, (source, destination)) in ports.into_iter().enumerate() {
        for protocol in [6, 17, 132] {
            let flags = [0x02, 0x12, 0x10, 0x18, 0x11, 0x04][at];
            let inner = transport(protocol, source, destination, flags);
            let (from, to) = (HOSTS[at % 3], HOSTS[(at + 1) % HOSTS.len()]);
            let header =
                V4 { source: from, destination: to, protocol, options: at % 3, fragment: 0x4000 };
            frames.push(ethernet(DESTINATION, 0x0800, &header.packet(&inner)));
            frames.push(ethernet(DESTINATION, 0x86dd, &v6(protocol, &inner)));
        }
    }
    let v4 = |protocol, payload: &[u8]| {
        let header =
            V4 { source: HOSTS[2], destination: HOSTS[3], protocol, options: 0, fragment: 0 };
        ethernet(DESTINATION, 0x0800, &header.packet(payload))
    };
    for kind in [0u8, 3, 5, 8, 11, 13] {
        frames.push(v4(1, &[kind, 3, 0, 0, 1, 2, 3, 4]));
        frames.push(ethernet(DESTINATION, 0x86dd, &v6(58, &[kind + 123, 0, 0, 0, 1, 2, 3, 4])));
    }
    frames
        .extend([2, 4, 9, 41, 47, 50, 51, 89, 103, 112].map(|protocol| v4(protocol, &[0x21; 24])));
    for fragment in [0x2000, 0x2001, 0x0003, 0x1fff] {
        let header =
            V4 { source: HOSTS[0], destination: HOSTS[2], protocol: 17, options: 0, fragment };
        frames.push(ethernet(DESTINATION, 0x0800, &header.packet(&transport(17, 9, 443, 0))));
    }
    // Extension headers: hop by hop, routing, fragment, destination, authentication.
    for (next, header) in [
        (0, vec![6, 0, 1, 4, 0, 0, 0, 0]),
        (0, vec![58, 0, 5, 2, 0, 0, 1, 0]),
        (43, vec![17, 0, 0, 0, 0, 0, 0, 0]),
        (44, vec![17, 0, 0, 1, 0, 0, 0, 7]),
        (44, vec![6, 0, 5, 0xa8, 0, 0, 0, 7]),
        (60, vec![6, 0, 1, 4, 0, 0, 0, 0]),
        (51, vec![6, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]),
    ] {
        let inner = [header, transport(6, 10_000, 443, 2)].concat();
        frames.push(ethernet(DESTINATION, 0x86dd, &v6(next, &inner)));
    }
    let arp = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0x57, 0x4c, 0xff, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    frames.push(ethernet([0xff; 6], 0x0806, &[&arp[..], &[10, 0, 0, 2]].concat()));
    frames.push(ethernet([0xff; 6], 0x8035, &[&arp[..], &[192, 0, 2, 1]].concat()));
    frames.push(ethernet([0x33, 0x33, 0, 0, 0, 1], 0x86dd, &v6(58, &[135, 0, 0, 0, 0, 0, 0, 0])));
    frames.push(ethernet([1, 0, 0x5e, 0, 0, 5], 0x0800, &v4(89, &[2, 1, 0, 44])[14..]));

    let plain = [frames[0].clone(), frames[1].clone(), frames[2].clone(), frames[8].clone()];
    for frame in plain {
        for tags in [
            &[0x8100, 100][..],
            &[0x8100, 0xa005],
            &[0x8100, 0],
            &[0x8100, 4095],
            &[0x88a8, 100, 0x8100, 200],
            &[0x8100, 100, 0x8100, 200],
            &[0x9100, 7],
            &[0x8100, 1, 0x8100, 2, 0x8100, 3],
        ] {
            frames.push(tagged(&frame, tags));
        }
        // One and two labels; the last has its bottom bit.
        for labels in [&[0x003e_8140u32][..], &[0x003e_8040, 0x0001_0140], &[0x0fff_f1ff]] {
            let stack: Vec<u8> = labels.iter().flat_map(|label| label.to_be_bytes()).collect();
            frames.push(ethernet(DESTINATION, 0x8847, &[&stack[..], &frame[14..]].concat()));
        }
        let protocol = if frame[12] == 8 { 0x21 } else { 0x57 };
        let session = [&[0x11, 0, 0, 39, 0, 60, 0, protocol][..], &frame[14..]].concat();
        frames.push(ethernet(DESTINATION, 0x8864, &session));
        frames.push(tagged(&ethernet(DESTINATION, 0x8864, &session), &[0x8100, 100]));
        for class in [&[0u8, 0][..], &[2, 0, 0xb, 1, 2, 0, 0, 0, 0, 0]] {
            let geneve = [&class[..2], &[0x65, 0x58, 0, 0, 0xb, 0], &class[2..], &frame].concat();
            let udp = [&[0x30, 0x39, 0x17, 0xc1, 0, 0, 0, 0][..], &geneve].concat();
            frames.push(v4(17, &udp));
            frames.push(ethernet(DESTINATION, 0x86dd, &v6(17, &udp)));
        }
    }
    frames.push(ethernet(DESTINATION, 0x8863, &[0x11, 9, 0, 0, 0, 4, 1, 1, 0, 0]));

    // IEEE 802.2: spanning tree, IS-IS, CLNP, ES-IS, NetBEUI, IPX, SNAP and control fields.
    frames.push(llc(&[0x42, 0x42, 3, 0, 0, 0, 0, 0]));
    for pdu in [15, 16, 18, 20, 24, 26] {
        frames.push(llc(&[0xfe, 0xfe, 3, 0x83, 27, 1, 0, pdu, 1, 0]));
    }
    frames.push(llc(&[0xfe, 0xfe, 3, 0x81, 0, 0]));
    frames.push(llc(&[0xfe, 0xfe, 3, 0x82, 0, 0]));
    frames.push(llc(&[0xf0, 0xf0, 3, 0]));
    frames.push(llc(&[0xe0, 0xe0, 3, 0]));
    frames.push(llc(&[0xff, 0xff, 0, 30]));
    frames.push(llc(&[0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0, 0x45]));
    frames.push(llc(&[0xaa, 0xaa, 3, 8, 0, 7, 0x80, 0x9b, 0]));
    for control in [0x00, 0x01, 0x05, 0x09, 0x03, 0x63, 0x43, 0x6f, 0xe3, 0xaf, 0x87] {
        frames.push(llc(&[0x04, 0x04, control, 0, 0]));
    }
    for ethertype in [0x6003u16, 0x6004, 0x6001, 0x6002, 0x6007, 0x809b, 0x80f3, 0x8137, 0x9000] {
        frames.push(ethernet(DESTINATION, ethertype, &[15, 40, 0x28, 0, 0x22, 1, 15, 40, 2, 6]));
    }

    frames.push(kit::udp4(1).build());
    frames.push(kit::tcp6(2).vlan(100).length(1500).build());
    frames.push(kit::udp6(3).length(200).build());
    frames.push(kit::tcp4(4).length(2900).build());
    frames.push(kit::raw(5));
    frames
}
