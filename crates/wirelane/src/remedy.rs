//! Remedies that name a setting of this library. A program with other names for its settings, such
//! as options, words them in its own way.

use std::fmt;

/// A change after which a request succeeds. [`Display`](fmt::Display) words it for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Name other CPUs.
    Cpus,
    /// Print packets, or write a file per queue.
    PrintOrSplit,
    /// Write to named files, or to one file.
    SplitToFiles,
    /// Name the interfaces whose queues have a file each, or write one file.
    SplitInterfaces,
    /// Write packets of different link types to a file each.
    SplitLinkTypes,
    /// Filter a file by interface: the filter is invalid for packets of this link type.
    SplitFiltered(u16),
    /// Choose the queues of a file by masks.
    QueueMasks,
    /// Say which packets to take from the host, or copy them from the interface of this name.
    TakeOrCopy(String),
    /// Do not wait for a removed interface.
    NoWait,
    /// Open a TAP device for frames longer than its MTU.
    LongFrames,
    /// Send packets that a snap length cut.
    CutPackets,
    /// Give packets an Ethernet header.
    EthernetHeader,
    /// Send a pipe once, or load all of it.
    LoadOrOnce,
    /// Give the lab another name.
    LabName,
    /// Build the lab without IPv6.
    NoIpv6,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpus => "choose other CPUs",
            Self::PrintOrSplit => "print or split, not both",
            Self::SplitToFiles => "give a file name, or do not split",
            Self::SplitInterfaces => "name the interfaces, or do not split",
            Self::SplitLinkTypes => "a split capture makes a file of each interface",
            Self::SplitFiltered(link_type) => {
                return write!(f, "some packets have link type {link_type}: split the capture");
            }
            Self::QueueMasks => "choose them by a mask",
            Self::TakeOrCopy(interface) => {
                return write!(f, "give a filter, take all packets, or copy: packet:{interface}");
            }
            Self::NoWait => "do not wait for it",
            Self::LongFrames => "open it for segmentation (gso) or merging (gro)",
            Self::CutPackets => "send them with zeros at the end (pad), or short (send)",
            Self::EthernetHeader => "give them one, with two addresses",
            Self::LoadOrOnce => "name a file, send it once, or allow more memory",
            Self::LabName => "choose another name for the lab",
            Self::NoIpv6 => "leave the addresses of IPv6 out",
        })
    }
}
