//! Decides for each frame: pass, segment or refuse.

use std::sync::Arc;

use super::coalesce::MAX_DATAGRAMS;
use super::cursor::slices::Taken;
use super::cursor::{Cursor, Segment};
use super::layout::{self, Layer, Layout};
use super::parameters::Parameters;
use super::stats::{Bypass, Refusal, SegmentCounters};
use crate::frame::{Gso, MAX_PACKET, Offload, Sink};

/// The decision on a frame.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a cursor is the usual case, and is used in place")]
pub enum Verdict {
    /// Send it unchanged; the sink completes these offloads.
    Pass(Offload),
    /// Send the cursor's packets.
    Segment(Cursor),
    /// Do not send it.
    Refuse(Refusal),
}

/// Decides about frames for one sink, and counts them. It does no I/O and reads no clock.
///
/// ```
/// use wirelane::frame::{Gso, Offload};
/// use wirelane::internal::frame::Sink;
/// use wirelane::internal::segment::{Segmenter, Verdict};
/// # use wirelane_wire::{EtherType, Ethernet, Ipv4, MacAddr, Protocol, Udp};
/// # let mut frame = vec![0; 14 + 20 + 8 + 3000];
/// # let ethernet = Ethernet { destination: MacAddr::BROADCAST, source: MacAddr::ZERO, ethertype: EtherType::IPV4 };
/// # ethernet.emit(&mut frame).unwrap();
/// # let ip = Ipv4 { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into(), protocol: Protocol::UDP,
/// #     ttl: 64, dscp: 0, ecn: 0, identification: 1, dont_fragment: true, more_fragments: false,
/// #     fragment_offset: 0, payload_len: 3008, options: &[] };
/// # ip.emit(&mut frame[14..]).unwrap();
/// # Udp { source_port: 1, destination_port: 2, payload_len: 3000, checksum: 1 }.emit(&mut frame[34..]).unwrap();
/// let mut segmenter = Segmenter::new(Sink::ethernet());
/// let offload = Offload { gso: Gso::Udp, size: 1200, ..Offload::default() };
/// let Verdict::Segment(mut cursor) = segmenter.plan(&frame, &offload) else { panic!() };
/// let (mut packet, mut lengths) = ([0; 1514], Vec::new());
/// while let Ok(segment) = cursor.copy(&frame, &mut packet) {
///     segmenter.sent(&cursor, &segment);
///     lengths.push(segment.len());
/// }
/// assert_eq!(lengths, [1242, 1242, 642]);
/// ```
#[derive(Debug)]
pub struct Segmenter {
    sink: Sink,
    counters: Arc<SegmentCounters>,
    fragment_secret: u64,
    fragments: u32,
}

impl Segmenter {
    /// A segmenter for `sink`.
    pub fn new(sink: Sink) -> Self {
        Self { sink, counters: Arc::default(), fragment_secret: 0, fragments: 0 }
    }

    /// Makes the identifications of IPv6 fragments hard to guess (RFC 7739): `secret` is a random
    /// number. Each pair of addresses starts counting at a different number.
    #[must_use]
    pub fn with_fragment_secret(mut self, secret: u64) -> Self {
        self.fragment_secret = secret;
        self
    }

    /// The sink.
    pub fn sink(&self) -> &Sink {
        &self.sink
    }

    /// Changes the sink, from the next frame on.
    pub fn set_sink(&mut self, sink: Sink) {
        self.sink = sink;
    }

    /// The counters, for any thread to read.
    pub fn counters(&self) -> &Arc<SegmentCounters> {
        &self.counters
    }

    /// Decides what to do with a frame, and counts it.
    #[inline]
    pub fn plan(&mut self, frame: &[u8], offload: &Offload) -> Verdict {
        match offload.gso {
            Gso::None => match self.plan_whole(frame, offload) {
                Ok(verdict) => verdict,
                Err(reason) => self.refuse(reason),
            },
            _ => self.plan_segments(frame, offload),
        }
    }

    /// The number of bytes of a frame to send, and whether its packet is longer than the MTU.
    ///
    /// A packet may be followed by padding or a trailer (RFC 1042). Both belong to Ethernet and
    /// count neither as payload nor towards the MTU, so a frame that passes keeps them. They are
    /// removed, and counted, if a frame is segmented, or is too long only because of them.
    #[inline]
    pub fn measure(&self, frame: &[u8], offload: &Offload) -> (usize, bool) {
        let (len, mtu) = (frame.len(), self.sink.mtu);
        let Ok((network, end)) = layout::extent(frame) else { return (len, len > mtu) };
        let is_long = end - network > mtu;
        if end == len || offload.gso == Gso::None && len - network <= mtu {
            return (len, is_long);
        }
        self.counters.trailers.add(1);
        (end, is_long)
    }

    /// Counts a segment that the sink has accepted.
    #[inline]
    pub fn sent(&self, cursor: &Cursor, segment: &Segment) {
        if let Some(class) = cursor.class() {
            let counters = self.counters.class(class);
            counters.segments.add(1);
            counters.bytes.add(segment.len() as u64);
        }
    }

    /// Counts segments that the sink has accepted.
    #[inline]
    pub fn sent_all(&self, cursor: &Cursor, taken: &Taken) {
        if let Some(class) = cursor.class() {
            let counters = self.counters.class(class);
            counters.segments.add(taken.segments as u64);
            counters.bytes.add(taken.bytes as u64);
        }
    }

    #[cold]
    fn refuse(&self, reason: Refusal) -> Verdict {
        self.counters.refused(reason).add(1);
        Verdict::Refuse(reason)
    }

