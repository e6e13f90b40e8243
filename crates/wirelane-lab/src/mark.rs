//! The mark that identifies a lab's namespace.
//!
//! The mark is the alias of the namespace's loopback interface. Unlike a list in a file, or a
//! number that the kernel reuses, it cannot outlive the namespace or appear on another one. It
//! exists before the namespace has a name. A name may outlive its namespace, so the file under the
//! mount has the same mark.

use std::fmt;

use super::shape::LabConfig;
use super::site::Side;

/// The mark of one end of a named lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabMark {
    /// The lab's name.
    pub(super) lab: String,
    /// The end.
    pub(super) side: Side,
    /// The lab's shape; `None` if another version of this program wrote a shape that this one
    /// cannot read.
    pub(super) config: Option<LabConfig>,
}

const PREFIX: &str = "wirelane lab ";

impl LabMark {
    /// Reads a mark; `None` for any other text.
    pub(super) fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix(PREFIX)?.trim_end_matches('\n');
        let (end, shape) = text.split_once(": ")?;
        let (lab, side) = end.rsplit_once('/')?;
        Some(Self { lab: lab.to_owned(), side: side.parse().ok()?, config: shape.parse().ok() })
    }

    /// Whether it belongs to this end of this lab.
    pub(super) fn is_of(&self, lab: &str, side: Side) -> bool {
        self.lab == lab && self.side == side
    }
}

impl fmt::Display for LabMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}/{}: ", self.lab, self.side)?;
        match &self.config {
            Some(config) => config.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{IPV6_NETWORK, Taps};

    #[test]
    fn marks_are_read_back_and_fit() {
        let longest = LabConfig {
            queues: 4096,
            mtu: 65_535,
            ipv4: "255.255.255.252/30".parse().unwrap(),
            ipv6: Some("fd57:6972:656c:6972:656c:6972:656c:6970/126".parse().unwrap()),
            offloads: Some("tx,tso,uso,gso,gro".parse().unwrap()),
            taps: Taps::Neither,
        };
        for config in
            [LabConfig::default(), longest, LabConfig { ipv6: Some(IPV6_NETWORK), ..longest }]
        {
            let mark = LabMark { lab: "n".repeat(32), side: Side::B, config: Some(config) };
            // Limits of IFALIASZ and `names::look`.
            assert!(mark.to_string().len() < 256, "{}", mark.to_string().len());
            assert_eq!(LabMark::read(&mark.to_string()).unwrap(), mark);
        }
    }

    #[test]
    fn marks_of_another_version_are_still_ours() {
        let mark = LabMark::read("wirelane lab x/a: colour=blue\n").unwrap();
        assert!(mark.is_of("x", Side::A) && !mark.is_of("x", Side::B) && !mark.is_of("y", Side::A));
        assert_eq!(mark.config, None);
        for text in ["", "wirelane lab x", "wirelane lab x/c: ", "a wirelane lab x/a: "] {
            assert_eq!(LabMark::read(text), None, "{text:?}");
        }
    }
}
