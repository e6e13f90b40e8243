//! Both ends of a packet, from which its Community ID is computed.

use wirelane_wire::Protocol;

use super::key::{Hash, TextKey};
use super::row::{PacketRow, has};
use crate::{community_digest, write_community_id};

/// Both ends of a packet, in its direction.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Talk {
    ends: [TextKey; 2],
    /// Type and code of ICMP; none of a fragment.
    ports: Option<[u16; 2]>,
    protocol: u8,
}

impl Talk {
    #[inline]
    pub(super) fn of(row: &PacketRow) -> Self {
        let ports = match row.has {
            it if it & has::FRAGMENT != 0 => None,
            it if it & has::ICMP != 0 => Some(row.icmp.map(u16::from)),
            _ => Some(row.ports),
        };
        Self { ends: row.ends, ports, protocol: row.protocol }
    }

    /// Appends the ID.
    pub(super) fn write(self, to: &mut String) {
        let ends = self.ends.map(TextKey::address);
        let digest = community_digest(Protocol(self.protocol), ends, self.ports);
        let mut text = Vec::new();
        write_community_id(&digest, &mut text);
        to.push_str(std::str::from_utf8(&text).unwrap_or_default());
    }
}

impl Hash for Talk {
    #[inline]
    fn hash(&self) -> u64 {
        let [a, b] = self.ends.map(|end| end.hash());
        let [p, q] = self.ports.unwrap_or_default().map(u64::from);
        let numbers = p << 32 | q << 8 | u64::from(self.protocol);
        TextKey { bits: [a ^ b.rotate_left(32), numbers], is_v6: false }.hash()
    }
}
