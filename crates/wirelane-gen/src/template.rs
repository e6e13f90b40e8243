//! Compiled recipes: the bytes of a packet, and a flat list of changing fields.
//!
//! Plain data describes all changes, so that it can be compiled further, such as to an XDP program.
//! Packet k of length n consists of
//!
//! 1. [`head`](Template::head), then [`fill`](Template::fill) up to the reserved bytes at the end,
//!    which are zero;
//! 2. each [`Edit`]: its value for k, shifted, combined by OR with the bytes there;
//! 3. each [`LengthField`]: n minus a constant;
//! 4. each [`Checksum`], from the inner to the outer ones.
//!
//! Checksums are computed in closed form: from the known sum of the constant bytes, and the values,
//! lengths and checksums of inner layers. The writer does not read the packet again, so its cost
//! does not depend on the packet length, except for copying.

use wirelane_wire::checksum::Sum;

use crate::fill::Fill;
use crate::value::{self, SteppedPosition, ValueSource};
use crate::values::Values;

/// The largest number of checksums in a packet.
pub const MAX_CHECKSUMS: usize = 16;

/// The longest frame.
pub const MAX_LEN: usize = 65535;

/// The number of bytes copied at once for short packets.
const BASE: usize = 128;

/// A template of numbered packets.
#[derive(Clone, Debug)]
pub struct Template {
    head: Vec<u8>,
    /// The head and the start of the fill.
    base: Vec<u8>,
    fill: Fill,
    reserved: usize,
    edits: Vec<Edit>,
    /// The value source of each edit.
    sources: Vec<ValueSource>,
    lengths: Vec<LengthField>,
    checksums: Vec<Checksum>,
}

/// A field that changes from packet to packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The first byte of the field.
    pub offset: u16,
    /// The number of bytes that the field occupies, even partially; at most 16.
    pub width: u8,
    /// The number of bits after the field in the last byte.
    pub shift: u8,
    /// The width of the field in bits.
    pub bits: u8,
    /// Its values.
    pub values: Values,
    /// Bit i is set if checksum i depends on the field. A field that ends at an odd offset counts
    /// byte-swapped.
    pub checksums: u32,
}

/// A two-byte field with the frame length minus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthField {
    /// The first byte.
    pub offset: u16,
    /// The constant to subtract.
    pub minus: u16,
    /// Bit i is set if checksum i depends on the field.
    pub checksums: u32,
}

/// A two-byte internet checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The first byte.
    pub offset: u16,
    /// The first covered byte, at an even offset.
    pub start: u16,
    /// The end of the covered bytes; `None` for the end of the packet.
    pub end: Option<u16>,
    /// Whether 0 is written as 0xffff (UDP).
    pub nonzero: bool,
    /// Bit i is set if checksum i, of an outer layer, covers this one.
    pub checksums: u32,
    /// The sum of the constant bytes and the pseudo-header, minus the constants of length fields.
    pub base: u64,
    /// How often the frame length is part of the sum.
    pub times: u64,
}

impl Template {
    pub(crate) fn new(
        head: Vec<u8>,
        fill: Fill,
        reserved: usize,
        edits: Vec<Edit>,
        lengths: Vec<LengthField>,
        checksums: Vec<Checksum>,
    ) -> Self {
        let sources = edits.iter().map(|edit| ValueSource::new(&edit.values, edit.bits)).collect();
        let mut base = head.clone();
        if base.len() < BASE {
            base.resize(BASE, 0);
            fill.write(&mut base[head.len()..]);
        }
        Self { head, base, fill, reserved, edits, sources, lengths, checksums }
    }

    /// The headers and the given payload. Changing fields are zero.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The bytes after the head.
    pub fn fill(&self) -> Fill {
        self.fill
    }

    /// The number of zero bytes at the end, reserved for a signature.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// The fields that change from packet to packet.
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// The length fields.
    pub fn lengths(&self) -> &[LengthField] {
        &self.lengths
    }

    /// The checksums, from inner to outer layers.
    pub fn checksums(&self) -> &[Checksum] {
        &self.checksums
    }

    /// The shortest length of a packet, at least 60.
    pub fn min_len(&self) -> usize {
        (self.head.len() + self.reserved).max(60)
    }

    /// The number of packets after which all fields repeat; `None` if they never do, or the number
    /// overflows.
    pub fn cycle(&self) -> Option<u64> {
        self.edits.iter().try_fold(1u64, |cycle, edit| {
            let period = value::period(&edit.values)?;
            let (mut a, mut b) = (cycle, period);
            while b != 0 {
                (a, b) = (b, a % b);
            }
            (cycle / a).checked_mul(period)
        })
    }

    /// Writes packet number `k` with the length of `packet`, which must be at least
    /// [`min_len`](Self::min_len). A shorter packet is cut, and its checksums are wrong.
    pub fn write(&self, k: u64, packet: &mut [u8]) {
        if packet.len() < self.head.len() + self.reserved {
            let mut whole = vec![0; self.head.len() + self.reserved];
            self.write(k, &mut whole);
            packet.copy_from_slice(&whole[..packet.len()]);
            return;
        }
        self.emit(packet, |i| value::position(&self.edits[i].values, k));
    }

    /// A cursor over the packets `first`, `first + stride` and so on, without a division per
    /// packet.
    pub fn cursor(&self, first: u64, stride: u64) -> Cursor {
        let slot = |edit: &Edit| SteppedPosition::new(&edit.values, first, stride);
        Cursor { slots: self.edits.iter().map(slot).collect() }
    }

