//! Requests to a running command, and the replies.
//!
//! A request is a name with its parameters: `"statistics"`, or `{"select": {"port": 1, "rx":
//! "0,2"}}`. Unknown names and parameters are refused.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wirelane::mask::MAX_QUEUES;
use wirelane::{Error, ErrorKind, QueueMask, QueueSet, Result};

use crate::{output, remedies};

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ControlRequest {
    /// Which command is this? Answered by [`Identity`].
    Identity,
    /// All counters, as a document of schema `wirelane.stats/1`.
    Statistics,
    /// Read or change which packets are selected at a port. Answered by [`MaskChange`].
    Select(Select),
    /// Read or change GSO and GRO at a port. Answered by [`PortOffload`].
    Offload(OffloadChange),
    /// Write the packets that a recording holds in memory, and the packets that follow. Answered by
    /// [`Triggered`].
    Trigger,
}

/// A running command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) command: String,
    pub(crate) version: String,
    pub(crate) elapsed_s: f64,
    /// The ports, as the user wrote them.
    pub(crate) ports: Vec<String>,
    /// The directory that it records into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) store: Option<String>,
    /// The library of Wirelane with which another program captures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) library: Option<String>,
}

/// A change of the selected packets. Absent fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Select {
    /// Position of the port; not needed if there is only one.
    pub(crate) port: Option<usize>,
    /// A list, `all` or `none`; `+LIST` sets queues, `-LIST` clears them.
    pub(crate) rx: Option<String>,
    pub(crate) tx: Option<String>,
    pub(crate) other: Option<bool>,
    pub(crate) enabled: Option<bool>,
    pub(crate) filter: Option<FilterChange>,
}

/// A new filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FilterChange {
    /// Take all packets that the masks select.
    None,
    /// An expression, or a program as `tcpdump -ddd` prints it.
    Text(String),
}

/// The packets that are selected at a port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MaskChange {
    pub(crate) port: usize,
    pub(crate) enabled: bool,
    pub(crate) rx: String,
    pub(crate) tx: String,
    pub(crate) other: bool,
    pub(crate) filter: Option<String>,
}

impl fmt::Display for MaskChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = if self.other { "on" } else { "off" };
        write!(f, "rx {} tx {} other {other}", self.rx, self.tx)?;
        if !self.enabled {
            f.write_str(" (disabled: everything passes)")?;
        }
        match &self.filter {
            Some(filter) => write!(f, " filter {}", output::printable(filter)),
            None => Ok(()),
        }
    }
}

/// A change of GSO and GRO. Absent fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OffloadChange {
    /// Position of the port; not needed if there is only one.
    pub(crate) port: Option<usize>,
    /// As a spec has them: `tcp`, `udp`, `tcp,udp`, `on` or `off`.
    pub(crate) gso: Option<String>,
    pub(crate) gro: Option<String>,
    pub(crate) gso_max: Option<u32>,
}

/// GSO and GRO at a port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PortOffload {
    pub(crate) port: usize,
    pub(crate) gso: String,
    pub(crate) gro: String,
    pub(crate) gso_max: u32,
}

impl fmt::Display for PortOffload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gso {} gro {} gso_max {}", self.gso, self.gro, self.gso_max)
    }
}

/// The effect of a trigger.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Triggered {
    /// How many triggers there were, this one included.
    pub(crate) triggers: u64,
    /// How far back packets are kept, in seconds.
    pub(crate) before_s: f64,
    /// For how long packets are written from now on, in seconds.
    pub(crate) after_s: f64,
}

impl fmt::Display for Triggered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { triggers, before_s, after_s } = self;
        write!(
            f,
            "trigger {triggers}: packets of the last {before_s} s and the next {after_s} s are kept"
        )
    }
}

/// A reply.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// The result of the request.
    Done(Value),
    /// The error of the request.
    Refused(RefusalMessage),
}

/// An [`Error`] as sent to the client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RefusalMessage {
    /// Whether the request itself was wrong; otherwise its execution failed.
    usage: bool,
    /// Object, cause and what to do about it, on one line.
    error: String,
}

impl ControlRequest {
    /// Parses a line from an untrusted client.
    ///
    /// # Errors
    /// It is not text, or not a request.
    pub(super) fn parse(line: &[u8]) -> Result<Self> {
        serde_json::from_slice(line).map_err(|error| {
            Error::usage("request", error.to_string())
                .help("use the same version of wirelane as the running command")
        })
    }
}

impl Select {
    /// Whether the request changes nothing.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self { port: self.port, ..Self::default() }
    }

    /// Applies this change to `mask`; "all" means `queues` queues.
    ///
    /// # Errors
    /// A list of queues is malformed.
    pub(super) fn apply(&self, mut mask: QueueMask, queues: usize) -> Result<QueueMask> {
        if let Some(text) = &self.rx {
            change(&mut mask.rx, text, queues)?;
        }
        if let Some(text) = &self.tx {
            change(&mut mask.tx, text, queues)?;
        }
        mask.other = self.other.unwrap_or(mask.other);
        mask.enabled = self.enabled.unwrap_or(mask.enabled);
        Ok(mask)
    }
}

