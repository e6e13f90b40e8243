//! Values that several commands take.

use std::time::Duration;

use clap::{ArgAction, Args};
use wirelane::pcap::parse_size;
use wirelane::port::Protocols;
use wirelane::{Error, QueueSet};

/// Which packets to select: the three masks of a capture handle.
#[derive(Args, Clone, Debug)]
pub(crate) struct Masks {
    /// RX queues to select: all, none, or a list such as 0,2-3
    #[arg(long, value_name = "QUEUES", value_parser = queues, default_value = "all")]
    pub(crate) rx_queues: QueueSet,
    /// TX queues to select: what the host sends
    #[arg(long, value_name = "QUEUES", value_parser = queues, default_value = "all")]
    pub(crate) tx_queues: QueueSet,
    /// Select packets that are tied to no queue
    #[arg(long, value_name = "on|off", value_parser = switch, default_value = "on", action = ArgAction::Set)]
    pub(crate) other: bool,
}

/// `all`, `none` or a list of queues.
pub(crate) fn queues(text: &str) -> Result<QueueSet, String> {
    text.parse().map_err(reason)
}

/// Why a value was refused, without the parts of the message that clap adds itself.
pub(crate) fn reason(error: wirelane::Error) -> String {
    let help = error.next_step().map(|help| format!("; {help}")).unwrap_or_default();
    format!("{}{help}", error.cause())
}

/// `on` or `off`.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("write on or off".into()),
    }
}

/// `tcp`, `udp`, `tcp,udp`, `on` or `off`.
pub(crate) fn protocols(text: &str) -> Result<Protocols, String> {
    text.parse().map_err(|error: Error| error.next_step().unwrap_or(error.cause()).to_owned())
}

/// Bytes, as in `1500`, `64k`, `10M`, `1G` (units of 1024).
pub(crate) fn size(text: &str) -> Result<u64, String> {
    parse_size(text)
        .filter(|size| *size > 0)
        .ok_or_else(|| "write a number of bytes above 0, such as 1500, 64k, 10M or 1G".into())
}

/// A number above 0, as in `1000`, `10k`, `5M` (units of 1000).
pub(crate) fn count(text: &str) -> Result<u64, String> {
    wirelane::port::parse_number(text)
        .filter(|count| *count > 0)
        .ok_or_else(|| "write a number above 0, such as 1000, 10k or 5M".into())
}

/// A time, as in `10s`, `500ms`, `2m`, `1h`; a plain number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = if plain { digits.parse().unwrap_or(f64::NAN) * unit } else { f64::NAN };
    // A year is longer than any capture, and far from any overflow.
    if seconds > 0.0 && seconds < 366.0 * 86_400.0 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("write a time above 0 and below a year, such as 10s, 500ms, 2m or 1h".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, milliseconds) in [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("3", 3_000)]
        {
            assert_eq!(duration(text).unwrap().as_millis(), milliseconds, "{text}");
        }
        for text in ["", "s", "-1s", "1d", "1e9s", "0", "inf", "NaN", "400h50000000m", "é"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_counts_are_above_zero() {
        assert_eq!((size("64k"), count("64k")), (Ok(65_536), Ok(64_000)));
        assert!(size("0").is_err() && count("0").is_err());
    }
}
