//! The user's name for a port: `[backend:]NAME[@QUEUES][?key=value[&key=value…]]`.
//!
//! ```text
//! eth0     xdp:eth0@0-3?mode=zerocopy     packet:eth0@1,3     sim:4?rate=max&size=imix
//! ```
//!
//! Every port has the keys `gso`, `gro` and `gso_max` ([`OffloadOptions`]); the others depend on
//! the backend. In `file:` the name is a path: everything before the first `?`, including `@` and
//! bytes that are not UTF-8.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

#[cfg(feature = "serde")]
use serde::Serialize;

use crate::error::{Error, Result};
use crate::mask::QueueSet;
use crate::port::offload::switches::OffloadOptions;

/// The kinds of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Backend {
    /// The in-process network interface.
    Sim,
    /// A capture file.
    File,
    /// AF_PACKET with a TPACKET_V3 ring per queue.
    Packet,
    /// AF_XDP with a socket per queue.
    Xdp,
    /// A TAP device, with the kernel's stack at its other end.
    Tap,
    /// The sources of a program ([`custom`](super::custom())). No spec selects it.
    Custom,
}

impl Backend {
    /// All that a spec selects.
    pub const ALL: [Self; 5] = [Self::Sim, Self::File, Self::Packet, Self::Xdp, Self::Tap];

    /// The word before the colon.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::File => "file",
            Self::Packet => "packet",
            Self::Xdp => "xdp",
            Self::Tap => "tap",
            Self::Custom => "custom",
        }
    }
}

/// A port as the user named it: parsed, before any check against the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The backend, or `None` for a bare interface name: see [`open`](super::open).
    pub backend: Option<Backend>,
    /// Interface name, number of queues (`sim`) or path (`file`). Only a path may be other than
    /// UTF-8.
    pub name: OsString,
    /// The requested queues; `None` means all.
    pub queues: Option<QueueSet>,
    /// Backend options, in the order written.
    pub options: Vec<(String, String)>,
    /// Segmentation and merging at this port.
    #[doc(hidden)]
    pub offloads: OffloadOptions,
}

impl Spec {
    /// The name as text; empty for a path that is not UTF-8.
    pub fn name_text(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    /// Reads the options one by one; see [`Options`].
    pub(crate) fn options(&self) -> Options<'_> {
        Options { spec: self, known: Vec::new() }
    }
}

/// Longest interface name, `IFNAMSIZ` without the terminating zero.
const MAX_NAME: usize = 15;

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::try_from(OsStr::new(text))
    }
}

impl TryFrom<&OsStr> for Spec {
    type Error = Error;

    /// Parses as from text. Only a path may be other than UTF-8.
    fn try_from(text: &OsStr) -> Result<Self> {
        let bad = |cause: String| Error::usage(format!("port '{}'", text.display()), cause);
        let malformed = |cause: &str| bad(cause.to_owned()).help(FORM);
        let as_text = |part: &'_ OsStr| {
            let no_text =
                || bad(format!("'{}' is not UTF-8", part.display())).help("only paths may be");
            part.to_str().map(str::to_owned).ok_or_else(no_text)
        };
        let (head, query) = match split_once(text, b'?') {
            Some((head, query)) => (head, Some(as_text(query)?)),
            None => (text, None),
        };
        let (backend, rest) = match split_once(head, b':') {
            None => (None, head),
            Some((word, rest)) => {
                let backend = Backend::ALL.into_iter().find(|backend| backend.as_str() == word);
                let Some(backend) = backend else {
                    let (word, known) =
                        (word.display(), Backend::ALL.map(Backend::as_str).join(", "));
                    return Err(bad(format!("there is no backend '{word}'"))
                        .help(format!("known: {known}")));
                };
                (Some(backend), rest)
            }
        };
        let (name, queues) = if backend == Some(Backend::File) {
            (rest.to_owned(), None)
        } else {
            let rest = as_text(rest)?;
            match rest.rsplit_once('@') {
                Some((name, queues)) => (name.into(), Some(queues.parse()?)),
                None => (rest.into(), None),
            }
        };
        if name.is_empty() {
            return Err(malformed("the name is missing"));
        }
        let on_interface =
            matches!(backend, None | Some(Backend::Packet | Backend::Xdp | Backend::Tap));
        let illegal = |c: char| c == '/' || c.is_whitespace() || c.is_control();
        let shown = name.to_string_lossy();
        if on_interface && (name.len() > MAX_NAME || shown.contains(illegal)) {
            return Err(bad("it cannot be an interface name".into())
                .help(format!("write up to {MAX_NAME} characters without spaces and slashes")));
        }
        if name.as_bytes().contains(&0) {
            return Err(malformed("a path cannot hold a zero byte"));
        }
        let mut options: Vec<(String, String)> = Vec::new();
        let mut offloads = OffloadOptions::default();
        for pair in query.iter().flat_map(|query| query.split('&')) {
            let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
                return Err(malformed(&format!("'{}' is not key=value", pair.escape_debug())));
            };
            let said = offloads.pairs().any(|(known, _)| known == key);
            if said || options.iter().any(|(known, _)| known == key) {
                return Err(
                    bad(format!("'{}' appears twice", key.escape_debug())).help("give it once")
                );
            }
            let is_offload = offloads.take(key, value);
            if !is_offload.map_err(|shape| impossible(bad, key, value, shape))? {
                options.push((key.into(), value.into()));
            }
        }
        Ok(Self { backend, name, queues, options, offloads })
    }
}

