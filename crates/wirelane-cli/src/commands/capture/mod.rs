//! `wirelane capture`: every selected queue of all ports in parallel, counted or written.

mod arguments;
pub(crate) mod foreign_options;

use wirelane::port::{Backend, Spec};
use wirelane::session::capture::Capture;
use wirelane::{Error, Result};

pub(crate) use self::arguments::CaptureArgs;
use crate::live::{Doing, LiveScreen, OpenedSession, StartedCommand, run_live};
use crate::output::summary::Summary;
use crate::print::PacketPrinter;
use crate::provenance::Provenance;
use crate::{habits, overwrite};

/// Runs the command.
///
/// # Errors
/// The capture cannot start, or an error ended it early. The file has the packets captured before.
pub(crate) fn run(args: &CaptureArgs) -> Result<()> {
    if args.habits.list_interfaces {
        return habits::list();
    }
    if args.session.json && args.write.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Error::usage("--json", "standard output already takes the packets of -w -")
            .help("write the packets to a file"));
    }
    let mut start = StartedCommand::new("capture", &args.session, args.print.verbose > 0)?;
    let halt = start.halt.clone();
    let access = args.access.access()?;
    start.privileges.give_files_to(access.group);
    let mut config = args.config(access, &halt)?;
    if config.is_short() {
        // This must precede the first thread.
        wirelane_os::memory::share_heap();
    }
    let style = args.style()?;
    let (words, read, netns) = (&args.words, args.read.as_deref(), &args.session.netns);
    let (specs, filter) = args.habits.split(words, read, netns, &|_| false)?;
    let mut input = args.input.clone().with_filter(filter.as_deref())?;
    input.is_watched = style.is_some() && args.print.is_watched();
    let is_packet = |spec: &Spec| matches!(spec.backend, None | Some(Backend::Packet));
    if input.is_immediate() && specs.iter().all(is_packet) {
        config.immediate = true;
        config.placement = config.placement.on_one();
    }
    input.all_interfaces = args.split || args.writes_pcap();
    if let Some(output) = &mut config.output {
        // Generated names never replace a file.
        if !output.split && !output.options.rotation.is_active() {
            overwrite::refuse_ports(&output.path, &specs)?;
        }
        let mask = input.mask();
        let is_live = specs.iter().any(|spec| spec.backend != Some(Backend::File));
        let provenance = Provenance { filter: input.filter(), mask: &mask, is_live };
        provenance.add_to(&mut output.options, &args.comment);
    }
    let (ports, diversions) = input.open(&specs, &start)?;
    args.habits.check(&ports)?;
    start.privileges.give_away(&ports)?;
    let mut screen = match style {
        Some(_) => LiveScreen::Packets,
        None => LiveScreen::Figures(args.write.as_deref()),
    };
    let capture = match style {
        None => Capture::start(ports, &config),
        Some(style) => {
            Capture::start_with_view(ports, &config, Box::new(PacketPrinter::new(style, &halt)?))
        }
    };
    let capture = start.explained(capture)?;
    let opened =
        OpenedSession { doing: Doing::Input("capturing on"), diversions, filter: input.filter() };
    run_live(start, capture, opened, &mut screen, |outcome, started| {
        let summary = Summary::of_capture(&outcome, config.output.as_ref(), started);
        Ok((summary, outcome.errors))
    })
}
