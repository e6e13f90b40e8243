//! Super-frames in the capture, and their segments.
//!
//! Only a super-frame proves that segments belong to one burst. It must be captured earlier, on
//! another interface. Then the segments must match it.

use std::collections::VecDeque;

use wirelane_wire::TcpFlags;

use crate::flow::Ecn;
use crate::packet::{DirectionKey, TcpSegment};
use crate::record::{FindingRecorder, TunnelStack};
use crate::rule::Rule;
use crate::table::LruTable;

/// The largest number of pending super-frames of one flow.
const IN_FLIGHT: usize = 64;
const MAX_OPTIONS: usize = 40;

/// A super-frame.
struct SuperFrame {
    packet: u64,
    place: TunnelStack,
    interface: u32,
    sequence: u32,
    len: u32,
    acknowledgment: u32,
    window: u16,
    flags: TcpFlags,
    urgent: u16,
    options: [u8; MAX_OPTIONS],
    options_len: usize,
    /// The interface of its segments.
    out: Option<u32>,
    /// The number of payload bytes that were in segments.
    next: u32,
    /// The payload length of all segments except the last, known after the first segment.
    size: Option<u32>,
}

/// Super-frames of all flows.
pub(crate) struct Bursts {
    /// By flow, over all interfaces.
    table: LruTable<DirectionKey, BurstDirection>,
}

/// One direction of a connection on all interfaces.
#[derive(Default)]
struct BurstDirection {
    frames: VecDeque<SuperFrame>,
    /// The highest sequence number after payload on each interface.
    seen: Vec<(u32, u32)>,
}

/// The largest number of interfaces per connection.
const MAX_INTERFACES: usize = 8;

impl BurstDirection {
    /// Notes a segment on an interface. Returns whether no other interface had its payload before,
    /// so that it cannot have been merged from earlier segments.
    fn is_first(&mut self, interface: u32, segment: &TcpSegment<'_>) -> bool {
        let behind = |end: u32| segment.sequence.wrapping_sub(end) < 1 << 31;
        let first = self.seen.iter().all(|(other, end)| *other == interface || behind(*end));
        let new = segment.end();
        if let Some((_, end)) = self.seen.iter_mut().find(|(other, _)| *other == interface) {
            if new.wrapping_sub(*end) < 1 << 31 {
                *end = new;
            }
        } else if self.seen.len() < MAX_INTERFACES {
            self.seen.push((interface, new));
        } else {
            return false;
        }
        first
    }
}

impl Bursts {
    pub(crate) fn new(limit: usize) -> Self {
        Self { table: LruTable::new(limit) }
    }

    pub(crate) fn evicted(&self) -> u64 {
        self.table.evicted()
    }

    /// Checks a segment or super-frame.
    pub(crate) fn segment(
        &mut self,
        recorder: &mut FindingRecorder<'_>,
        key: DirectionKey,
        segment: &TcpSegment<'_>,
        long: bool,
        ecn: Ecn,
    ) {
        if segment.len == 0 {
            return;
        }
        let interface = key.interface;
        let line =
            self.table.entry(DirectionKey { interface: 0, ..key }, BurstDirection::default, drop);
        let first = line.is_first(interface, segment);
        let frames = &mut line.frames;
        // A retransmission of the sender invalidates its earlier super-frames.
        frames.retain(|frame| frame.interface != interface || !frame.overlaps(segment));
        if first && long && segment.options.len() <= MAX_OPTIONS {
            if frames.len() == IN_FLIGHT {
                frames.pop_front();
            }
            frames.push_back(SuperFrame::new(recorder, interface, segment));
        }
        if let Some(at) = frames.iter().position(|frame| frame.has(interface, segment))
            && let Some(frame) = frames.get_mut(at)
            && frame.check(recorder, interface, segment, ecn)
        {
            frames.remove(at);
        }
    }

    /// Reports missing segments at the end of the capture.
    pub(crate) fn finish(&mut self, recorder: &mut FindingRecorder<'_>) {
        for frame in self.table.drain().flat_map(|line| line.frames) {
            if frame.out.is_some() {
                frame.missing(recorder, frame.packet, frame.next, frame.len);
            }
        }
    }
}

impl SuperFrame {
    fn new(recorder: &FindingRecorder<'_>, interface: u32, segment: &TcpSegment<'_>) -> Self {
        let mut options = [0; MAX_OPTIONS];
        let options_len = segment.options.len().min(MAX_OPTIONS);
        for (to, from) in options.iter_mut().zip(segment.options) {
            *to = *from;
        }
        Self {
            packet: recorder.packet,
            place: recorder.place,
            interface,
            sequence: segment.sequence,
            len: segment.len,
            acknowledgment: segment.acknowledgment,
            window: segment.window,
            flags: segment.flags,
            urgent: segment.urgent,
            options,
            options_len,
            out: None,
            next: 0,
            size: None,
        }
    }

    fn overlaps(&self, segment: &TcpSegment<'_>) -> bool {
        segment.sequence.wrapping_sub(self.sequence) < self.len
            || self.sequence.wrapping_sub(segment.sequence) < segment.len
    }

