//! Incomplete sets of fragments.

use wirelane_wire::checksum::Sum;
use wirelane_wire::{Protocol, tcp};

use crate::packet::DirectionKey;
use crate::record::{FindingRecorder, TunnelStack};
use crate::rule::Rule;
use crate::table::LruTable;

/// The key that identifies the fragments of one packet (RFC 791 section 3.2, RFC 8200 section 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FragmentKey {
    pub(crate) flow: DirectionKey,
    pub(crate) id: u32,
}

pub(crate) struct FragmentSet {
    /// The number of the first fragment captured.
    pub(crate) packet: u64,
    pub(crate) place: TunnelStack,
    pub(crate) time: u64,
    pub(crate) pieces: Vec<FragmentPiece>,
    /// The end of the last fragment, if it was captured.
    pub(crate) end: Option<usize>,
    pub(crate) head: Option<FirstFragment>,
    /// Whether checking has stopped; the reason was reported.
    pub(crate) broken: bool,
    /// Whether a snap length has cut a fragment.
    pub(crate) cut: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct FragmentPiece {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) packet: u64,
    pub(crate) sum: Sum,
}

/// The upper-layer header in the first fragment.
#[derive(Clone, Copy)]
pub(crate) struct FirstFragment {
    pub(crate) packet: u64,
    pub(crate) protocol: Protocol,
    /// The length and sum of the extension headers before it.
    pub(crate) skipped: usize,
    pub(crate) skipped_sum: Sum,
    pub(crate) start: [u8; tcp::MIN_LEN],
    pub(crate) start_len: usize,
}

/// The largest number of pieces: enough for fragments of 256 bytes.
const MAX_PIECES: usize = 256;
/// The reassembly timeout in nanoseconds (RFC 8200 section 4.5).
const PATIENCE: u64 = 60_000_000_000;
/// After this time, in nanoseconds, the same offset belongs to another packet with the same
/// identification.
const AGAIN: u64 = 10_000_000;

/// Incomplete sets of fragments.
pub(crate) struct Fragments {
    pub(crate) table: LruTable<FragmentKey, FragmentSet>,
}

impl Fragments {
    pub(crate) fn new(limit: usize) -> Self {
        Self { table: LruTable::new(limit) }
    }

    pub(crate) fn evicted(&self) -> u64 {
        self.table.evicted()
    }

    /// Reports incomplete sets at the end of the capture.
    pub(crate) fn finish(&mut self, recorder: &mut FindingRecorder<'_>) {
        let mut left: Vec<_> = self.table.drain().collect();
        left.sort_by_key(|set| set.packet);
        left.iter().for_each(|set| set.missing(recorder));
    }
}

impl FragmentSet {
    /// Whether a new piece belongs to another packet with the same identification.
    pub(crate) fn is_over(&self, piece: &FragmentPiece, time: u64) -> bool {
        let age = if self.time == 0 || time == 0 { 0 } else { time.saturating_sub(self.time) };
        let again = |old: &FragmentPiece| old.from == piece.from && old.sum != piece.sum;
        age > PATIENCE || age > AGAIN && (self.broken || self.pieces.iter().any(again))
    }

    pub(crate) fn add(
        &mut self,
        recorder: &mut FindingRecorder<'_>,
        piece: FragmentPiece,
        more: bool,
    ) {
        if self.broken {
            return;
        }
        recorder.checked(Rule::FragmentOverlap);
        let overlapping = |old: &&FragmentPiece| old.from < piece.to && piece.from < old.to;
        if let Some(old) = self.pieces.iter().find(overlapping).copied() {
            let same = (old.from, old.to) == (piece.from, piece.to);
            if !same || old.sum != piece.sum {
                let expected = "fragments that do not overlap";
                let found = format_args!(
                    "bytes {} to {}{} beside {} to {}",
                    piece.from,
                    piece.to,
                    if same { " with other contents" } else { "" },
                    old.from,
                    old.to
                );
                let other = Some(old.packet);
                recorder.violation(Rule::FragmentOverlap, expected, found, other);
                self.broken = true;
            }
            // An identical fragment is a copy made by the network.
            return;
        }
        recorder.checked(Rule::FragmentEnd);
        let beyond = self.end.is_some_and(|end| if more { piece.to >= end } else { true });
        let behind = !more && self.pieces.iter().any(|old| old.to > piece.to);
        if beyond || behind {
            let end = if behind { piece.to } else { self.end.unwrap_or_default() };
            let expected = format_args!("nothing behind the last fragment, which ends at {end}");
            let found = format_args!("bytes {} to {} of this one", piece.from, piece.to);
            let found: &dyn std::fmt::Display =
                if behind { &"fragments seen before that lie behind it" } else { &found };
            recorder.violation(Rule::FragmentEnd, expected, found, Some(self.packet));
            self.broken = true;
            return;
        }
        if !more {
            self.end = Some(piece.to);
        }
        if self.pieces.len() == MAX_PIECES {
            recorder.undecided(Rule::FragmentMissing);
            self.broken = true;
            return;
        }
        self.pieces.push(piece);
    }

    pub(crate) fn is_whole(&self) -> bool {
        let have: usize = self.pieces.iter().map(|piece| piece.to - piece.from).sum();
        !self.broken && self.end == Some(have)
    }

    /// Reports the missing fragments.
    pub(crate) fn missing(&self, recorder: &mut FindingRecorder<'_>) {
        if self.broken {
            return;
        }
        let mut pieces = self.pieces.clone();
        pieces.sort_by_key(|piece| piece.from);
        let mut gaps = String::new();
        let mut at = 0;
        for piece in &pieces {
            if piece.from > at {
                gaps += &format!("bytes {at} to {}, ", piece.from);
            }
            at = piece.to;
        }
        if self.end.is_none() {
            gaps += &format!("the last one from {at} on, ");
        }
        let gaps = gaps.trim_end_matches(", ");
        let outside = std::mem::replace(&mut recorder.place, self.place);
        let (rule, expected) = (Rule::FragmentMissing, "all fragments of the packet");
        recorder.note_of(self.packet, rule, expected, format_args!("not {gaps}"));
        recorder.place = outside;
    }
}
