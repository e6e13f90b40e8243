//! Several ports, in one process or several, that share the packets of an interface: the kernel
//! gives each packet to one of them.
//!
//! They are members of one fanout group of the kernel, which has a number. A member joins when it
//! starts. Its program may still reject a packet; no other member receives that packet. When a
//! member ends, the others share its packets.

use rustix::io::Errno;
use wirelane_os::packet::{Fanout, PacketSocket, SockFilter};

use crate::error::{Error, Result};
use crate::mask::{Class, QueueSet};
use crate::port::device::Device;
use crate::port::spec::Spec;
use crate::port::steering::selection::{Lot, by_queue};

/// How an interface is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sharing {
    by: GroupingKey,
    /// The user's number for this group of ports.
    number: u16,
}

/// Which packets stay together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupingKey {
    Queue,
    Flow,
}

impl Sharing {
    /// Reads `queue`, `flow`, `queue:7` or `flow:7`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (word, number) = text.split_once(':').unwrap_or((text, "0"));
        let by = match word {
            "queue" => GroupingKey::Queue,
            "flow" => GroupingKey::Flow,
            _ => return None,
        };
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        Some(Self { by, number: digits.then(|| number.parse().ok())?? })
    }
}

/// The membership of a port in a group.
pub(super) struct Membership {
    sharing: Sharing,
    /// The kernel's number for the group.
    group: u16,
    interface: String,
    outgoing: bool,
    /// The queues that the spec names.
    queues: Option<QueueSet>,
    lot: Lot,
    distribution: Vec<SockFilter>,
}

impl Membership {
    /// The membership of the port that `spec` names.
    pub(super) fn new(sharing: Sharing, spec: &Spec, device: &Device) -> Self {
        Self {
            sharing,
            group: group(sharing, spec, device),
            interface: device.name.clone(),
            outgoing: device.outgoing,
            queues: spec.queues.clone(),
            lot: Lot {
                mapping: device.mapping,
                rx_queues: device.rx_queues,
                tx_queues: device.tx_queues,
            },
            distribution: by_queue(device.mapping),
        }
    }

    /// Joins the group: the kernel now gives `socket` its share of the packets.
    ///
    /// # Errors
    /// The group is full, or another program uses its number.
    pub(super) fn join(&self, socket: &PacketSocket) -> Result<()> {
        let by = match self.sharing.by {
            GroupingKey::Queue => Fanout::Program,
            GroupingKey::Flow => Fanout::Flow,
        };
        let joined = socket.share_fanout(self.group, by, self.outgoing).and_then(|()| match by {
            // Every member sets the same program.
            Fanout::Program => socket.set_fanout_program(&self.distribution),
            Fanout::Flow | Fanout::Extended => Ok(()),
        });
        joined.map_err(|error| {
            let help = match error.errno() {
                Some(errno) if errno == Errno::NOSPC.raw_os_error() => {
                    "at most 256 ports share an interface".to_owned()
                }
                _ => format!(
                    "if another program has fanout group {}, another number helps, as in \
                     share=flow:{}",
                    self.group,
                    self.sharing.number.wrapping_add(1)
                ),
            };
            Error::os(self.interface.as_str(), error).help(help)
        })
    }

    /// A program that accepts the packets for which `takes` is true, as `Selection::program` does
    /// for one queue and class.
    pub(super) fn program(
        &self,
        takes: impl Fn(Class, u16) -> bool,
        snaplen: u32,
        filter: Option<&[SockFilter]>,
    ) -> Vec<SockFilter> {
        let is_taken = |class, queue| {
            let is_open = class == Class::Other
                || self.queues.as_ref().is_none_or(|queues| queues.contains(usize::from(queue)));
            is_open && takes(class, queue)
        };
        self.lot.program(is_taken, snaplen, filter)
    }
}

/// The kernel's number for a group. A group has one interface and one kind, and all members must
/// select the same packets; so the number is a hash of these. The kernel chooses numbers from the
/// lower half first, so the upper half is free unless there are very many groups
/// (`fanout_find_new_id`).
fn group(sharing: Sharing, spec: &Spec, device: &Device) -> u16 {
    let queues = spec.queues.as_ref().map(QueueSet::to_string).unwrap_or_default();
    let kind = [u8::from(sharing.by == GroupingKey::Flow), u8::from(device.outgoing)];
    let parts: [&[u8]; 4] =
        [&device.index.to_le_bytes(), &sharing.number.to_le_bytes(), &kind, queues.as_bytes()];
    // FNV-1a: the same in every process and version.
    let hash = parts
        .concat()
        .iter()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    0x8000 | (hash ^ hash >> 15) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_write() {
        let sharing = |by, number| Some(Sharing { by, number });
        assert_eq!(Sharing::parse("queue"), sharing(GroupingKey::Queue, 0));
        assert_eq!(Sharing::parse("flow"), sharing(GroupingKey::Flow, 0));
        assert_eq!(Sharing::parse("flow:65535"), sharing(GroupingKey::Flow, 65535));
        for text in
            ["", "flows", "flow:", "flow:-1", "flow:+1", "flow:65536", "queue:x", "flow:1:2"]
        {
            assert_eq!(Sharing::parse(text), None, "{text}");
        }
    }
}
