//! The arguments of `wirelane ndr`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use wirelane::placement::Placement;
use wirelane::port::Spec;
use wirelane::wire::MacAddr;
use wirelane::{Error, QueueSet, Result};
use wirelane_gen::Rate;
use wirelane_send::ndr::{Campaign, Method, Tests};

use crate::args;
use crate::habits::InterfaceArgs;
use crate::live::placement;
use crate::netns::NetnsArgs;

/// Measure what lies between two ports: throughput without loss, latency, loss, reordering.
///
/// Sends signed packets from A to B and from B to A (RFC 2544). Counters are read only after
/// everything under way has arrived. Packets without a signature are only counted,
/// as `other`. The host gets them, too, but an `xdp:` port takes all packets from it. ^C ends it
/// with the results so far; SIGUSR1 prints the trial that runs.
#[derive(Args, Clone, Debug)]
pub(crate) struct NdrArgs {
    /// One interface, such as eth0. Packets are received by AF_PACKET, or with xdp:eth0 by AF_XDP
    #[arg(value_name = "A", required_unless_present = "interfaces")]
    a: Option<OsString>,
    /// The other one
    #[arg(value_name = "B", required_unless_present = "interfaces")]
    b: Option<OsString>,
    #[command(flatten)]
    interface: InterfaceArgs,
    /// Send from A to B only
    #[arg(long)]
    pub(super) one_way: bool,
    /// Do not search: one trial at this rate in each direction, such as 20kpps or 100Mbit
    #[arg(long, value_name = "RATE")]
    pub(super) rate: Option<Rate>,
    /// What to measure [default: throughput,latency]
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "rate")]
    pub(super) tests: Vec<Test>,
    /// Sizes of the frames with their check sequence, as RFC 2544 counts them: 64 is the smallest
    /// [default: 64,128,256,512,1024,1280,1518; with --quick 64,512,1518; with --rate 64]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(64..=9216))]
    pub(super) sizes: Vec<u16>,
    /// Short trials and a coarse search: for a first impression
    #[arg(long)]
    pub(super) quick: bool,
    /// The packets of the way there, as in `wirelane send --packet`
    #[arg(long, value_name = "PACKET", conflicts_with_all = ["flows", "src_ip", "dst_ip", "src_mac", "dst_mac"], help_heading = "Packets")]
    pub(super) packet: Option<String>,
    /// The packets of the way back [default: --packet with sources and destinations exchanged]
    #[arg(long, value_name = "PACKET", requires = "packet", help_heading = "Packets")]
    pub(super) packet_back: Option<String>,
    /// The packets are the flows of this file in the Open Traffic Generator model, in its
    /// proportions: A sends those of the port that is located at A, or of the first one, and B
    /// those of the other
    #[arg(long, value_name = "FILE", conflicts_with_all = ["src_ip", "dst_ip", "src_mac", "dst_mac"], help_heading = "Packets")]
    pub(super) flows: Option<PathBuf>,
    /// Ethernet address of A's packets [default: a locally administered one]
    #[arg(long, value_name = "MAC", value_parser = mac, help_heading = "Packets")]
    pub(super) src_mac: Option<MacAddr>,
    /// Ethernet address that A's packets go to; that of a router if there is one in between
    #[arg(long, value_name = "MAC", value_parser = mac, help_heading = "Packets")]
    pub(super) dst_mac: Option<MacAddr>,
    /// Ethernet address that B's packets go to [default: the source of A's packets]
    #[arg(long, value_name = "MAC", value_parser = mac, conflicts_with_all = ["packet", "flows"], help_heading = "Packets")]
    pub(super) back_mac: Option<MacAddr>,
    /// Address of A's packets [default: 198.18.0.1]
    #[arg(long, value_name = "ADDRESS", help_heading = "Packets")]
    pub(super) src_ip: Option<IpAddr>,
    /// Address that A's packets go to [default: 198.19.0.1]
    #[arg(long, value_name = "ADDRESS", help_heading = "Packets")]
    pub(super) dst_ip: Option<IpAddr>,
    /// Length of a full trial [default: 5s; with --quick 300ms]
    #[arg(long, value_name = "TIME", value_parser = args::duration, help_heading = "Search")]
    pub(super) duration: Option<Duration>,
    /// Shares of packets that may be lost, each searched for
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = share, default_value = "0", help_heading = "Search")]
    pub(super) loss: Vec<f64>,
    /// How exactly to find rates [default: 0.5%; with --quick 2%]
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Search")]
    pub(super) precision: Option<f64>,
    /// How many full trials a rate must pass
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "Search")]
    pub(super) repeat: u32,
    /// The share of the full trials that may fail
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0", help_heading = "Search")]
    pub(super) exceed: f64,
    /// How to search
    #[arg(long, value_enum, default_value_t = SearchBy::Mlr, help_heading = "Search")]
    pub(super) search: SearchBy,
    /// Never send more packets per second in a direction, such as 1Mpps
    #[arg(long, value_name = "RATE", help_heading = "Search")]
    pub(super) max_rate: Option<Rate>,
    /// After a trial, wait until nothing has arrived for TIME
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "200ms", help_heading = "Search")]
    pub(super) settle: Duration,
    /// Print one JSON object (schema wirelane.ndr/1) on standard output
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    /// Write a page with plots: one HTML file that needs nothing else
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) page: Option<PathBuf>,
    /// Print no progress and no summary
    #[arg(short = 'q', long, help_heading = "Output")]
    pub(super) quiet: bool,
    /// At most N sending threads in each direction [default: one per TX queue]
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub(super) threads: Option<usize>,
    /// Pin the threads to these CPUs, in turn
    #[arg(long, value_name = "CPUS", help_heading = "Machine")]
    pub(super) cpus: Option<QueueSet>,
    /// Send even by an interface that carries your own SSH connection
    #[arg(long, help_heading = "Machine")]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) netns: NetnsArgs,
}

