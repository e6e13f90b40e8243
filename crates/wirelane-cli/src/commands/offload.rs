//! `wirelane offload`: reads or changes GSO and GRO of a running command.

use clap::Args;
use wirelane::Result;
use wirelane::internal::frame::Protocols;

use crate::control;
use crate::control::request::{ControlRequest, OffloadChange, PortOffload};
use crate::control::settings::PortSettings;

/// Show GSO and GRO of a running forward, or turn them on or off, like ethtool -k and -K.
///
/// Without a change, print the current settings of all ports, or of the one chosen by --port.
/// PROTOCOLS is tcp, udp, tcp,udp, on or off. A change applies between two packets. A frame that
/// its sender left to be segmented is segmented in any case.
#[derive(Args, Clone, Debug)]
pub(crate) struct OffloadArgs {
    /// Process id of the running command; `wirelane stats` lists them
    #[arg(value_name = "PID")]
    pid: u32,
    /// Which port, by its position on the command line: 0 or 1; not needed if there is only one
    #[arg(long, value_name = "N")]
    port: Option<usize>,
    /// Segment frames longer than the MTU that leave through this port
    #[arg(long, value_name = "PROTOCOLS")]
    gso: Option<Protocols>,
    /// Merge packets received on this port
    #[arg(long, value_name = "PROTOCOLS")]
    gro: Option<Protocols>,
    /// Longest frame to build or accept, in bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(576..=65_535))]
    gso_max: Option<u32>,
    /// Print one JSON object (schema wirelane.offload/1)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// There is no such command, or it refuses the change.
pub(crate) fn run(args: &OffloadArgs) -> Result<()> {
    let text = |protocols: Option<Protocols>| protocols.map(|protocols| protocols.to_string());
    let offload = OffloadChange {
        port: args.port,
        gso: text(args.gso),
        gro: text(args.gro),
        gso_max: args.gso_max,
    };
    let offloading: Vec<PortOffload> = control::ask(args.pid, &ControlRequest::Offload(offload))?;
    let settings = PortSettings { schema: "wirelane.offload/1", of: offloading };
    settings.show(args.pid, args.json, |it| it.port)
}
