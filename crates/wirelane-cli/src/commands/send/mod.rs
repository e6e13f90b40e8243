//! `wirelane send`: replay files, or generate packets.

mod arguments;
mod content;
mod engine;
mod flows;
mod line;
mod print;
mod replay;
mod rewrite;

use std::path::Path;
use std::sync::Arc;

use wirelane::halt::Halt;
use wirelane::internal::frame::Protocols;
use wirelane::internal::port::{Forwarding, OffloadOptions, ProgramOptions, Switches};
use wirelane::placement::Placement;
use wirelane::port::{self, Backend, OpenOptions, Port, Spec, Take};
use wirelane::stats::TxStats;
use wirelane::{Error, Result};
use wirelane_os::affinity;
use wirelane_send::{Pacing, SendConfig, SendEngine, SendOutcome, sockets};

pub(crate) use self::arguments::SendArgs;
use self::content::SendContent;
use self::line::SendLine;
use crate::live::{Doing, OpenedSession, StartedCommand, run_live};
use crate::output::summary::Summary;
use crate::{output, overwrite, ssh};

/// Runs the command.
///
/// # Errors
/// Sending cannot start, or an error ended it early.
pub(crate) fn run(args: &SendArgs) -> Result<()> {
    let mut start = StartedCommand::in_namespace("send", &args.session, args.verbose.verbose)?;
    let halt = start.halt.clone();
    let args = &args.with_port_in_place()?;
    if let Some(packets) = args.print {
        start.privileges.give_away(&[])?;
        return print::run(args, packets, &halt);
    }
    let placement = args.session.placement()?;
    let target = target(args)?;
    let mut content = None;
    if target.backend == Some(Backend::File) {
        overwrite::refuse(Path::new(&target.name), args.files.iter().chain(&args.flows))?;
        // The output is emptied only after the input was opened.
        start.privileges.give_away(&[])?;
        content = Some(start.explained(SendContent::open(args, None, 1, &halt))?);
    }
    let (port, lanes) = start.explained(open(args, &target, &placement, &halt))?;
    // The kernel engine needs privileges, files do not.
    if !args.files.is_empty() || args.engine == SendEngine::Sockets {
        start.privileges.give_away(&[])?;
    }
    let opened =
        content.map_or_else(|| SendContent::open(args, port.info().speed, lanes, &halt), Ok);
    let mut content = start.explained(opened)?;
    let config = SendConfig::default()
        .pacing(Pacing::default().burst(args.pace.burst))
        .packets(args.session.count)
        .duration(args.session.duration)
        .placement(placement.clone())
        .cut(args.gso.is_some())
        .threads(lanes as usize)
        .halt(halt.clone());
    let again = || open(args, &target, &placement, &halt).map(|(port, _)| port);
    let choice = engine::choose(args, port, &content, &config, again)?;
    let sending = match choice.sending {
        Ok(kernel) => kernel,
        Err(port) => {
            start.privileges.give_away(&[])?;
            let mut sources = |lane| content.source(lane);
            sockets::start(port, &mut sources, &config)?
        }
    };
    let is_told = start.verbose && !args.session.quiet;
    if let Some(refusal) = choice.refusal.as_ref().filter(|_| is_told) {
        output::line(format_args!("kernel refused: {refusal}"));
    }
    let doing = format!("sending ({}) through", sending.engine());
    let opened =
        OpenedSession { doing: Doing::Each(&[&doing]), diversions: Vec::new(), filter: None };
    let expected = args.session.count.into_iter().chain(content.packets()).min();
    let mut line = SendLine::new(expected, &args.session);
    run_live(start, sending, opened, &mut line, |mut outcome, started| {
        outcome.port.notes.extend(content.notes());
        if outcome.errors.is_empty() && outcome.sent() == 0 && !halt.is_asked() {
            outcome.errors.push(nothing_sent(&outcome, args));
        }
        let summary = Summary::of_send(&outcome, choice.refusal.as_deref(), started);
        Ok((summary, outcome.errors))
    })
}

/// The port to send to.
///
/// # Errors
/// There is no port; the kernel cannot send into a file; the user's own SSH connection uses the
/// interface.
fn target(args: &SendArgs) -> Result<Spec> {
    let missing = || Error::usage("PORT", "nothing is sent by default").help("name a port");
    let spec = Spec::try_from(args.target.as_deref().ok_or_else(missing)?)?;
    if args.engine == SendEngine::Kernel && spec.backend == Some(Backend::File) {
        return Err(Error::usage("--engine kernel", "the kernel sends into no file")
            .help("leave it out, or name an interface"));
    }
    ssh::refuse_to_send(&spec, args.yes)?;
    Ok(spec)
}

/// The reason why no packet was sent, although no error occurred.
fn nothing_sent(outcome: &SendOutcome, args: &SendArgs) -> Error {
    let sum = |of: fn(&TxStats) -> u64| outcome.tx.iter().map(of).sum::<u64>();
    let error = |cause: &str, help: &'static str| {
        Error::failed(outcome.port.spec.as_str(), format!("nothing was sent: {cause}")).help(help)
    };
    if outcome.skipped.too_long + sum(|tx| tx.wrong_length) > 0 {
        let help = match args.gso {
            Some(_) => "send shorter ones, or through a port with a larger MTU",
            None => "--gso cuts packets of TCP and UDP; or raise the MTU",
        };
        return error("the packets are longer than the MTU allows", help);
    }
    if sum(|tx| tx.refused) > 0 {
        return error(
            "the kernel refused every packet",
            "look at the rules for egress (nft, tc), and at the MTU of the other end",
        );
    }
    if args.session.duration.is_some() {
        return error("--duration was over before the first packet", "send for longer");
    }
    error("no packet left before the end", "look at the notes above")
}

/// Opens the port; also returns the number of sending threads.
///
/// # Errors
/// The port cannot be opened for sending.
fn open(args: &SendArgs, spec: &Spec, placement: &Placement, halt: &Halt) -> Result<(Port, u32)> {
    let forwarding = Forwarding::default().segments(args.gso.is_some()).heeds_offloads(true);
    let options = OpenOptions::default()
        .receive(false)
        .transmit(true)
        .halt(halt.clone())
        .placement(placement.clone())
        // The port receives no packets, so it takes none: this only allows AF_XDP for a bare name.
        .take(Take::All)
        .internal(ProgramOptions::default().outgoing(false).forwarding(forwarding));
    let mut port = port::open(spec, &options)?;
    if port.info().link_type != 1 {
        let cause = format!("its link type is {}, not Ethernet", port.info().link_type);
        return Err(Error::failed(spec.to_string(), cause).help("name an Ethernet interface"));
    }
    let gso = args.gso.map(|gso| OffloadOptions {
        gso: Some(gso),
        gro: Some(Protocols::NONE),
        gso_max: None,
    });
    if let Some(gso) = gso {
        port.set_switches(Arc::new(Switches::of(&spec.offloads, &gso)));
    }
    let queues = port.info().queues.len().max(1);
    // More threads than CPUs would wait for each other instead of for their packets.
    let cpus = affinity::allowed_cpus().map_or(1, |cpus| cpus.len());
    let lanes = if spec.queues.is_some() { queues } else { queues.min(cpus) };
    Ok((port, u32::try_from(lanes).unwrap_or(u32::MAX)))
}
