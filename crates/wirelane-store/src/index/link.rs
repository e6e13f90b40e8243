//! From the link layer to the network header: types and VLAN tags.

use super::layout::{Layout, TAGS};
use super::load::{IPV4, IPV6, short};
use crate::key::Field;

/// Who takes keys, by their width.
pub(super) trait Visit {
    /// Of `EtherType`, `Vlan`, `Protocol`, `Port`.
    fn short(&mut self, field: Field, value: u16);
    /// Of `Ipv4`, `Flow`.
    fn word(&mut self, field: Field, value: u32);
    /// Of `Ipv6`.
    fn ipv6(&mut self, address: u128);
}

/// The network header of a packet and what follows, and its type.
#[derive(Clone, Copy)]
pub(super) struct Network<'a> {
    pub(super) ether_type: u16,
    pub(super) data: &'a [u8],
}

/// What [`visit_keys`] does with the part before the network header.
#[inline]
pub(super) fn visit_link<'a>(
    link_type: u16,
    data: &'a [u8],
    visit: &mut impl Visit,
) -> Option<Network<'a>> {
    let layout = Layout::of(link_type)?;
    let Some(mut at) = layout.ether_type else {
        let ether_type = match data.first()? & 0xF0 {
            0x40 => IPV4,
            0x60 => IPV6,
            _ => return None,
        };
        visit.short(Field::EtherType, ether_type);
        return Some(Network { ether_type, data });
    };
    let mut ether_type = short(data, at)?;
    visit.short(Field::EtherType, ether_type);
    let mut network = layout.network;
    for _ in 0..Layout::MAX_TAGS {
        if !layout.tags || !TAGS.contains(&ether_type) {
            break;
        }
        visit.short(Field::Vlan, short(data, at + 2)? & 0x0FFF);
        (at, network) = (at + 4, network + 4);
        ether_type = short(data, at)?;
        visit.short(Field::EtherType, ether_type);
    }
    // A program may load the type of a cooked packet that ends before the network header.
    Some(Network { ether_type, data: data.get(network..)? })
}