/// The form of a spec.
const FORM: &str = "write [BACKEND:]NAME[@QUEUES][?KEY=VALUE&…], as in packet:eth0@0-3";

/// The error of a value that has not the form `shape`.
fn impossible(bad: impl Fn(String) -> Error, key: &str, value: &str, shape: &str) -> Error {
    bad(format!("{key}={} is not possible", value.escape_debug())).help(format!("write {shape}"))
}

/// The parts before and after the first `separator`, which must be ASCII.
fn split_once(text: &OsStr, separator: u8) -> Option<(&OsStr, &OsStr)> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == separator)?;
    Some((OsStr::from_bytes(bytes.get(..at)?), OsStr::from_bytes(bytes.get(at + 1..)?)))
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(backend) = self.backend {
            write!(f, "{}:", backend.as_str())?;
        }
        write!(f, "{}", self.name.display())?;
        if let Some(queues) = &self.queues {
            write!(f, "@{queues}")?;
        }
        let options = self.options.iter().map(|(key, value)| (key.as_str(), value.as_str().into()));
        let offloads = self.offloads.pairs().map(|(key, value)| (key, Cow::from(value)));
        for (i, (key, value)) in options.chain(offloads).enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

/// The longest list of options that an error repeats. A test reads the whole list there.
const SHORT: usize = if cfg!(test) { usize::MAX } else { 60 };

/// Reads a spec's options and remembers the known keys, so that unknown ones are refused.
pub(crate) struct Options<'a> {
    spec: &'a Spec,
    known: Vec<&'static str>,
}