/// The values of `--tests`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Test {
    /// The highest rate without loss
    Throughput,
    /// Latency at 100, 90, 50 and 10 % of the throughput
    Latency,
    /// The loss at 100, 90, 80 … % of all that can be sent
    Loss,
    /// The longest burst without loss
    Burst,
}

/// How rates are searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SearchBy {
    /// MLRsearch: short trials narrow the range first
    Mlr,
    /// Halves the range, with full trials throughout
    Bisection,
}

impl NdrArgs {
    const SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
    const FEW_SIZES: [usize; 3] = [64, 512, 1518];

    /// The two ports.
    ///
    /// # Errors
    /// There are not exactly two, or one is malformed.
    pub(super) fn ports(&self) -> Result<[Spec; 2]> {
        match self.interface.before(self.a.iter().chain(&self.b)).as_slice() {
            [a, b] => Ok([Spec::try_from(a.as_os_str())?, Spec::try_from(b.as_os_str())?]),
            _ => Err(Error::usage("ports", "it measures between two").help("name A and B")),
        }
    }

    /// The tests, and how to run them.
    ///
    /// # Errors
    /// A rate is given as a share of a link whose speed is unknown.
    pub(super) fn campaign(&self) -> Result<Campaign> {
        let (duration, width) = if self.quick {
            (Duration::from_millis(300), 0.02)
        } else {
            (Duration::from_secs(5), 0.005)
        };
        let sizes = self.sizes();
        let length = sizes.first().map_or(60, |size| size - 4);
        let wants = |test| match self.tests.as_slice() {
            [] => matches!(test, Test::Throughput | Test::Latency),
            tests => tests.contains(&test),
        };
        Ok(Campaign {
            rate: self.rate.map(|rate| packets("--rate", rate, length)).transpose()?,
            max_rate: self.max_rate.map(|rate| packets("--max-rate", rate, length)).transpose()?,
            tests: Tests {
                throughput: wants(Test::Throughput),
                latency: wants(Test::Latency),
                loss: wants(Test::Loss),
                burst: wants(Test::Burst),
            },
            sizes,
            loss_ratios: self.loss.clone(),
            duration: self.duration.unwrap_or(duration),
            repeat: self.repeat,
            exceed_ratio: self.exceed,
            width: self.precision.unwrap_or(width).max(1e-5),
            method: match self.search {
                SearchBy::Mlr => Method::Mlr,
                SearchBy::Bisection => Method::Bisection,
            },
        })
    }

    fn sizes(&self) -> Vec<usize> {
        let has_own = self.packet.is_some() || self.flows.is_some();
        match self.sizes.as_slice() {
            [] if has_own => Vec::new(),
            [] if self.rate.is_some() => vec![64],
            [] if self.quick => Self::FEW_SIZES.into(),
            [] => Self::SIZES.into(),
            sizes => sizes.iter().map(|size| usize::from(*size)).collect(),
        }
    }

    /// The CPUs of the threads.
    ///
    /// # Errors
    /// One of them may not be used.
    pub(super) fn placement(&self) -> Result<Placement> {
        placement(self.cpus.as_ref())
    }
}

/// Packets per second of `length` bytes.
fn packets(option: &'static str, rate: Rate, length: usize) -> Result<f64> {
    rate.packets_per_second(length, None).ok_or_else(|| {
        Error::usage(option, "a share of a link whose speed is unknown here")
            .help("write packets or bits per second, such as 20kpps or 100Mbit")
    })
}

fn mac(text: &str) -> Result<MacAddr, String> {
    text.parse()
        .map_err(|_| "write six two-digit hexadecimal numbers, such as 02:00:00:00:00:01".into())
}

/// `0.1%` or `0.001`.
fn share(text: &str) -> Result<f64, String> {
    let (digits, scale) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits, 0.01));
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = digits.parse::<f64>().ok().filter(|_| plain).map(|value| value * scale);
    value.filter(|value| *value < 1.0).ok_or_else(|| "write a share such as 0.1% or 0.001".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percent_or_plain() {
        assert_eq!(share("0"), Ok(0.0));
        assert_eq!(share("50%"), Ok(0.5));
        assert_eq!(share("0.001"), Ok(0.001));
        for wrong in ["", "%", "-1%", "100%", "1e-3", "NaN", "é"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
