//! The cases of the suite, and their conditions.

use crate::effort::Effort;

pub(super) const SUITE: &str = "gso";
/// Percent of a CPU that need no quota.
pub(super) const WHOLE: u64 = 100;
/// Flows at once in a report, in addition to the cases with one flow.
const SEVERAL: u16 = 4;

/// A share for each clock frequency of the 2014 FreeBSD GSO paper: 2.93, 2.53, 2.00, 1.46, 1.05 and
/// 0.45 GHz.
pub(super) const SHARES: [u64; 6] = [100, 86, 68, 50, 36, 15];
/// The source's four tables, merging of received packets, and paths between the devices of two
/// virtual machines.
pub(super) const CASES: [&str; 8] =
    ["tcp4", "tcp6", "udp4", "udp6", "gro-tcp4", "gro-tcp6", "vm-tcp4", "vm-tcp6"];

/// The cases of a run.
#[derive(Clone, Debug)]
pub(super) struct GsoCases {
    /// Shares of a CPU, in percent.
    pub(super) shares: Vec<u64>,
    /// Only these of [`CASES`], unless there are none.
    pub(super) cases: Vec<String>,
    /// Only these of [`SegmentationPlace::ALL`], unless there are none.
    pub(super) offloads: Vec<String>,
    /// Backend of the port at the wire: `packet` or `xdp`.
    pub(super) port: &'static str,
    /// Repeat TCP with iperf3, if it is installed.
    pub(super) iperf: bool,
    /// Connections, or senders of datagrams, at once.
    pub(super) flows: u16,
    /// Repeats the first line of the source's tables with this number of flows.
    pub(super) several: Option<u16>,
}

impl GsoCases {
    /// The tables of an effort.
    pub(super) fn of(effort: &Effort) -> Self {
        Self {
            shares: SHARES.to_vec(),
            cases: Vec::new(),
            offloads: Vec::new(),
            port: "packet",
            iperf: !effort.quick,
            flows: 1,
            several: effort.brief.then_some(SEVERAL),
        }
    }
}

/// The transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferProtocol {
    Tcp,
    Udp,
}

/// The place where packets of the wire's size are made; `bed` has the table. The source's "none" is
/// [`SegmentationPlace::Stack`] for TCP, which makes every segment itself, and
/// [`SegmentationPlace::None`] for UDP, which the stack fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentationPlace {
    /// The device, without Wirelane.
    Kernel,
    /// The device behind Wirelane.
    Device,
    /// The kernel's software behind Wirelane.
    Partial,
    Wirelane,
    /// The kernel's software before Wirelane.
    None,
    /// TCP itself.
    Stack,
}

/// One line of a table of the source, in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GsoCase {
    pub(super) protocol: TransferProtocol,
    pub(super) v6: bool,
    pub(super) way: TransferDirection,
    pub(super) offloading: SegmentationPlace,
    /// Percent of one CPU.
    pub(super) cpu: u64,
    /// Connections, or senders of datagrams, at once.
    pub(super) flows: u16,
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferDirection {
    /// From the TAP device to the wire.
    Out,
    /// From the wire to the TAP device: the case compares merging.
    In,
    /// From one TAP device to another, as between two virtual machines of a host.
    Between,
}

impl GsoCase {
    pub(super) fn name(&self) -> &'static str {
        match (self.protocol, self.v6, self.way) {
            (TransferProtocol::Tcp, false, TransferDirection::Out) => "tcp4",
            (TransferProtocol::Tcp, true, TransferDirection::Out) => "tcp6",
            (TransferProtocol::Tcp, false, TransferDirection::In) => "gro-tcp4",
            (TransferProtocol::Tcp, true, TransferDirection::In) => "gro-tcp6",
            (TransferProtocol::Tcp, false, TransferDirection::Between) => "vm-tcp4",
            (TransferProtocol::Tcp, true, TransferDirection::Between) => "vm-tcp6",
            (TransferProtocol::Udp, false, _) => "udp4",
            (TransferProtocol::Udp, true, _) => "udp6",
        }
    }
}

