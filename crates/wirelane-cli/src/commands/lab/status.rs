//! `wirelane lab status`: the state of labs, for people and for programs.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use wirelane::Result;
use wirelane_lab::{InterfaceStatus, LabStatus, NamedLab, Process, SiteStatus, State};

use crate::output;

/// The name of the JSON object's shape.
pub(super) const SCHEMA: &str = "wirelane.lab/1";

/// Show labs: their namespaces, interfaces, and the processes inside.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArgs {
    /// Name of the lab [default: all labs]
    #[arg(long = "name", value_name = "NAME", value_parser = NamedLab::new)]
    lab: Option<NamedLab>,
    /// Print one JSON object (schema wirelane.lab/1)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The namespaces cannot be looked into.
pub(super) fn run(args: &StatusArgs) -> Result<()> {
    let labs = match &args.lab {
        Some(lab) => vec![lab.clone()],
        None => NamedLab::all()?,
    };
    let labs = labs.iter().map(NamedLab::status).collect::<Result<Vec<_>>>()?;
    if args.json {
        return json(&labs);
    }
    if labs.is_empty() {
        output::line(format_args!("there is no lab; `wirelane lab up` creates one"));
    }
    print(&labs)
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    labs: &'a [LabStatus],
}

/// Prints the labs as one JSON object.
pub(super) fn json(labs: &[LabStatus]) -> Result<()> {
    output::json(&Document { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), labs })
}

/// Prints the labs for people.
pub(super) fn print(labs: &[LabStatus]) -> Result<()> {
    output::print(&labs.iter().map(lab).collect::<String>())
}

/// A process in a few words.
pub(super) fn process(process: &Process) -> String {
    let user = process.user.clone().or_else(|| process.uid.map(|uid| uid.to_string()));
    let command = match process.command.is_empty() {
        true => "a kernel thread".to_owned(),
        // Arguments that other users chose must be escaped on a terminal.
        false => process.command.join(" ").escape_debug().to_string(),
    };
    let threads = if process.threads_only { ", with threads inside" } else { "" };
    format!(
        "process {} of {}: {command}{threads}",
        process.pid,
        user.unwrap_or_else(|| "unknown".into())
    )
}

fn lab(lab: &LabStatus) -> String {
    let shape = lab.shape.filter(|_| lab.state != State::Absent);
    let shape = shape.map(|shape| format!(", {shape}")).unwrap_or_default();
    let state = match lab.state {
        State::Up => "up",
        State::Partial => "incomplete",
        State::Absent => "absent",
        State::Foreign => "the name belongs to something else",
    };
    let mut out = format!("lab {}: {state}{shape}\n", lab.name);
    if lab.state != State::Absent {
        lab.sites.iter().for_each(|site| describe(&mut out, site));
    }
    out
}

fn describe(out: &mut String, site: &SiteStatus) {
    let state = match (site.state, site.cause) {
        (_, Some(cause)) => format!(": {cause}"),
        (State::Absent, _) => ": absent".into(),
        (State::Partial, _) => ": a name without a namespace".into(),
        _ => String::new(),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "  {}  namespace {}{state}", site.site, site.namespace);
    for interface in &site.interfaces {
        let _ = writeln!(out, "     {}", in_words(interface));
    }
    for inside in &site.processes {
        let _ = writeln!(out, "     {}", process(inside));
    }
}

fn in_words(interface: &InterfaceStatus) -> String {
    let link = match (interface.up, interface.running) {
        (true, true) => "up",
        (true, false) => "up, no carrier",
        _ => "down",
    };
    let count = |count: Option<u32>| count.map(|count| count.to_string());
    let queues = match (count(interface.rx_queues), count(interface.tx_queues)) {
        (Some(rx), Some(tx)) if rx == tx => format!(", {rx} queues"),
        (Some(rx), Some(tx)) => format!(", {rx} RX and {tx} TX queues"),
        _ => String::new(),
    };
    let mtu = interface.mtu.map(|mtu| format!(", MTU {mtu}")).unwrap_or_default();
    let offloads = interface.offloads.map(|list| format!(", offloads {list}")).unwrap_or_default();
    let addresses: String =
        interface.addresses.iter().map(|address| format!(" {address}")).collect();
    format!("{}{addresses}: {link}{queues}{mtu}{offloads}", interface.name)
}
