//! Describes an open AF_XDP port.
//!
//! It reads back the mode in force: zero copy from the socket, native or generic from the place
//! where the program is attached.

use wirelane_os::bpf;

use super::attempt::BoundQueues;
use super::mode::Mode;
use super::plan::XdpPlan;
use crate::inspect::{TxBinding, TxWay};
use crate::port::info::{Attempt, PortInfo, PortMode};
use crate::port::spec::Backend;

impl XdpPlan {
    /// Describes the port that was opened in `mode`, after `negotiation`.
    pub(super) fn describe(
        &self,
        mode: Mode,
        bound: &BoundQueues,
        negotiation: Vec<Attempt>,
        mut notes: Vec<String>,
    ) -> PortInfo {
        if bound.zero_copy != mode.is_zero_copy() {
            let is = if bound.zero_copy { "zero copy" } else { "copying" };
            notes.push(format!("asked for {}, the kernel says {is}", mode.as_str()));
        }
        let attached = || bpf::attached(self.device.index).ok().flatten();
        let actual = match (bound.zero_copy, &bound.attachment) {
            (true, _) => PortMode::ZeroCopy,
            // Without a program, native and generic mode do not differ.
            (false, None) => PortMode::Copy,
            (false, Some(_)) => match attached().map(|program| program.mode) {
                Some(bpf::XdpMode::Generic) => PortMode::Generic,
                Some(_) => PortMode::Native,
                None => mode.of_port(),
            },
        };
        if actual == PortMode::Generic && self.device.shifts_queues() {
            notes.push(format!(
                "in generic mode packets of queue 1 of {} arrive on queue 0, those of queue 2 \
                 on queue 1, and so on: the kernel misreads the queue number that this driver \
                 records",
                self.device.name
            ));
        }
        if actual == PortMode::Generic && self.receive && self.intact {
            let name = &self.device.name;
            notes.push(format!(
                "in generic mode a long packet of segmentation offload or GRO is passed on \
                 whole, or dropped if it exceeds a frame. packet:{name} recognises such \
                 packets. To avoid them: `ethtool -K {name} gro off lro off`, and on the other \
                 end of a veth pair `ethtool -K IF tso off gso off tx-udp-segmentation off`"
            ));
        }
        if let Some(attachment) = bound.attachment.as_ref().filter(|_| self.receive) {
            notes.extend(self.missing(mode, actual, attachment));
        }
        if self.transmit && self.config.tx_timestamps {
            notes.push(
                "tx_timestamps=on: up to a quarter of the frames of each queue stay with packets \
                 that were sent, until a program takes these with their times; `wirelane forward` \
                 does not"
                    .to_owned(),
            );
        }
        if bound.clock.is_some() {
            notes
                .push("the device sends each packet at its time, by a clock of its own".to_owned());
        }
        let queues: Vec<_> = self.requests.iter().map(|request| request.number).collect();
        let sends = queues.iter().filter(|_| self.transmit);
        PortInfo {
            tx_queues: sends.map(|queue| TxBinding::new(*queue, TxWay::Exact)).collect(),
            interface: Some(self.device.name.clone()),
            mac: self.device.mac,
            queues,
            negotiation,
            notes,
            link_type: self.device.link_type,
            hardware: self.device.hardware.clone(),
            speed: self.device.speed,
            snaplen: self.snaplen,
            // Packets are timestamped when they are taken from the ring.
            lateness: 0,
            launches: bound.clock.is_some(),
            ..PortInfo::new(&self.spec, Backend::Xdp, actual)
        }
    }
}