impl SegmentationPlace {
    pub(super) const ALL: [Self; 6] =
        [Self::Kernel, Self::Device, Self::Partial, Self::Wirelane, Self::None, Self::Stack];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Device => "device",
            Self::Partial => "partial",
            Self::Wirelane => "wirelane",
            Self::None => "none",
            Self::Stack => "stack",
        }
    }

    /// Whether Wirelane passes long frames to the device.
    pub(super) const fn is_handed_on(self) -> bool {
        matches!(self, Self::Device | Self::Partial)
    }
}

impl TransferProtocol {
    /// The offload that the source calls "none".
    pub(super) const fn none_of_source(self) -> SegmentationPlace {
        match self {
            Self::Tcp => SegmentationPlace::Stack,
            Self::Udp => SegmentationPlace::None,
        }
    }
}

/// Whether iperf3 repeats a case.
pub(super) fn is_repeated(case: &GsoCase) -> bool {
    let is_compared =
        matches!(case.offloading, SegmentationPlace::Wirelane | SegmentationPlace::None);
    is_compared
        && case.protocol == TransferProtocol::Tcp
        && case.way == TransferDirection::Out
        && case.cpu == WHOLE
}

/// All cases, in the order of a round.
pub(super) fn cases(tables: &GsoCases) -> Vec<GsoCase> {
    let (tcp, udp) = (TransferProtocol::Tcp, TransferProtocol::Udp);
    let mut cases = Vec::new();
    for cpu in &tables.shares {
        for (protocol, way) in [
            (tcp, TransferDirection::Out),
            (udp, TransferDirection::Out),
            (tcp, TransferDirection::In),
            (tcp, TransferDirection::Between),
        ] {
            for v6 in [false, true] {
                for offloading in SegmentationPlace::ALL {
                    let (cpu, flows) = (*cpu, tables.flows);
                    cases.push(GsoCase { protocol, v6, way, offloading, cpu, flows });
                }
            }
        }
    }
    let is_wanted = |list: &[String], name| list.is_empty() || list.iter().any(|one| one == name);
    let most = tables.shares.iter().max().copied();
    cases.retain(|case| {
        // The stack always fragments UDP, never a port. Before the TAP device, only Wirelane
        // merges. Only `packet:` and `tap:` pass long frames on. Between TAP devices, every packet
        // passes Wirelane, and the kernel cannot segment behind a port.
        let is_handed_on = case.offloading.is_handed_on();
        let is_of_tcp = is_handed_on || case.offloading == SegmentationPlace::Stack;
        let can_be = match case.way {
            TransferDirection::Out => case.protocol == tcp || !is_of_tcp,
            TransferDirection::In => !is_of_tcp,
            TransferDirection::Between => {
                !matches!(case.offloading, SegmentationPlace::Kernel | SegmentationPlace::Partial)
            }
        };
        // Cases that are not in the source are measured only with the largest share of a CPU,
        // unless the user names cases.
        let is_asked_for = !tables.cases.is_empty() || !tables.offloads.is_empty();
        can_be
            && (tables.port == "packet" || !is_handed_on)
            && (Some(case.cpu) == most
                || is_asked_for
                || !(is_handed_on || case.way != TransferDirection::Out))
            && is_wanted(&tables.cases, case.name())
            && is_wanted(&tables.offloads, case.offloading.as_str())
    });
    let is_first = |case: &&GsoCase| {
        Some(case.cpu) == most
            && case.way == TransferDirection::Out
            && !case.offloading.is_handed_on()
    };
    let first: Vec<_> = cases.iter().filter(is_first).copied().collect();
    let several = tables.several.into_iter();
    cases
        .extend(several.flat_map(|flows| first.iter().map(move |case| GsoCase { flows, ..*case })));
    cases
}
