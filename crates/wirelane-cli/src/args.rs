//! Values that several commands take.

use clap::{ArgAction, Args};
use wirelane::pcap::parse_size;
use wirelane::port::Protocols;
use wirelane::{Error, QueueSet, Result};
pub(crate) use wirelane_bench::arguments::{count, duration, queues, reason};

/// Which packets to select: the three masks of a capture handle.
#[derive(Args, Clone, Debug)]
pub(crate) struct Masks {
    /// RX queues to select: all, none, or a list such as 0,2-3
    #[arg(long, value_name = "QUEUES", value_parser = queues, default_value = "all")]
    pub(crate) rx_queues: QueueSet,
    /// TX queues to select (packets that the host sends): all, none, or a list
    #[arg(long, value_name = "QUEUES", value_parser = queues, default_value = "all")]
    pub(crate) tx_queues: QueueSet,
    /// Whether to select packets tied to no queue
    #[arg(long, value_name = "on|off", value_parser = switch, default_value = "on", action = ArgAction::Set)]
    pub(crate) other: bool,
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

/// A size in bytes that `option` asks for in memory.
///
/// # Errors
/// It is more than this machine can address.
pub(crate) fn address_space(option: &'static str, bytes: Option<u64>) -> Result<Option<usize>> {
    let size = bytes.map(usize::try_from).transpose();
    size.map_err(|_| Error::usage(option, "more than this machine can address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_are_above_zero() {
        assert_eq!((size("64k"), count("64k")), (Ok(65_536), Ok(64_000)));
        assert!(size("0").is_err() && count("0").is_err());
    }
}
