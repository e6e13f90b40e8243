//! The syntax of a discipline:
//!
//! ```text
//! noqueue[:n]|fifo|bulk[:n]|pfifo_fast[:n]|lockless[:nobypass]
//!     [,limit=N|Nk][,enqueue=frame|batch][,bql=on|off][,tsq=Nk]
//! ```

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The kind of a discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QdiscKind {
    /// No queue: frames are put directly into the TX ring under the TX lock, `round` frames at a
    /// time, or a whole batch with `None`.
    Noqueue {
        /// The most frames per lock round.
        round: Option<u32>,
    },
    /// Two locks, one frame at a time, like Linux 3.15.
    Fifo,
    /// Two locks, up to `round` frames at a time.
    Bulk {
        /// The most frames per lock round.
        round: u32,
    },
    /// Like `Bulk`, in three bands. Each is served only while the bands before it are empty:
    /// network control, all others, bulk.
    PfifoFast {
        /// The most frames per lock round.
        round: u32,
    },
    /// A multi-producer ring without locks.
    Lockless {
        /// Whether frames may bypass an empty queue.
        bypass: bool,
    },
}

/// A discipline and its limits, as the user chose them. Each field has a setter of the same name.
///
/// ```
/// use wirelane::qdisc::{QdiscKind, QdiscSpec};
///
/// let spec: QdiscSpec = "bulk:8,limit=500,bql=on".parse().unwrap();
/// assert_eq!(spec.kind, QdiscKind::Bulk { round: 8 });
/// assert_eq!((spec.limit_packets, spec.bql), (Some(500), true));
/// assert_eq!(spec.to_string(), "bulk:8,limit=500,bql=on");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QdiscSpec {
    /// The kind.
    pub kind: QdiscKind,
    /// The most frames in the queue. Without any limit, [`QdiscSpec::LIMIT`] (`lockless`:
    /// [`QdiscSpec::RING`]).
    pub limit_packets: Option<u32>,
    /// The most bytes in the queue.
    pub limit_bytes: Option<u64>,
    /// Whether one lock is taken to enqueue a batch, instead of one for each frame.
    pub batched: bool,
    /// Whether the bytes in the TX ring are limited by its completions, like BQL.
    pub bql: bool,
    /// The most bytes that one producer may have in queue and TX ring, like TSQ.
    pub small_queue: Option<u64>,
}

wirelane_wire::setters!(QdiscSpec:
    kind: QdiscKind,
    limit_packets: Option<u32>,
    limit_bytes: Option<u64>,
    batched: bool,
    bql: bool,
    small_queue: Option<u64>,
);

impl QdiscSpec {
    /// The default number of frames in a queue, like `txqueuelen` of an Ethernet interface.
    pub const LIMIT: u32 = 1000;
    /// The default number of frames in the ring of `lockless`. A power of two is exact.
    pub const RING: u32 = 1024;
    /// The largest limit in frames.
    pub const MAX_LIMIT: u32 = 1 << 22;
    /// The default number of frames per lock round of `bulk`.
    pub const ROUND: u32 = 32;
    /// The most frames per lock round.
    pub const MAX_ROUND: u32 = 1024;

    /// The discipline with its default limits.
    pub const fn new(kind: QdiscKind) -> Self {
        Self {
            kind,
            limit_packets: None,
            limit_bytes: None,
            batched: false,
            bql: false,
            small_queue: None,
        }
    }
}

impl Default for QdiscSpec {
    /// `lockless`.
    fn default() -> Self {
        Self::new(QdiscKind::Lockless { bypass: true })
    }
}

impl From<QdiscKind> for QdiscSpec {
    fn from(kind: QdiscKind) -> Self {
        Self::new(kind)
    }
}

impl fmt::Display for QdiscKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noqueue { round: None } => f.write_str("noqueue"),
            Self::Noqueue { round: Some(round) } => write!(f, "noqueue:{round}"),
            Self::Fifo => f.write_str("fifo"),
            Self::Bulk { round } => write!(f, "bulk:{round}"),
            Self::PfifoFast { round } => write!(f, "pfifo_fast:{round}"),
            Self::Lockless { bypass: true } => f.write_str("lockless"),
            Self::Lockless { bypass: false } => f.write_str("lockless:nobypass"),
        }
    }
}

