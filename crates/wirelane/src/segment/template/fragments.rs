//! The header blocks of IP fragments (RFC 791 section 3.2, RFC 8200 section 4.5).

use wirelane_wire::checksum::Sum;
use wirelane_wire::{Fragment, Protocol, ipv4, ipv6, udp};

use super::fields::{field, sum_but, sum_of};
use super::parts::{Fix, Transport};
use super::{HeaderTemplate, pseudo};
use crate::checksum;
use crate::frame::Offload;
use crate::segment::layout::{Layer, Layout};
use crate::segment::parameters::Parameters;
use crate::segment::stats::Refusal;

impl HeaderTemplate {
    pub(super) fn take_fragmented(
        &mut self,
        frame: &[u8],
        layout: &Layout,
        offload: &Offload,
        parameters: &Parameters,
    ) -> Result<(), Refusal> {
        if layout.layers().len() != 1 {
            return Err(Refusal::TunnelFragment);
        }
        let destination = layout.final_destination;
        let pseudo = pseudo(frame, layout.innermost(), destination, Protocol::UDP.0)?;
        let datagram = frame.get(layout.transport..).unwrap_or_default();
        let begin; // of the fragmentable part
        let len;
        let fix = match layout.innermost() {
            Layer::Ipv4 { dont_fragment: true, .. } => return Err(Refusal::DontFragment),
            Layer::Ipv4 { at, header_len, .. } => {
                begin = layout.transport;
                len = begin;
                let given = frame.get(at + ipv4::MIN_LEN..at + header_len).unwrap_or_default();
                for (to, from) in self.options.iter_mut().zip(given) {
                    *to = *from;
                }
                let options_len = given.len();
                keep_copied_options(self.options.get_mut(..options_len).unwrap_or_default());
                let fixed = sum_but(frame, at..at + ipv4::MIN_LEN, [2, 6, 10]);
                Fix::Fragment4 {
                    at: at as u16,
                    first_base: fixed.plus(Sum::of(given)),
                    base: fixed.plus(sum_of(&self.options, 0, options_len)),
                    options_len: options_len as u8,
                }
            }
            Layer::Ipv6 { at } => {
                begin = layout.fragment;
                len = begin + ipv6::FRAGMENT_LEN;
                let link = layout.fragment_link;
                let header = Fragment {
                    next_header: Protocol(*frame.get(link).ok_or(Refusal::Malformed)?),
                    offset: 0,
                    more_fragments: false,
                    identification: parameters.fragment_id,
                };
                Fix::Fragment6 { at: at as u16, link: link as u16, header }
            }
            _ => return Err(Refusal::NotIp),
        };
        // The first fragment has the whole header chain (RFC 7112), with the checksum complete: no
        // sink can do it for fragments.
        let prefix = layout.payload - begin;
        if prefix > parameters.unit {
            return Err(Refusal::MtuTooSmall);
        }
        let v6 = matches!(fix, Fix::Fragment6 { .. });
        let none = field(datagram, udp::CHECKSUM_OFFSET) == 0;
        let checksum = (offload.checksum.is_some() || (v6 && none)).then(|| {
            // The sum excludes the field itself.
            let value = datagram.get(6..8).map(Sum::of).unwrap_or_default();
            let length = Sum::of_number(datagram.len() as u64);
            let sum = checksum::sum(datagram).minus(value).plus(pseudo).plus(length);
            ((len + prefix - udp::LEN + udp::CHECKSUM_OFFSET) as u16, sum.checksum_nonzero())
        });
        self.fixes[0] = fix;
        (self.len, self.prefix, self.payload) = (len, prefix, begin);
        self.transport = Transport::Fragment { checksum };
        Ok(())
    }
}

/// Replaces options that only the first fragment may have by no-operations (RFC 791 section 3.1:
/// the first bit of an option is its copy flag).
fn keep_copied_options(mut options: &mut [u8]) {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    while let Some(&kind) = options.first() {
        let len = match kind {
            END => return,
            NO_OPERATION => 1,
            // An impossible length: the following bytes are not options.
            _ => match options.get(1).map(|len| usize::from(*len)) {
                Some(len) if len >= 2 && len <= options.len() => len,
                _ => return,
            },
        };
        let (option, rest) = options.split_at_mut(len);
        if kind & 0x80 == 0 {
            option.fill(NO_OPERATION);
        }
        options = rest;
    }
}
