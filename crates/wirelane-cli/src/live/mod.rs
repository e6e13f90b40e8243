//! Live commands: they open ports and run until an event ends them. A command makes a plan of its
//! arguments and starts a session; [`run_live`] does everything else.
//!
//! `docs/operate.md` has the table of the features that each live command supports; a test tries
//! every cell.

mod announce;
mod arguments;
mod input;
mod privileges;
mod run;
mod service;
mod show;
mod start;
mod worker;

pub(crate) use self::announce::Doing;
pub(crate) use self::arguments::{SessionArgs, VerboseArgs, placement};
pub(crate) use self::input::InputArgs;
pub(crate) use self::run::{FRAME, OpenedSession, attend, run_live};
pub(crate) use self::show::{LiveLines, LiveScreen};
pub(crate) use self::start::StartedCommand;
