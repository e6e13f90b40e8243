//! `wirelane offload`: reads or changes what a running command cuts and merges.

use std::io::{self, Write as _};

use clap::Args;
use serde::Serialize;
use wirelane::port::Protocols;
use wirelane::{Error, Result};

use crate::args;
use crate::control;
use crate::control::request::{Offload, Offloading, Request};
use crate::output;

/// Read or change which frames a running forwarding cuts (GSO) and merges (GRO).
///
/// As `ethtool -k` and `ethtool -K` do for a network card; source 003's switches. Without a change, print what is in
/// force. PROTOCOLS is tcp, udp, tcp,udp, on or off. Each packet meets the old or the new setting; a frame that
/// its sender has left to be cut is cut in any case.
#[derive(Args, Clone, Debug)]
pub(crate) struct OffloadArgs {
    /// Process id of the command; `wirelane stats` lists those that run
    #[arg(value_name = "PID")]
    pid: u32,
    /// Which port, by its position in the command: 0 or 1; not needed if there is only one
    #[arg(long, value_name = "N")]
    port: Option<usize>,
    /// Cut what leaves through the port and is longer than its MTU
    #[arg(long, value_name = "PROTOCOLS", value_parser = args::protocols)]
    gso: Option<Protocols>,
    /// Merge what comes in through the port
    #[arg(long, value_name = "PROTOCOLS", value_parser = args::protocols)]
    gro: Option<Protocols>,
    /// The longest frame that goes through in one piece, in bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(576..=65_535))]
    gso_max: Option<u32>,
    /// Print one JSON object (schema wirelane.offload/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    #[serde(flatten)]
    offloading: Offloading,
}

/// Runs the command.
///
/// # Errors
/// There is no such command, or it refuses the change.
pub(crate) fn run(args: &OffloadArgs) -> Result<()> {
    let text = |protocols: Option<Protocols>| protocols.map(|protocols| protocols.to_string());
    let offload = Offload {
        port: args.port,
        gso: text(args.gso),
        gro: text(args.gro),
        gso_max: args.gso_max,
    };
    let offloading: Offloading = control::ask(args.pid, &Request::Offload(offload))?;
    if args.json {
        return output::json(&Document { schema: "wirelane.offload/1", offloading });
    }
    writeln!(io::stdout(), "{offloading}")
        .map_err(|error| Error::io("standard output", "write", error))
}
