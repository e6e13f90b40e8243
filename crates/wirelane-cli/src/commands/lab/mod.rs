//! `wirelane lab`: two network namespaces joined by a multi-queue veth pair, to try things in.

mod exec;
mod name;
mod status;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use wirelane::Result;
use wirelane_lab::{Change, IPV6_NETWORK, LabConfig, Network, Offloads, Process, Taps, leftovers};

pub(crate) use self::name::CommandFailure;
use self::name::Name;
use crate::args;
use crate::output;

/// Create, use and remove a lab: two network namespaces joined by a multi-queue veth pair.
///
/// The namespaces are NAME-a and NAME-b (`ip netns` lists them, too), their interfaces wl-a and
/// wl-b. Nothing outside the lab is touched.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum LabAction {
    Up(UpArgs),
    Down(DownArgs),
    Exec(exec::ExecArgs),
    Status(status::StatusArgs),
}

/// Create a lab. A lab that exists in this shape is left as it is.
///
/// Remains of a lab whose process was killed are removed first.
#[derive(Args, Clone, Debug)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    lab: Name,
    /// Number of RX queues and of TX queues of each interface
    #[arg(long, value_name = "N", default_value_t = 4)]
    queues: u16,
    /// MTU of the interfaces, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    mtu: u32,
    /// IPv4 network: a gets its first address, b the second
    #[arg(long, value_name = "NETWORK", default_value = "10.87.0.0/24")]
    ipv4: Network,
    /// IPv6 network, likewise; off keeps the kernel from sending anything by itself
    #[arg(long, value_name = "NETWORK|off", value_parser = optional_network, default_value_t = Optional(Some(IPV6_NETWORK)))]
    ipv6: Optional<Network>,
    /// Offloads of the veth interfaces: a list of tx, tso, uso, gso and gro, or off, or kernel (the
    /// kernel's defaults) [default: kernel; off with --tap]
    #[arg(long, value_name = "LIST", value_parser = offloads)]
    offloads: Option<Optional<Offloads>>,
    /// Put the network stack of a, b or both behind a TAP device (tap-a, tap-b) for
    /// `wirelane forward tap:…`
    #[arg(long, value_name = "a|b|both", default_value = "neither", hide_default_value = true)]
    tap: Taps,
    /// Print one JSON object (schema wirelane.lab/1)
    #[arg(long)]
    json: bool,
}

/// Remove a lab, or the remains of one. Does nothing if there is none.
///
/// Processes inside receive SIGTERM, and SIGKILL after the grace period. Files and cgroups that a
/// killed benchmark left behind are removed, too.
#[derive(Args, Clone, Debug)]
pub(crate) struct DownArgs {
    #[command(flatten)]
    lab: Name,
    /// How long the processes inside may take to end
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "2s")]
    grace: Duration,
    /// Print one JSON object (schema wirelane.lab/1)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The command failed. `exec` does not return if it becomes its command.
pub(crate) fn run(action: LabAction) -> Result<(), CommandFailure> {
    match action {
        LabAction::Up(args) => up(&args)?,
        LabAction::Down(args) => down(&args)?,
        LabAction::Exec(args) => return Err(exec::run(&args)),
        LabAction::Status(args) => status::run(&args)?,
    }
    Ok(())
}

fn up(args: &UpArgs) -> Result<()> {
    let lab = &args.lab.lab;
    // With TAP devices, offloads are off: the pair carries frames like a real cable.
    let default = (args.tap != Taps::Neither).then(Offloads::default);
    let config = LabConfig {
        queues: args.queues,
        mtu: args.mtu,
        ipv4: args.ipv4,
        ipv6: args.ipv6.0,
        offloads: args.offloads.map_or(default, |chosen| chosen.0),
        taps: args.tap,
    };
    let change = lab.up(&config)?;
    if args.json {
        return status::json(&[lab.status()?]);
    }
    let name = lab.name();
    output::line(format_args!(
        "{}",
        match change {
            Change::Made => format!("lab {name} is up"),
            Change::Repaired => format!("lab {name} is up; remains of an earlier one were removed"),
            Change::None => format!("lab {name} is up already"),
        }
    ));
    status::print(&[lab.status()?])
}

/// The JSON object of `down --json`.
#[derive(Serialize)]
struct Removed<'a> {
    schema: &'static str,
    version: &'static str,
    name: &'a str,
    removed: &'a [String],
    ended: &'a [Process],
    remaining: &'a [Process],
    /// Remains of killed benchmarks that were removed.
    swept: &'a [PathBuf],
    /// Remains of killed benchmarks that could not be removed.
    left: &'a [PathBuf],
}

fn down(args: &DownArgs) -> Result<()> {
    let lab = &args.lab.lab;
    let done = lab.down(args.grace)?;
    let swept = leftovers::sweep();
    if args.json {
        return output::json(&Removed {
            schema: status::SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            name: lab.name(),
            removed: &done.removed,
            ended: &done.ended,
            remaining: &done.remaining,
            swept: &swept.removed,
            left: &swept.left,
        });
    }
    for process in &done.ended {
        output::line(format_args!("ended {}", status::process(process)));
    }
    for process in &done.remaining {
        output::line(format_args!(
            "still running: {}; the kernel keeps an empty namespace until it ends",
            status::process(process)
        ));
    }
    for path in &swept.removed {
        output::line(format_args!("removed {}, left by a killed benchmark", path.display()));
    }
    for path in &swept.left {
        output::line(format_args!("cannot remove {}, left by a killed benchmark", path.display()));
    }
    let state = if done.removed.is_empty() { "does not exist" } else { "removed" };
    output::line(format_args!("lab {} {state}", lab.name()));
    Ok(())
}

/// A value, or `off` or `kernel` for none.
#[derive(Clone, Copy, Debug)]
struct Optional<T>(Option<T>);

impl<T: std::fmt::Display> std::fmt::Display for Optional<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("off"),
        }
    }
}

fn optional_network(text: &str) -> Result<Optional<Network>> {
    if text == "off" { Ok(Optional(None)) } else { Ok(Optional(Some(text.parse()?))) }
}

fn offloads(text: &str) -> Result<Optional<Offloads>> {
    if text == "kernel" {
        return Ok(Optional(None));
    }
    Ok(Optional(Some(text.parse()?)))
}
