//! `wirelane ndr`: measures the path between two ports.

mod arguments;
mod document;
mod live;
mod page;
mod text;
mod traffic;

use std::fs;

use wirelane::halt::Halt;
use wirelane::port::{self, Backend, Spec, Take};
use wirelane::{Error, Result};
use wirelane_send::measure::SignedReceiver;
use wirelane_send::ndr::{TestDirection, Tester};

pub(crate) use self::arguments::NdrArgs;
use self::document::Document;
use self::live::TrialDisplay;
use self::traffic::Both;
use crate::{output, overwrite, ssh};

/// Runs the command.
///
/// # Errors
/// A port cannot be opened or takes no part; sending fails; nothing at all arrives; a file cannot
/// be written.
pub(crate) fn run(args: &NdrArgs) -> Result<()> {
    args.netns.enter()?;
    let [a, b] = args.ports()?;
    for spec in [&a, &b] {
        is_interface(spec)?;
        ssh::refuse_to_send(spec, args.yes)?;
    }
    if a.name == b.name {
        let cause = "both ports are the same interface; packets leave by one and arrive at another";
        return Err(Error::usage("ports", cause));
    }
    if let Some(page) = &args.page {
        overwrite::refuse(page, &args.flows)?;
    }
    let campaign = args.campaign()?;
    let traffic = traffic::of(args, &a, &b)?;
    let halt = Halt::by_signals()?;
    let mut tester = tester(args, &a, &b, traffic, &halt)?;
    let mut live = TrialDisplay::new(args.quiet);
    let report = campaign.run(&mut tester, &mut |step| live.show(step));
    live.finish();
    let report = report?;
    let document = Document::new(&report, tester.receivers());
    if !args.quiet {
        text::lines(&report).for_each(|line| output::line(format_args!("{line}")));
    }
    if let Some(path) = &args.page {
        let failed = |error| Error::io(path.display().to_string(), "write", error);
        fs::write(path, page::render(&document)).map_err(failed)?;
        if !args.quiet {
            output::line(format_args!("the page is {}", path.display()));
        }
    }
    if args.json {
        output::json(&document)?;
    }
    Ok(())
}

fn is_interface(spec: &Spec) -> Result<()> {
    match spec.backend {
        None | Some(Backend::Packet | Backend::Xdp) => Ok(()),
        Some(_) => Err(Error::usage(format!("port '{spec}'"), "is no network interface")
            .help("name two interfaces, such as eth0 and eth1")),
    }
}

/// Opens the receivers. Each trial opens its senders.
fn tester(args: &NdrArgs, a: &Spec, b: &Spec, (there, back): Both, halt: &Halt) -> Result<Tester> {
    let placement = args.placement()?;
    let direction = |from: &Spec, to: &Spec, traffic| {
        let mut options = SignedReceiver::options(&placement);
        if to.backend == Some(Backend::Xdp) {
            // An explicit `xdp:` is consent to take packets from the host.
            options = options.take(Take::All);
        }
        let receiver = SignedReceiver::start(port::open(to, &options)?, &placement)?;
        let sender = format!("packet:{}", from.name_text()).parse()?;
        let name = format!("{} → {}", from.name_text(), to.name_text());
        Ok::<_, Error>(TestDirection { name, sender, receiver, traffic })
    };
    let mut directions = vec![direction(a, b, there)?];
    if let Some(back) = back.filter(|_| !args.one_way) {
        directions.push(direction(b, a, back)?);
    }
    let mut tester = Tester::new(directions, halt.clone());
    tester.placement = placement;
    tester.threads = args.threads;
    tester.settle = args.settle;
    Ok(tester)
}