    /// Whether a segment on `interface` belongs to this super-frame.
    fn has(&self, interface: u32, segment: &TcpSegment<'_>) -> bool {
        self.interface != interface
            && self.out.is_none_or(|out| out == interface)
            && segment.sequence.wrapping_sub(self.sequence) < self.len
            && segment.len < self.len
            && segment.acknowledgment == self.acknowledgment
            && segment.window == self.window
    }

    /// Checks one of its segments. Returns whether it is the last.
    fn check(
        &mut self,
        recorder: &mut FindingRecorder<'_>,
        interface: u32,
        segment: &TcpSegment<'_>,
        ecn: Ecn,
    ) -> bool {
        self.out = Some(interface);
        let offset = segment.sequence.wrapping_sub(self.sequence);
        let end = offset.saturating_add(segment.len);
        let aligned = |size: u32| offset.is_multiple_of(size.max(1));
        if offset < self.next && self.size.is_some_and(aligned) {
            // A copy by a device between the two interfaces.
            return false;
        }
        recorder.checked(Rule::SegmentSequence);
        let lost = offset > self.next && self.size.is_none_or(aligned);
        if lost {
            self.missing(recorder, recorder.packet, self.next, offset);
        } else if offset != self.next || end > self.len {
            let expected = format_args!(
                "{:#010x} and at most {} bytes of the super-frame",
                self.sequence.wrapping_add(self.next),
                self.len - self.next.min(self.len)
            );
            let found = format_args!("{:#010x} and {}", segment.sequence, segment.len);
            recorder.violation(Rule::SegmentSequence, expected, found, Some(self.packet));
        }
        let last = end >= self.len;
        self.check_size(recorder, segment.len, last);
        self.check_flags(recorder, segment, offset, last, ecn);
        recorder.checked(Rule::SegmentOptions);
        let options = self.options.get(..self.options_len).unwrap_or_default();
        if segment.options != options {
            let expected = format_args!("the options {options:02x?}");
            let found = format_args!("{:02x?}", segment.options);
            recorder.violation(Rule::SegmentOptions, expected, found, Some(self.packet));
        }
        self.next = end;
        last
    }

    fn check_size(&mut self, recorder: &mut FindingRecorder<'_>, len: u32, last: bool) {
        let Some(size) = self.size else {
            // The last segment may be shorter than the others.
            self.size = (!last).then_some(len);
            return;
        };
        recorder.checked(Rule::SegmentSize);
        let fits = if last { len <= size } else { len == size };
        if !fits {
            let expected = format_args!("{size} bytes{}", if last { " at most" } else { "" });
            recorder.violation(Rule::SegmentSize, expected, len, Some(self.packet));
        }
    }

    fn check_flags(
        &self,
        recorder: &mut FindingRecorder<'_>,
        segment: &TcpSegment<'_>,
        offset: u32,
        last: bool,
        ecn: Ecn,
    ) {
        let other = Some(self.packet);
        let urgent = u32::from(self.urgent).saturating_sub(offset);
        let mut expected = self.flags;
        if !last {
            expected = expected.without(TcpFlags::PSH.with(TcpFlags::FIN));
        }
        if self.flags.contains(TcpFlags::URG) && offset > 0 && urgent == 0 {
            expected = expected.without(TcpFlags::URG);
        }
        let cwr = self.flags.contains(TcpFlags::CWR);
        let counter = ecn == Ecn::Accurate || self.flags.contains(TcpFlags::AE);
        let ignored = if cwr { TcpFlags::CWR } else { TcpFlags::default() };
        let found = segment.flags.without(ignored);
        recorder.checked(Rule::SegmentFlags);
        if found != expected.without(ignored) {
            let expected = expected.without(ignored);
            let (expected, found) = (format_args!("{expected:?}"), format_args!("{found:?}"));
            recorder.violation(Rule::SegmentFlags, expected, found, other);
        }
        let has = segment.flags.contains(TcpFlags::CWR);
        match (cwr, offset == 0 || counter, ecn) {
            (false, ..) => {}
            (true, false, Ecn::Unknown) => recorder.undecided(Rule::SegmentCwr),
            (true, wanted, _) => {
                recorder.checked(Rule::SegmentCwr);
                if wanted != has {
                    let word = |has| if has { "CWR" } else { "no CWR" };
                    recorder.violation(Rule::SegmentCwr, word(wanted), word(has), other);
                }
            }
        }
        if expected.contains(TcpFlags::URG) && segment.flags.contains(TcpFlags::URG) {
            recorder.checked(Rule::SegmentUrgent);
            if u32::from(segment.urgent) != urgent {
                recorder.violation(Rule::SegmentUrgent, urgent, segment.urgent, other);
            }
        }
    }

    /// Reports that payload from `from` to `to` was in no segment.
    fn missing(&self, recorder: &mut FindingRecorder<'_>, packet: u64, from: u32, to: u32) {
        let outside = std::mem::replace(&mut recorder.place, self.place);
        let expected = format_args!("all of super-frame {}", self.packet);
        let found = format_args!("nothing of its bytes {from} to {to}");
        recorder.note_of(packet, Rule::SegmentMissing, expected, found);
        recorder.place = outside;
    }
}
