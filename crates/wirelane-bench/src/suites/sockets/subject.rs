//! The subjects of the suite.

use wirelane::port::Spec;
use wirelane_os::bpf::XdpMode;

use crate::peers::testpmd;
use crate::task::{PACED, Task};

pub(super) const XDP_DROP: &str = "xdp-drop";
pub(super) const XDP_REDIRECT: &str = "xdp-redirect";
pub(super) const PEER: &str = testpmd::PROGRAM;

/// A subject: a port, a kernel program without a port, or another program.
#[derive(Clone, Debug)]
pub(super) enum SocketsSubject {
    /// A port and its task.
    Port(Spec, Task),
    /// An XDP program that drops packets at the far end of the lab.
    XdpDrop(XdpMode),
    /// An XDP program at the far end that sends packets back.
    XdpRedirect(XdpMode),
    /// Another program.
    Peer(Task, Over),
}

/// The devices of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The interface at the far end of the lab.
    Xdp,
    /// Two null devices that generate packets. It forwards from each to the other.
    Nothing,
}

/// One case.
pub(super) struct SocketsMeasurement {
    pub(super) subject: SocketsSubject,
    /// The name of the port in the list of skipped cases.
    pub(super) label: &'static str,
    pub(super) size: usize,
    pub(super) in_lab: bool,
    /// Packets per second that are sent to it, if the case has a fixed rate.
    pub(super) paced: Option<u64>,
}

impl SocketsMeasurement {
    pub(super) fn new(
        subject: SocketsSubject,
        label: &'static str,
        size: usize,
        in_lab: bool,
    ) -> Self {
        Self { subject, label, size, in_lab, paced: None }
    }

    pub(super) fn case(&self) -> &'static str {
        match &self.subject {
            _ if self.paced.is_some() => PACED,
            SocketsSubject::Port(_, kind) | SocketsSubject::Peer(kind, _) => kind.as_str(),
            SocketsSubject::XdpDrop(_) => XDP_DROP,
            SocketsSubject::XdpRedirect(_) => XDP_REDIRECT,
        }
    }

    pub(super) fn is_peer(&self) -> bool {
        matches!(self.subject, SocketsSubject::Peer(..))
    }
}
