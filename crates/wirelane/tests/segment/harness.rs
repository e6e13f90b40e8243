//! A harness for property tests and fuzzing: segments an arbitrary frame with arbitrary metadata,
//! and merges the segments. It panics if a byte is lost or a packet is too long.

use wirelane::frame::{Gso, Offload, PartialChecksum, Tunnel};
use wirelane::internal::frame::{Sink, SinkGso};
use wirelane::internal::segment::{Coalescer, Limits, Segmenter, Verdict};
use wirelane_wire::{EthernetView, VlanView, ethernet, vlan};

/// Reads the offload request and the sink from the first bytes.
fn metadata(bytes: &[u8; 16]) -> (Offload, Sink) {
    let [kind, flags, size, size2, start, offset, at, at2, mtu, mtu2, max, max2, sink, ..] = *bytes;
    let gso = [Gso::None, Gso::Tcp4, Gso::Tcp6, Gso::Udp, Gso::UdpFragment];
    let tunnel = [
        None,
        Some(Tunnel::Vxlan),
        Some(Tunnel::Geneve),
        Some(Tunnel::Gre),
        Some(Tunnel::Udp { transport: at.into(), network: at2.into() }),
    ];
    let place = PartialChecksum { start: start.into(), offset: offset.into() };
    let offload = Offload {
        gso: gso[usize::from(kind) % gso.len()],
        size: u16::from_be_bytes([size, size2]),
        checksum: (flags & 1 != 0).then_some(place),
        ecn: flags & 2 != 0,
        accurate_ecn: flags & 4 != 0,
        fixed_id: flags & 8 != 0,
        tunnel: tunnel[usize::from(flags >> 4) % tunnel.len()],
    };
    let all = sink & 4 != 0;
    let sink = Sink {
        mtu: u16::from_be_bytes([mtu, mtu2]).into(),
        checksum: sink & 1 != 0,
        gso_max: (sink & 2 != 0).then_some(u16::from_be_bytes([max, max2]).into()),
        gso: SinkGso { tcp4: all, tcp6: all, udp: all, udp_fragment: all },
    };
    (offload, sink)
}

/// The length of the Ethernet header and its tags, which does not count against the MTU.
fn link_len(frame: &[u8]) -> usize {
    let Ok(view) = EthernetView::new(frame) else { return 0 };
    let (mut ethertype, mut len) = (view.ethertype(), ethernet::LEN);
    // The maximum number of tags that the kernel skips (`VLAN_MAX_DEPTH`).
    for _ in 0..8 {
        match VlanView::new(&frame[len..]) {
            Ok(tag) if ethertype.is_vlan() => ethertype = tag.ethertype(),
            _ => break,
        }
        len += vlan::LEN;
    }
    len
}

/// Runs the harness on arbitrary bytes.
pub(crate) fn run(bytes: &[u8]) {
    let Some((head, frame)) = bytes.split_first_chunk() else { return };
    let (offload, sink) = metadata(head);
    let mut segmenter = Segmenter::new(sink);
    let mut packets = Vec::new();
    match segmenter.plan(frame, &offload) {
        Verdict::Pass(left) => packets.push((frame.to_vec(), left)),
        Verdict::Refuse(_) => return,
        Verdict::Segment(mut cursor) => {
            let link = link_len(frame);
            let whole = cursor.class().is_none();
            let mut slicer = cursor.clone();
            let mut next: Option<usize> = None;
            let mut buffer = vec![0; 70_000];
            // Stop after 5000 packets: one byte of payload per packet is slow to check and shows
            // nothing new.
            while let (Ok(segment), true) = (cursor.copy(frame, &mut buffer), packets.len() < 5000)
            {
                let packet = &buffer[..segment.len()];
                let limit = if segment.offload.gso == Gso::None { sink.mtu } else { 65_535 };
                assert!(packet.len() <= link + limit, "{} bytes above {limit}", packet.len());
                assert_eq!(packet[segment.header_len..], frame[segment.payload.clone()]);
                // Payloads follow each other without a gap.
                assert!(next.is_none_or(|next| next == segment.payload.start));
                next = Some(segment.payload.end);
                let mut header = vec![0; segment.header_len];
                assert_eq!(slicer.slice(frame, &mut header), Ok(segment.clone()));
                assert_eq!(header, packet[..segment.header_len]);
                segmenter.sent(&cursor, &segment);
                packets.push((packet.to_vec(), segment.offload));
            }
            if cursor.is_done() {
                assert_eq!(next, Some(frame.len()));
            }
            assert!(!whole || packets.len() == 1);
        }
    }
    merge(&packets);
}

/// Completes the checksum of a packet, if it was left partial. Returns `None` if that is not
/// possible.
fn completed(packet: &[u8], offload: Offload) -> Option<Vec<u8>> {
    let mut packet = packet.to_vec();
    let done = offload.checksum.is_none_or(|place| place.complete(&mut packet));
    done.then_some(packet)
}

/// Merges packets, and checks that the result has all their bytes.
fn merge(packets: &[(Vec<u8>, Offload)]) {
    let mut coalescer = Coalescer::new(Limits { flows: 2, ..Limits::default() });
    let mut out = Vec::new();
    let mut send = |frame: &[u8], offload: Offload| out.push((frame.to_vec(), offload));
    let mut expected = Vec::new();
    for (now, (packet, offload)) in packets.iter().enumerate() {
        // Packets whose checksum cannot be completed, and super-frames, are pushed without an
        // offload request; only their bytes are compared.
        let whole = completed(packet, *offload).filter(|_| offload.gso == Gso::None);
        let offload = if whole.is_some() { *offload } else { Offload::default() };
        expected.push(whole.unwrap_or_else(|| packet.clone()));
        coalescer.push(packet, offload, now as u64, &mut send);
        coalescer.expire(now as u64, &mut send);
    }
    coalescer.flush(&mut send);
    let mut again = Vec::new();
    for (frame, offload) in out {
        if offload.gso == Gso::None {
            again.push(completed(&frame, offload).expect("what came in could be completed"));
            continue;
        }
        let mut segmenter = Segmenter::new(Sink { mtu: 65_535, ..Sink::ethernet() });
        let Verdict::Segment(mut cursor) = segmenter.plan(&frame, &offload) else {
            panic!("what was merged cannot be cut: {offload:?}");
        };
        let mut buffer = vec![0; 70_000];
        while let Ok(segment) = cursor.copy(&frame, &mut buffer) {
            again.push(buffer[..segment.len()].to_vec());
        }
    }
    assert_eq!(again.len(), packets.len());
    // All packets belong to one flow, so they are in order.
    assert!(again == expected);
}