impl<'a> Options<'a> {
    /// The text of `key`, if present.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<&'a str> {
        self.known.push(key);
        self.spec.options.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// The value of `key` as `parse` reads it, or `default`. `shape` describes accepted values in
    /// errors.
    ///
    /// # Errors
    /// `parse` does not accept the text.
    pub(crate) fn value<T>(
        &mut self,
        key: &'static str,
        default: T,
        shape: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T> {
        let Some(text) = self.text(key) else { return Ok(default) };
        let bad = |cause| Error::usage(format!("port '{}'", self.spec), cause);
        parse(text).ok_or_else(|| impossible(bad, key, text, shape))
    }

    /// Refuses every option that was not read.
    ///
    /// # Errors
    /// A usage error that names the first unknown key and lists the known keys.
    pub(crate) fn finish(self) -> Result<()> {
        let unknown = self.spec.options.iter().find(|(key, _)| !self.known.contains(&key.as_str()));
        let Some((key, _)) = unknown else { return Ok(()) };
        let cause = format!("'{}' is not an option of this port", key.escape_debug());
        let known = self.known.join(", ");
        let help = match known.len() {
            0 => "it has none".to_owned(),
            1..=SHORT => format!("known: {known}"),
            _ => {
                let backend = self.spec.backend.unwrap_or(Backend::Packet);
                format!("`wirelane ports {backend}` lists its options")
            }
        };
        Err(Error::usage(format!("port '{}'", self.spec), cause).help(help))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::frame::Protocols;
    use proptest::prelude::*;

    #[test]
    fn examples_of_the_grammar() {
        let spec: Spec = "packet:eth0@0-3,6?promisc=on&ring=64M".parse().unwrap();
        assert_eq!(spec.backend, Some(Backend::Packet));
        assert_eq!((spec.name_text(), spec.options.len()), ("eth0", 2));
        assert_eq!(spec.queues.as_ref().unwrap().to_string(), "0-3,6");
        assert_eq!("eth0".parse::<Spec>().unwrap().backend, None);
        assert_eq!("file:a@b.pcapng".parse::<Spec>().unwrap().name, "a@b.pcapng");
        assert_eq!("sim:4?rate=max".parse::<Spec>().unwrap().options[0].1, "max");
    }

    #[test]
    fn malformed_specs_are_usage_errors() {
        for text in [
            "",
            ":",
            "packet:",
            "foo:eth0",
            "eth0@",
            "eth0@x",
            "eth0?",
            "eth0?=1",
            "eth0?a",
            "eth0?a=1&a=2",
            "a/b",
            "sixteen-letters-",
            "file:a\0b",
            "eth 0",
            "eth0@1@2@",
        ] {
            assert_eq!(text.parse::<Spec>().unwrap_err().kind(), ErrorKind::Usage, "{text:?}");
        }
    }

    #[test]
    fn only_paths_may_be_other_than_text() {
        let spec = |text: &[u8]| Spec::try_from(OsStr::from_bytes(text));
        let file = spec(b"file:\xff/a@b:\xfe.pcapng?loop=2").unwrap();
        assert_eq!(file.name.as_bytes(), b"\xff/a@b:\xfe.pcapng");
        assert_eq!(file.options().text("loop"), Some("2"));
        assert_eq!(file.to_string(), "file:\u{fffd}/a@b:\u{fffd}.pcapng?loop=2");
        let refused: [&[u8]; 5] =
            [b"eth\xff", b"packet:\xff", b"\xff:a", b"file:a?loop=\xff", b"sim:1@\xff"];
        for text in refused {
            let error = spec(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        }
    }

    #[test]
    fn every_port_can_say_what_is_cut_and_merged() {
        let text = "packet:eth0?ring=64M&gso=tcp&gro=tcp,udp&gso_max=32768";
        let spec: Spec = text.parse().unwrap();
        assert_eq!((spec.options.len(), spec.to_string().as_str()), (1, text));
        let OffloadOptions { gso, gro, gso_max } = spec.offloads;
        assert_eq!(gso, Some(Protocols { tcp: true, udp: false }));
        assert_eq!((gro, gso_max), (Some(Protocols::ALL), Some(32_768)));
        assert!("eth0?gso=off".parse::<Spec>().unwrap().options.is_empty());
        for (text, cause) in [
            ("eth0?gso=sctp", "gso=sctp is not possible; write tcp, udp, tcp,udp, on or off"),
            ("eth0?gro=", "gro= is not possible; write tcp"),
            ("eth0?gso_max=575", "gso_max=575 is not possible; write a number from 576 to 65535"),
            ("eth0?gso_max=64Ki", "is not possible; write a number"),
            ("eth0?gso=on&gso=off", "'gso' appears twice"),
        ] {
            let error = text.parse::<Spec>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains(cause), "{error}");
        }
    }

    #[test]
    fn unknown_options_are_named() {
        let spec: Spec = "sim:1?sped=1".parse().unwrap();
        let mut options = spec.options();
        assert_eq!(options.text("rate"), None);
        let message = options.finish().unwrap_err().to_string();
        assert!(message.contains("'sped'") && message.contains("known: rate"), "{message}");
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in "\\PC{0,40}") {
            if let Ok(spec) = text.parse::<Spec>() {
                prop_assert_eq!(&spec, &spec.to_string().parse::<Spec>().unwrap());
            }
        }

        #[test]
        fn text_and_back(
            name in "[a-z][a-z0-9.]{0,14}",
            queues in proptest::option::of(proptest::collection::vec(0usize..64, 1..5)),
            options in proptest::collection::btree_map("[h-z]{1,6}", "[a-z0-9.]{0,6}", 0..4),
        ) {
            let spec = Spec {
                backend: Some(Backend::Packet),
                name: name.into(),
                queues: queues.map(|queues| queues.into_iter().collect()),
                options: options.into_iter().collect(),
                offloads: OffloadOptions::default(),
            };
            prop_assert_eq!(&spec, &spec.to_string().parse::<Spec>().unwrap());
        }
    }
}
