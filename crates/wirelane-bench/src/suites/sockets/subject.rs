//! What is measured, and its samples.

use wirelane::port::Spec;
use wirelane_os::bpf::XdpMode;

use crate::peers::testpmd;
use crate::task::{PACED, Task};

pub(super) const XDP_DROP: &str = "xdp-drop";
pub(super) const XDP_REDIRECT: &str = "xdp-redirect";
pub(super) const PEER: &str = testpmd::PROGRAM;

/// What is measured: a port, or the kernel without one.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// What is done with the packets of a port.
    Port(Spec, Task),
    /// An XDP program that drops what arrives at the far end of the lab.
    XdpDrop(XdpMode),
    /// An XDP program there that sends back what arrives.
    XdpRedirect(XdpMode),
    /// Another program.
    Peer(Task, Over),
}

/// What it receives from and sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The interface at the far end of the lab.
    Xdp,
    /// Two devices that make packets out of nothing; from each it forwards to the other.
    Nothing,
}

/// One case.
pub(super) struct Measured {
    pub(super) subject: Subject,
    /// The name of the port in the list of what was skipped.
    pub(super) label: &'static str,
    pub(super) size: usize,
    pub(super) in_lab: bool,
    /// Packets per second that are sent to it, if that belongs to the case.
    pub(super) paced: Option<u64>,
}

impl Measured {
    pub(super) fn new(subject: Subject, label: &'static str, size: usize, in_lab: bool) -> Self {
        Self { subject, label, size, in_lab, paced: None }
    }

    pub(super) fn case(&self) -> &'static str {
        match &self.subject {
            _ if self.paced.is_some() => PACED,
            Subject::Port(_, kind) | Subject::Peer(kind, _) => kind.as_str(),
            Subject::XdpDrop(_) => XDP_DROP,
            Subject::XdpRedirect(_) => XDP_REDIRECT,
        }
    }

    pub(super) fn is_peer(&self) -> bool {
        matches!(self.subject, Subject::Peer(..))
    }
}