impl RefusalMessage {
    /// The error as the other side shows it.
    pub(super) fn into_error(self, object: String) -> Error {
        match self.usage {
            true => Error::usage(object, self.error),
            false => Error::failed(object, self.error),
        }
    }
}

impl From<&Error> for RefusalMessage {
    fn from(error: &Error) -> Self {
        Self { usage: error.kind() == ErrorKind::Usage, error: remedies::text(error) }
    }
}

/// Replaces `set`, or sets (`+0,2`) or clears (`-0,2`) queues of it.
fn change(set: &mut QueueSet, text: &str, count: usize) -> Result<()> {
    let (sign, list) = match text.split_at_checked(1) {
        Some((sign @ ("+" | "-"), list)) => (Some(sign), list),
        _ => (None, text),
    };
    let list: QueueSet = list.parse()?;
    match (sign, &list) {
        (None, _) | (Some("+"), QueueSet::All) => *set = list,
        (Some("+"), _) => list.members(MAX_QUEUES).for_each(|queue| {
            set.insert(queue);
        }),
        (_, QueueSet::All) => *set = QueueSet::NONE,
        _ => list.members(MAX_QUEUES).for_each(|queue| set.remove(queue, count)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn masks_are_set_cleared_and_replaced() {
        let mut set = QueueSet::All;
        for (text, expected) in
            [("-1", "0,2,3"), ("+1", "0-3"), ("-0-2", "3"), ("none", "none"), ("+2", "2")]
        {
            change(&mut set, text, 4).unwrap();
            assert_eq!(set.to_string(), expected, "{text}");
        }
        change(&mut set, "-all", 4).unwrap();
        assert!(set.is_empty() && change(&mut set, "+x", 4).is_err());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (text, part) in [
            ("", "EOF"),
            ("{}", "expected value"),
            ("null", "expected"),
            ("\"no_such\"", "unknown variant `no_such`"),
            ("{\"select\":{\"rx_queues\":\"0\"}}", "unknown field `rx_queues`"),
            ("{\"select\":{\"port\":-1}}", "invalid value"),
            ("{\"select\":{\"rx\":\"0\",\"rx\":\"1\"}}", "duplicate field `rx`"),
            ("{\"offload\":{\"gso_max\":4294967296}}", "invalid value"),
            ("{\"select\":{\"filter\":\"tcp\"}}", "unknown variant `tcp`"),
            ("{\"select\":{},\"statistics\":null}", "expected value"),
            ("\"identity\" \"identity\"", "trailing characters"),
        ] {
            let error = ControlRequest::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        // Nested deeper than any valid request.
        assert!(ControlRequest::parse("[".repeat(60_000).as_bytes()).is_err());
        assert!(ControlRequest::parse(b"\xff\xfe").is_err());
    }

    fn any_select() -> impl Strategy<Value = Select> {
        let text =
            || proptest::option::of("[-+]?(all|none|[0-9]{1,5}|.{0,8})(,[0-9]{1,3}-[0-9]{1,4})?");
        let filter = proptest::option::of(prop_oneof![
            Just(FilterChange::None),
            ".{0,40}".prop_map(FilterChange::Text)
        ]);
        let (port, bit) = (any::<Option<usize>>(), || any::<Option<bool>>());
        (port, text(), text(), bit(), bit(), filter).prop_map(
            |(port, rx, tx, other, enabled, filter)| Select {
                port,
                rx,
                tx,
                other,
                enabled,
                filter,
            },
        )
    }

    proptest! {
        /// Any bytes are a request, or an error on one line.
        #[test]
        fn any_line_is_parsed_or_refused(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Err(error) = ControlRequest::parse(&line) {
                prop_assert!(!error.to_string().contains(char::is_control));
            }
        }

        /// Also for text that resembles a request.
        #[test]
        fn any_json_is_parsed_or_refused(
            name in "(identity|statistics|select|offload|trigger|.{0,5})",
            key in "(port|rx|tx|other|enabled|filter|gso|gro|gso_max|.{0,5})",
            value in "(null|true|-?[0-9]{1,25}|\"[^\"]{0,10}\"|\\{\"text\":\"x\"\\}|\\[\\])",
        ) {
            let text = format!("{{{name:?}:{{{key:?}:{value}}}}}");
            if let Err(error) = ControlRequest::parse(text.as_bytes()) {
                prop_assert!(!error.to_string().contains(char::is_control));
            }
        }

        /// A written request is one line, and is read back unchanged.
        #[test]
        fn requests_come_as_they_went(select in any_select()) {
            let request = ControlRequest::Select(select);
            let line = serde_json::to_vec(&request).unwrap();
            prop_assert!(!line.contains(&b'\n'));
            prop_assert_eq!(ControlRequest::parse(&line).unwrap(), request);
        }

        /// Any change gives masks or an error, and an empty one changes nothing.
        #[test]
        fn changes_apply_or_are_refused(select in any_select(), queues in 0..5000_usize) {
            let before = QueueMask { rx: (0..3).collect(), ..QueueMask::ALL };
            match select.apply(before.clone(), queues) {
                Ok(mask) => prop_assert!(mask == before || !select.is_empty()),
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Usage),
            }
        }
    }
}
