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
pub(super) enum Subject {
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
pub(super) struct Measured {
    pub(super) subject: Subject,
    /// The name of the port in the list of skipped cases.
    pub(super) label: &'static str,
    pub(super) size: usize,
    pub(super) in_lab: bool,
    /// Packets per second that are sent to it, if the case has a fixed rate.
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