    #[inline(always)]
    fn emit(&self, packet: &mut [u8], position: impl Fn(usize) -> u64) {
        let n = packet.len();
        let end = n.saturating_sub(self.reserved);
        if n <= self.base.len() {
            packet.copy_from_slice(&self.base[..n]);
        } else {
            packet[..self.base.len()].copy_from_slice(&self.base);
            self.fill
                .continue_at(&mut packet[self.base.len()..], self.base.len() - self.head.len());
        }
        if self.reserved > 0 {
            packet[end..].fill(0);
        }

        let mut sums = [0u64; MAX_CHECKSUMS];
        for (i, (edit, source)) in self.edits.iter().zip(&self.sources).enumerate() {
            let sum = match source.value(position(i)) {
                value::PackedValue::Narrow(value) => put(packet, edit, value << edit.shift),
                value::PackedValue::Wide(value) => put_wide(packet, edit, value << edit.shift),
            };
            add(&mut sums, edit.checksums, sum);
        }
        for length in &self.lengths {
            let value = (n as u16).wrapping_sub(length.minus);
            put16(packet, length.offset, value);
        }
        let filled = end.saturating_sub(self.head.len());
        let mut rest = u64::from(self.fill.sum(filled));
        if !self.head.len().is_multiple_of(2) {
            rest <<= 8;
        }
        for (i, checksum) in self.checksums.iter().enumerate() {
            let rest = if checksum.end.is_none() { rest } else { 0 };
            let all = checksum.base + checksum.times * n as u64 + sums[i % MAX_CHECKSUMS] + rest;
            let sum = Sum::of_number(all);
            let value = if checksum.nonzero { sum.checksum_nonzero() } else { sum.checksum() };
            put16(packet, checksum.offset, value);
            add(&mut sums, checksum.checksums, u64::from(value));
        }
    }
}

/// The current field positions of a template, for writing successive packets.
#[derive(Clone, Debug)]
pub struct Cursor {
    slots: Box<[SteppedPosition]>,
}

impl Cursor {
    /// Writes the packet and advances to the next. `template` must be the template of the cursor,
    /// and `packet` must have the length of the packet, at least [`Template::min_len`].
    #[inline]
    pub fn write(&mut self, template: &Template, packet: &mut [u8]) {
        let slots = &mut *self.slots;
        template.emit(packet, |i| slots.get(i).map_or(0, |slot| slot.position));
        slots.iter_mut().for_each(SteppedPosition::advance);
    }

    /// Advances to the next packet.
    #[inline]
    pub fn skip(&mut self) {
        self.slots.iter_mut().for_each(SteppedPosition::advance);
    }
}

/// Adds `sum` to each checksum in `checksums`.
#[inline(always)]
fn add(sums: &mut [u64; MAX_CHECKSUMS], mut checksums: u32, sum: u64) {
    while checksums != 0 {
        sums[checksums.trailing_zeros() as usize % MAX_CHECKSUMS] += sum;
        checksums &= checksums - 1;
    }
}

#[inline(always)]
fn put16(packet: &mut [u8], offset: u16, value: u16) {
    let offset = usize::from(offset);
    if let Some(place) = packet.get_mut(offset..offset + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// Writes a field of up to 8 bytes. Returns its contribution to sums.
#[inline(always)]
fn put(packet: &mut [u8], edit: &Edit, value: u64) -> u64 {
    let offset = usize::from(edit.offset);
    let Some(place) = packet.get_mut(offset..) else {
        return 0;
    };
    // Whole machine words, which are several times as fast as single bytes.
    match edit.width {
        1 => or8(place, value as u8),
        2 => or16(place, value as u16),
        4 => or32(place, value as u32),
        3 => {
            or16(place, (value >> 8) as u16);
            or8(place.get_mut(2..).unwrap_or_default(), value as u8);
        }
        6 => {
            or16(place, (value >> 32) as u16);
            or32(place.get_mut(2..).unwrap_or_default(), value as u32);
        }
        width => {
            for (place, byte) in
                place.iter_mut().zip(&value.to_be_bytes()[8 - usize::from(width.min(8))..])
            {
                *place |= byte;
            }
        }
    }
    let sum = (value >> 32) + (value & 0xffff_ffff);
    if (edit.offset + u16::from(edit.width)).is_multiple_of(2) { sum } else { sum << 8 }
}

#[inline(always)]
fn or8(place: &mut [u8], value: u8) {
    if let Some(place) = place.first_mut() {
        *place |= value;
    }
}

#[inline(always)]
fn or16(place: &mut [u8], value: u16) {
    if let Some(place) = place.first_chunk_mut() {
        *place = (u16::from_be_bytes(*place) | value).to_be_bytes();
    }
}

#[inline(always)]
fn or32(place: &mut [u8], value: u32) {
    if let Some(place) = place.first_chunk_mut() {
        *place = (u32::from_be_bytes(*place) | value).to_be_bytes();
    }
}

/// Like [`put`], for up to 16 bytes.
fn put_wide(packet: &mut [u8], edit: &Edit, value: u128) -> u64 {
    let (offset, width) = (usize::from(edit.offset), usize::from(edit.width));
    let bytes = value.to_be_bytes();
    if let Some(place) = packet.get_mut(offset..offset + width) {
        for (place, byte) in place.iter_mut().zip(&bytes[16 - width..]) {
            *place |= byte;
        }
    }
    let sum: u64 =
        bytes.as_chunks::<4>().0.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum();
    if (edit.offset + u16::from(edit.width)).is_multiple_of(2) { sum } else { sum << 8 }
}
