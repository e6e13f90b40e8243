//! `wirelane lab`: two network namespaces joined by a multi-queue veth pair, to try things in.

mod exec;
mod status;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use wirelane::{Error, Result};
use wirelane_bench::leftovers;
use wirelane_lab::{Change, IPV6_NETWORK, LabConfig, NamedLab, Network, Offloads, Process, Taps};

use crate::args;
use crate::output;

/// Make, use and remove a lab: two network namespaces joined by a multi-queue veth pair.
///
/// Nothing outside the lab is touched. The namespaces are called NAME-a and NAME-b, for `ip netns`
/// too; their interfaces wl-a and wl-b.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Action {
    Up(UpArgs),
    Down(DownArgs),
    Exec(exec::ExecArgs),
    Status(status::StatusArgs),
}

/// Make a lab; one that is there in this shape stays as it is.
///
/// What a process that was killed left of a lab is removed first.
#[derive(Args, Clone, Debug)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    lab: Name,
    /// Receive queues, and as many transmit queues, of each interface
    #[arg(long, value_name = "N", default_value_t = 4)]
    queues: u16,
    /// Largest payload of a frame, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    mtu: u32,
    /// Network of the IPv4 addresses: a has the first, b the second
    #[arg(long, value_name = "NETWORK", value_parser = network, default_value = "10.87.0.0/24")]
    ipv4: Network,
    /// The same of IPv6; off for a wire with nothing on it but what is sent
    #[arg(long, value_name = "NETWORK|off", value_parser = optional_network, default_value_t = Optional(Some(IPV6_NETWORK)))]
    ipv6: Optional<Network>,
    /// What the veth interfaces offload, and nothing else: a list of tx, tso, uso, gso and gro, or off;
    /// or kernel, for what the kernel gives them [default: kernel, and off with --tap]
    #[arg(long, value_name = "LIST", value_parser = offloads)]
    offloads: Option<Optional<Offloads>>,
    /// Put the stack of an end behind a TAP device, tap-a or tap-b, for `wirelane forward tap:…`
    #[arg(long, value_name = "a|b|both", value_parser = taps, default_value = "neither", hide_default_value = true)]
    tap: Taps,
    /// Print one JSON object (schema wirelane.lab/1)
    #[arg(long)]
    json: bool,
}

/// Remove a lab, or what is left of one; if there is none, nothing happens.
///
/// Processes inside are asked to end, and ended after the grace period. Files and cgroups that a benchmark
/// left when it was killed are removed, too.
#[derive(Args, Clone, Debug)]
pub(crate) struct DownArgs {
    #[command(flatten)]
    lab: Name,
    /// How long the processes inside have to end by themselves
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "2s")]
    grace: Duration,
    /// Print one JSON object (schema wirelane.lab/1)
    #[arg(long)]
    json: bool,
}

/// Which lab.
#[derive(Args, Clone, Debug)]
struct Name {
    /// Name of the lab
    #[arg(long = "name", value_name = "NAME", value_parser = named, default_value = NamedLab::DEFAULT)]
    lab: NamedLab,
}

/// Why it failed, and the exit status if that is an unusual one.
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) status: Option<u8>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, status: None }
    }
}

/// Runs the command.
///
/// # Errors
/// What keeps it from doing its work. `exec` does not return when it can become its command.
pub(crate) fn run(action: Action) -> Result<(), Failure> {
    match action {
        Action::Up(args) => up(&args)?,
        Action::Down(args) => down(&args)?,
        Action::Exec(args) => return Err(exec::run(&args)),
        Action::Status(args) => status::run(&args)?,
    }
    Ok(())
}

fn up(args: &UpArgs) -> Result<()> {
    let lab = &args.lab.lab;
    // With a program between the stack and the cable, the cable carries what a real one would.
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
            Change::Repaired =>
                format!("lab {name} is up; what was left of an earlier one was removed"),
            Change::None => format!("lab {name} is up already"),
        }
    ));
    status::print(&[lab.status()?])
}

/// What `down --json` prints.
#[derive(Serialize)]
struct Removed<'a> {
    schema: &'static str,
    version: &'static str,
    name: &'a str,
    removed: &'a [String],
    ended: &'a [Process],
    remaining: &'a [Process],
    /// What benchmarks left that were killed.
    swept: &'a [PathBuf],
    /// What of it could not be removed.
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
            "left alone: {}; the kernel keeps an empty namespace until it ends",
            status::process(process)
        ));
    }
    for path in &swept.removed {
        output::line(format_args!("removed {}, of a benchmark that was killed", path.display()));
    }
    for path in &swept.left {
        output::line(format_args!(
            "left: {}, of a benchmark that was killed: it cannot be removed",
            path.display()
        ));
    }
    let state = if done.removed.is_empty() { "is not there" } else { "is removed" };
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

fn named(text: &str) -> Result<NamedLab, String> {
    NamedLab::new(text).map_err(args::reason)
}

fn network(text: &str) -> Result<Network, String> {
    text.parse().map_err(args::reason)
}

fn optional_network(text: &str) -> Result<Optional<Network>, String> {
    if text == "off" { Ok(Optional(None)) } else { Ok(Optional(Some(network(text)?))) }
}

fn offloads(text: &str) -> Result<Optional<Offloads>, String> {
    if text == "kernel" {
        return Ok(Optional(None));
    }
    Ok(Optional(Some(text.parse().map_err(args::reason)?)))
}

fn taps(text: &str) -> Result<Taps, String> {
    text.parse().map_err(args::reason)
}
