//! Descriptive blocks: sections, interfaces and counters, in either byte order.

use super::blocks::*;
use super::counters;
use super::options::{self, Of, first};
use super::time::{TimeScale, in_range};
use crate::losses::Losses;
use crate::record::{Section, Source, Statistics};

/// One whole block.
#[derive(Clone, Copy)]
pub(super) struct BlockView<'a> {
    pub(super) bytes: &'a [u8],
    /// It is not in the byte order of this machine.
    pub(super) is_swapped: bool,
}

impl<'a> BlockView<'a> {
    /// Parses the section header. Keeps its other options while `room` bytes hold them.
    pub(super) fn section(
        self,
        room: &mut usize,
        lost: &mut Losses,
    ) -> Result<Section, &'static str> {
        if self.bytes.len() < 28 {
            return Err("section header too short");
        }
        if self.half(12) != 1 {
            return Err("pcapng version other than 1");
        }
        let mut section = Section::default();
        let body = self.body(24);
        for (code, value) in self.options(body) {
            match code {
                SHB_HARDWARE => section.hardware = text(value),
                SHB_OS => section.os = text(value),
                SHB_APPLICATION => section.application = text(value),
                _ => {}
            }
        }
        section.options = self.others(Of::Text, body, room, lost, |code, _| {
            !matches!(code, SHB_HARDWARE | SHB_OS | SHB_APPLICATION)
        });
        Ok(section)
    }

    /// Parses an interface and its time scale. Keeps its other options while `room` bytes hold
    /// them.
    pub(super) fn interface(
        self,
        room: &mut usize,
        lost: &mut Losses,
    ) -> Result<(Source, TimeScale), &'static str> {
        if self.bytes.len() < 20 {
            return Err("interface description too short");
        }
        let mut source =
            Source { link_type: self.half(8), snaplen: self.word(12), ..Source::default() };
        let (mut resolution, mut offset) = (6, 0);
        let body = self.body(16);
        for (code, value) in self.options(body) {
            match code {
                IF_NAME => source.name = text(value),
                IF_DESCRIPTION => source.set_description(text(value)),
                IF_SPEED => source.speed = value.first_chunk().map(|bytes| self.u64(*bytes)),
                IF_TSRESOL => resolution = value.first().copied().unwrap_or(resolution),
                IF_FILTER => {
                    source.filter = expression(value).map(text).or(source.filter);
                }
                IF_OS => source.os = Some(text(value)),
                IF_TSOFFSET => {
                    offset = value.first_chunk().map_or(0, |bytes| self.u64(*bytes).cast_signed());
                }
                IF_FCSLEN => source.fcs_len = value.first().copied(),
                IF_HARDWARE => source.hardware = Some(text(value)),
                _ => {}
            }
        }
        source.options = self.others(Of::Interface, body, room, lost, |code, value| match code {
            IF_FILTER => expression(value).is_none(),
            IF_SPEED => value.len() < 8,
            // The copy has different time resolution and offset.
            IF_NAME | IF_DESCRIPTION | IF_TSRESOL | IF_OS | IF_TSOFFSET | IF_FCSLEN
            | IF_HARDWARE => false,
            _ => true,
        });
        Ok((source, TimeScale::new(resolution, offset)))
    }

    /// The counters of interface `interface`.
    pub(super) fn statistics(self, interface: u32, scale: TimeScale) -> Statistics {
        let timestamp = in_range(scale.nanoseconds(self.word(12), self.word(16)).0);
        let mut statistics = Statistics { interface, timestamp, ..Statistics::default() };
        for (code, value) in self.options(self.body(20)) {
            let Some(bytes @ &[a, b, c, d, e, f, g, h]) = value.first_chunk::<8>() else {
                continue;
            };
            // No time is better than a wrong one.
            let time = || {
                scale.nanoseconds(self.u32([a, b, c, d]), self.u32([e, f, g, h])).0.try_into().ok()
            };
            counters::note(&mut statistics, code, self.u64(*bytes), time);
        }
        statistics
    }

    /// The options in `body` that `takes` accepts, in the byte order of this machine; none if they
    /// exceed `room`.
    fn others(
        self,
        of: Of,
        body: &[u8],
        room: &mut usize,
        lost: &mut Losses,
        takes: impl Fn(u16, &[u8]) -> bool,
    ) -> Vec<u8> {
        let mut found = Vec::new();
        options::copy(of, self.is_swapped, body, &mut found, lost, takes);
        match room.checked_sub(found.len()) {
            Some(left) => *room = left,
            None => {
                lost.file_options += options::options(&found).count() as u64;
                found = Vec::new();
            }
        }
        found.shrink_to_fit();
        found
    }

    fn options(self, mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
        std::iter::from_fn(move || {
            let (code, value, after) = first(rest, |bytes| self.u16(bytes))?;
            rest = after;
            Some((code, value))
        })
    }

    /// The bytes between byte `start` and the trailer.
    fn body(self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.bytes.len().saturating_sub(4)).unwrap_or_default()
    }

    fn word(self, at: usize) -> u32 {
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| self.u32(*bytes))
    }

    fn half(self, at: usize) -> u16 {
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| self.u16(*bytes))
    }

    fn u16(self, bytes: [u8; 2]) -> u16 {
        let value = u16::from_ne_bytes(bytes);
        if self.is_swapped { value.swap_bytes() } else { value }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        let value = u32::from_ne_bytes(bytes);
        if self.is_swapped { value.swap_bytes() } else { value }
    }

    fn u64(self, bytes: [u8; 8]) -> u64 {
        let value = u64::from_ne_bytes(bytes);
        if self.is_swapped { value.swap_bytes() } else { value }
    }
}

/// The text of a filter. The first byte of the option is the kind of filter.
fn expression(value: &[u8]) -> Option<&[u8]> {
    value.split_first().filter(|(kind, _)| **kind == 0).map(|(_, text)| text)
}

fn text(bytes: &[u8]) -> String {
    // Some writers include a terminating zero.
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}
