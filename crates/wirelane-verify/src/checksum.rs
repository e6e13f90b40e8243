//! TCP and UDP checksums, complete or left to the hardware.

use wirelane_wire::Protocol;
use wirelane_wire::checksum::Sum;

use crate::packet::{Ip, Left};
use crate::record::FindingRecorder;
use crate::rule::Rule;

/// The pseudo-header.
#[derive(Clone, Copy)]
pub(crate) struct Pseudo {
    pub(crate) addresses: Sum,
    pub(crate) protocol: Protocol,
    pub(crate) length: u32,
}

impl Pseudo {
    /// The sum without the length, which some stacks leave to segmenting hardware.
    fn short(&self) -> Sum {
        self.addresses.plus(Sum::of_field(self.protocol.0.into()))
    }

    pub(crate) fn sum(&self) -> Sum {
        self.short().plus(Sum::of_number(self.length.into()))
    }
}

/// Checks the checksum `field` of bytes with the sum `covered`. `inner` is the pending change by
/// the hardware within these bytes. Returns the total pending change. `long` means that the packet
/// was merged or will be segmented.
pub(crate) fn check(
    recorder: &mut FindingRecorder<'_>,
    rule: Rule,
    covered: Sum,
    pseudo: &Pseudo,
    field: u16,
    inner: Left,
    long: bool,
) -> Left {
    let with = pseudo.sum();
    let total = covered.plus(with);
    let whole = total.plus(inner.unwrap_or_default());
    if total.is_valid() || whole.is_valid() {
        recorder.checked(rule);
        return inner;
    }
    let rest = whole.minus(Sum::of_field(field));
    let right = if rule == Rule::UdpChecksum { rest.checksum_nonzero() } else { rest.checksum() };
    let (expected, found) = (format_args!("{right:#06x}"), format_args!("{field:#06x}"));
    if field == with.partial() || field == pseudo.short().partial() {
        let found = format_args!("{field:#06x}, the sum of the pseudo-header");
        recorder.left(rule, expected, found);
        let change = Sum::of_field(right).minus(Sum::of_field(field));
        return Some(inner.unwrap_or_default().plus(change));
    }
    if long {
        // Hardware that merges segments (LRO) may leave any checksum.
        recorder.left(rule, expected, found);
    } else {
        recorder.check(rule, true, expected, found);
    }
    inner
}

/// The pseudo-header for `length` bytes; `None` if its addresses are unknown.
pub(crate) fn pseudo(ip: &Ip<'_>, length: usize) -> Option<Pseudo> {
    let length = u32::try_from(length).ok()?;
    ip.addresses.map(|addresses| Pseudo { addresses, protocol: ip.protocol, length })
}