    /// Plans a frame without segmentation.
    fn plan_whole(&mut self, frame: &[u8], offload: &Offload) -> Result<Verdict, Refusal> {
        if frame.len() > self.sink.mtu && frame.len() - layout::network(frame)? > self.sink.mtu {
            return Err(Refusal::AboveMtu);
        }
        self.pass(frame, offload, Bypass::NotAsked)
    }

    /// Sends a frame unchanged, or with its checksum completed.
    fn pass(&self, frame: &[u8], offload: &Offload, why: Bypass) -> Result<Verdict, Refusal> {
        let verdict = match offload.checksum {
            Some(_) if !self.sink.checksum => Verdict::Segment(Cursor::whole(frame, offload)?),
            checksum => {
                let left = Offload { checksum, ..Offload::default() };
                Verdict::Pass(if why == Bypass::SinkSegments { *offload } else { left })
            }
        };
        self.counters.bypassed(why).add(1);
        Ok(verdict)
    }

    /// Plans the segmentation of a frame. The cursor is made in place, because moving it costs as
    /// much as parsing the headers.
    fn plan_segments(&mut self, frame: &[u8], offload: &Offload) -> Verdict {
        let mut verdict = Verdict::Segment(Cursor::blank());
        if let Verdict::Segment(cursor) = &mut verdict {
            match self.segment(frame, offload, cursor) {
                Ok(None) => {}
                Ok(Some(instead)) => verdict = instead,
                Err(reason) => verdict = self.refuse(reason),
            }
        }
        verdict
    }

    /// Sets `cursor` to the frame, or returns another verdict.
    #[inline(always)]
    fn segment(
        &mut self,
        frame: &[u8],
        offload: &Offload,
        cursor: &mut Cursor,
    ) -> Result<Option<Verdict>, Refusal> {
        let mut layout = Layout::new();
        layout.parse(frame, offload)?;
        let v6 = matches!(layout.innermost(), Layer::Ipv6 { .. });
        let fragments = offload.gso == Gso::UdpFragment;
        let headers = match offload.gso {
            Gso::UdpFragment if v6 => layout.fragment + wirelane_wire::ipv6::FRAGMENT_LEN,
            Gso::UdpFragment => layout.transport,
            _ => layout.payload,
        };
        let begin = match offload.gso {
            Gso::UdpFragment if v6 => layout.fragment,
            _ => headers,
        };
        let payload = frame.len().saturating_sub(begin);
        let longest = layout.network + self.sink.mtu.min(MAX_PACKET);
        let room = longest.saturating_sub(headers);
        let asked = if offload.size == 0 { room } else { offload.size.into() };
        let mut mss = asked.min(room);
        if fragments {
            // All except the last are multiples of 8 bytes (RFC 791 section 3.2, RFC 8200 section
            // 4.5).
            mss -= mss % 8;
        }
        if payload <= asked && frame.len() <= longest {
            return self.pass(frame, offload, Bypass::Fits).map(Some);
        }
        if mss == 0 {
            return Err(Refusal::MtuTooSmall);
        }
        if offload.gso == Gso::Udp && asked > room {
            // A datagram cannot be divided (RFC 768).
            return Err(Refusal::AboveMtu);
        }
        let rounded = asked - if fragments { asked % 8 } else { 0 };
        // Sinks are not known to implement the rules of tunnels and Accurate ECN. The kernel does
        // not segment datagrams without checksums (`virtio_net_hdr_to_skb()`).
        let accurate_ecn = offload.accurate_ecn || layout.accurate_ecn;
        let plain = layout.layers().len() == 1 && mss == rounded && !accurate_ecn;
        let is_udp = offload.gso == Gso::Udp;
        let summed = !is_udp || v6 || offload.checksum.is_some() || layout.checksum;
        let takes = self.sink.cuts(offload.gso).filter(|_| plain && summed);
        let mut unit = mss;
        if let Some(max) = takes {
            let most = if is_udp { MAX_DATAGRAMS as usize } else { usize::MAX };
            let fits = frame.len() <= layout.network + max && payload.div_ceil(mss) <= most;
            if fits && offload.checksum.is_some() && offload.size != 0 {
                return self.pass(frame, offload, Bypass::SinkSegments).map(Some);
            }
            if !fragments {
                let room = (layout.network + max).saturating_sub(headers);
                unit = mss * (room / mss).clamp(1, most);
            }
        }
        let fragment_id = if fragments && v6 { self.fragment_id(frame, layout.network) } else { 0 };
        let parameters =
            Parameters { mss, unit, partial: self.sink.checksum && !fragments, fragment_id };
        cursor.take(frame, &layout, offload, parameters)?;
        let (first, last) = cursor.frame_lengths();
        self.counters.class(layout.class).count(mss, last, first);
        Ok(None)
    }

    /// The next identification for the addresses of a frame.
    fn fragment_id(&mut self, frame: &[u8], network: usize) -> u32 {
        let addresses = frame.get(network + 8..network + 40).unwrap_or_default();
        let mut hash = self.fragment_secret;
        for word in addresses.as_chunks::<8>().0 {
            // The finaliser of SplitMix64: every bit depends on every bit.
            hash = (hash ^ u64::from_ne_bytes(*word)).wrapping_add(0x9e37_79b9_7f4a_7c15);
            hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            hash ^= hash >> 31;
        }
        self.fragments = self.fragments.wrapping_add(1);
        (hash as u32).wrapping_add(self.fragments)
    }
}