impl fmt::Display for QdiscSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(limit) = self.limit_packets {
            write!(f, ",limit={limit}")?;
        }
        if let Some(limit) = self.limit_bytes {
            write!(f, ",limit={}", Bytes(limit))?;
        }
        if self.batched {
            f.write_str(",enqueue=batch")?;
        }
        if self.bql {
            f.write_str(",bql=on")?;
        }
        if let Some(limit) = self.small_queue {
            write!(f, ",tsq={}", Bytes(limit))?;
        }
        Ok(())
    }
}

/// A number of bytes, with a suffix that distinguishes it from a number of frames.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1000 && n % 1000 == 0 => write!(f, "{}k", n / 1000),
            n => write!(f, "{n}B"),
        }
    }
}

/// The number of bytes in `64k`, `2M`, `64Ki`, `1500B`, `1500`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "" | "B" | "b" => 1,
        "k" | "K" => 1_000,
        "M" | "m" => 1_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        _ => return None,
    };
    number(digits)?.checked_mul(scale).filter(|n| (1..=1 << 40).contains(n))
}

/// A plain number, without sign or blanks.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A number of frames from 1 to `most`.
fn frames(text: &str, most: u32) -> Option<u32> {
    u32::try_from(number(text)?).ok().filter(|n| (1..=most).contains(n))
}

