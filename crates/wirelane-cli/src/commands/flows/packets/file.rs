//! Packets of a whole capture file, which the program reads by itself.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use wirelane::Result;
use wirelane::pcap::Access;
use wirelane::port::Spec;

use super::destination::PacketDestination;
use crate::commands::flows::arguments::FlowsArgs;
use crate::commands::flows::program::SinkProgram;
use crate::live::{FRAME, InputArgs, StartedCommand, attend};
use crate::output::summary::{Export, Summary};
use crate::sources;

/// How often to check whether the program has ended.
const LOOK: Duration = Duration::from_millis(5);

/// The file, if the program may read all of it: there is no filter, mask or other selection.
pub(super) fn whole(args: &FlowsArgs, specs: &[Spec], input: &InputArgs) -> Option<PathBuf> {
    let [spec] = specs else { return None };
    let path = PathBuf::from(&spec.name);
    let is_plain = *spec == sources::file(&path) && path.as_os_str() != "-" && path.is_file();
    (is_plain && input.is_all() && !args.habits.is_choosy()).then_some(path)
}

pub(super) fn run(
    args: &FlowsArgs,
    path: PathBuf,
    destination: &PacketDestination<'_>,
    access: Access,
    mut start: StartedCommand<'_>,
) -> Result<()> {
    start.privileges.give_away(&[])?;
    let to = start.explained(destination.open(access))?;
    let mut options = destination.options();
    options.extend(["-r".into(), absolute(&path).into_os_string()]);
    options
        .extend(args.session.count.into_iter().flat_map(|n| ["-c".into(), n.to_string().into()]));
    let started = Instant::now();
    let program = RefCell::new(SinkProgram::start_alone(to, &options)?);
    let wait = |pause| {
        let until = Instant::now() + pause;
        while !program.borrow_mut().has_ended() {
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    };
    attend(wait, args.session.duration, (&start.halt, FRAME), started, |_| ());
    let mut program = program.into_inner();
    if !program.has_ended() {
        program.stop();
    }
    let (told, ended) = program.finish();
    let export = Export::of_packets(&destination.name(), told, None);
    let summary = Summary::of_stored_packets(&[path], None, export, started);
    start.conclude(summary, ended.err().into_iter().collect())
}

/// Makes the path absolute, so that a leading `-` cannot begin an option.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