impl FromStr for QdiscSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |cause: String| {
            Error::usage(format!("discipline '{}'", text.escape_debug()), cause)
                .help("write fifo,limit=1000,bql=on: KIND[:PARAMETER][,KEY=VALUE]…")
        };
        let unknown = |cause: String| {
            bad(cause)
                .help("write noqueue[:N], fifo, bulk[:N], pfifo_fast[:N], lockless[:nobypass]")
        };
        let mut parts = text.split(',');
        let head = parts.next().unwrap_or_default();
        let (name, argument) = match head.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (head, None),
        };
        let round = |argument: &str| {
            frames(argument, Self::MAX_ROUND).ok_or_else(|| {
                bad(format!("'{}' is not 1 to {} frames", argument.escape_debug(), Self::MAX_ROUND))
            })
        };
        let kind = match (name, argument) {
            ("noqueue", argument) => QdiscKind::Noqueue { round: argument.map(round).transpose()? },
            ("fifo", None) => QdiscKind::Fifo,
            ("bulk", argument) => {
                QdiscKind::Bulk { round: argument.map_or(Ok(Self::ROUND), round)? }
            }
            ("pfifo_fast", argument) => {
                QdiscKind::PfifoFast { round: argument.map_or(Ok(Self::ROUND), round)? }
            }
            ("lockless", None) => QdiscKind::Lockless { bypass: true },
            ("lockless", Some("nobypass")) => QdiscKind::Lockless { bypass: false },
            ("fifo" | "lockless", Some(argument)) => {
                return Err(unknown(format!("{name} has no form '{}'", argument.escape_debug())));
            }
            _ => return Err(unknown(format!("no discipline '{}'", name.escape_debug()))),
        };
        let mut spec = Self::new(kind);
        let (mut bql, mut seen) = (None, Vec::new());
        for part in parts {
            let not = |shape: &str| bad(format!("'{}' is not {shape}", part.escape_debug()));
            let Some((key, value)) = part.split_once('=') else { return Err(not("key=value")) };
            let is_bytes = value.ends_with(|c: char| c.is_ascii_alphabetic());
            if seen.contains(&(key, key == "limit" && is_bytes)) {
                return Err(bad(format!("'{}' appears twice", key.escape_debug())));
            }
            seen.push((key, key == "limit" && is_bytes));
            match key {
                "limit" if matches!(kind, QdiscKind::Noqueue { .. }) => {
                    return Err(bad("noqueue has no queue to limit".into()));
                }
                "limit" if is_bytes && matches!(kind, QdiscKind::Lockless { .. }) => {
                    return Err(bad("lockless has no byte limit, because its producers share no \
                     byte counter; limit frames, or the bytes of each producer with tsq"
                        .into()));
                }
                "limit" if is_bytes => {
                    spec.limit_bytes = Some(bytes(value).ok_or_else(|| not("1 to 2^40 bytes"))?);
                }
                "limit" => {
                    let limit = frames(value, Self::MAX_LIMIT);
                    spec.limit_packets =
                        Some(limit.ok_or_else(|| not("1 to 4194304 frames, or bytes as 256k"))?);
                }
                "bql" => {
                    bql = match value {
                        "on" => Some(true),
                        "off" => Some(false),
                        _ => return Err(not("bql=on or bql=off")),
                    };
                }
                "enqueue" => {
                    let is_locked =
                        !matches!(kind, QdiscKind::Noqueue { .. } | QdiscKind::Lockless { .. });
                    spec.batched = match value {
                        "frame" if is_locked => false,
                        "batch" if is_locked => true,
                        _ if is_locked => return Err(not("enqueue=frame or enqueue=batch")),
                        _ => return Err(bad(format!("{name} enqueues without a lock"))),
                    };
                }
                "tsq" if matches!(kind, QdiscKind::PfifoFast { .. }) => {
                    return Err(bad(
                        "pfifo_fast has no tsq, which counts on frames leaving in the \
                     order in which they came"
                            .into(),
                    ));
                }
                "tsq" => {
                    spec.small_queue = Some(bytes(value).ok_or_else(|| not("1 to 2^40 bytes"))?);
                }
                _ => return Err(bad(format!("there is no option '{}'", key.escape_debug()))),
            }
        }
        spec.bql = bql.unwrap_or(false);
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use proptest::prelude::*;

    #[test]
    fn examples_of_the_grammar() {
        for (text, kind) in [
            ("noqueue", QdiscKind::Noqueue { round: None }),
            ("noqueue:1", QdiscKind::Noqueue { round: Some(1) }),
            ("fifo", QdiscKind::Fifo),
            ("bulk", QdiscKind::Bulk { round: 32 }),
            ("bulk:8", QdiscKind::Bulk { round: 8 }),
            ("pfifo_fast", QdiscKind::PfifoFast { round: 32 }),
            ("pfifo_fast:1", QdiscKind::PfifoFast { round: 1 }),
            ("lockless", QdiscKind::Lockless { bypass: true }),
            ("lockless:nobypass", QdiscKind::Lockless { bypass: false }),
        ] {
            assert_eq!(text.parse::<QdiscSpec>().unwrap(), QdiscSpec::new(kind), "{text}");
        }
        let spec: QdiscSpec = "fifo,limit=256k,limit=100,bql=on,tsq=64Ki".parse().unwrap();
        assert_eq!((spec.limit_packets, spec.limit_bytes), (Some(100), Some(256_000)));
        assert_eq!((spec.bql, spec.small_queue), (true, Some(65_536)));
        assert!("fifo,enqueue=batch".parse::<QdiscSpec>().unwrap().batched);
        assert!(!"bulk,enqueue=frame".parse::<QdiscSpec>().unwrap().batched);
        assert!(!"bulk,bql=off".parse::<QdiscSpec>().unwrap().bql);
    }

    #[test]
    fn what_is_malformed_is_a_usage_error_on_one_line() {
        for text in [
            "",
            ",",
            "fq",
            "fifo:1",
            "bulk:0",
            "bulk:",
            "bulk:x",
            "bulk:1025",
            "noqueue:0",
            "noqueue,limit=1",
            "lockless:bypass",
            "lockless,limit=64k",
            "fifo,limit",
            "fifo,limit=",
            "fifo,limit=0",
            "fifo,limit=-1",
            "fifo,limit=+1",
            "fifo,limit=1x",
            "fifo,limit=k",
            "fifo,limit=99999999999",
            "fifo,limit=99999999999999M",
            "fifo,limit=1,limit=2",
            "fifo,bql=yes",
            "fifo,bql=on,bql=on",
            "fifo,tsq=",
            "fifo,enqueue=all",
            "lockless,enqueue=batch",
            "pfifo_fast:0",
            "pfifo_fast,tsq=8k",
            "fifo,colour=red",
            "fifo\n",
        ] {
            let error = text.parse::<QdiscSpec>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{text:?}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in "(noqueue|fifo|bulk|pfifo_fast|lockless)?[:,a-z=0-9é]{0,20}") {
            if let Ok(spec) = text.parse::<QdiscSpec>() {
                prop_assert_eq!(&spec, &spec.to_string().parse::<QdiscSpec>().unwrap());
            }
        }

        #[test]
        fn text_and_back(round in 1_u32..=1024, packets in proptest::option::of(1_u32..=1 << 22),
                         bytes in proptest::option::of(1_u64..1 << 40), bql: bool, batched: bool) {
            let spec = QdiscSpec {
                kind: QdiscKind::Bulk { round },
                limit_packets: packets,
                limit_bytes: bytes,
                batched,
                bql,
                small_queue: bytes,
            };
            prop_assert_eq!(&spec, &spec.to_string().parse::<QdiscSpec>().unwrap());
        }
    }
}
