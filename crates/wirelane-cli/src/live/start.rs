//! The beginning and the end of a live command.

use wirelane::halt::Halt;
use wirelane::{Error, ErrorKind, Result};

use super::arguments::SessionArgs;
use super::privileges::Privileges;
use crate::output;
use crate::output::report::SummaryReport;
use crate::output::summary::Summary;

/// A live command after its start: it handles signals, and still has its privileges.
pub(crate) struct StartedCommand<'a> {
    pub(crate) command: &'static str,
    pub(crate) args: &'a SessionArgs,
    /// Whether the user requests all details.
    pub(crate) verbose: bool,
    /// Ends the command by signals, and before the session begins also by `--duration`.
    pub(crate) halt: Halt,
    pub(crate) privileges: Privileges,
}

impl<'a> StartedCommand<'a> {
    /// Takes the signals that end the command ([`Halt::by_signals`]).
    ///
    /// # Errors
    /// The system refuses, or there is no such user as `args` name.
    pub(crate) fn new(command: &'static str, args: &'a SessionArgs, verbose: bool) -> Result<Self> {
        let halt = Halt::by_signals()?;
        halt.limit(args.duration);
        let privileges = Privileges::new(args)?;
        Ok(Self { command, args, verbose, halt, privileges })
    }

    /// As [`StartedCommand::new`], with the whole process in the namespace that `args` name: for a
    /// command that asks about interfaces later, too.
    ///
    /// # Errors
    /// As there; or the process cannot enter the namespace.
    pub(crate) fn in_namespace(
        command: &'static str,
        args: &'a SessionArgs,
        verbose: bool,
    ) -> Result<Self> {
        args.netns.enter()?;
        Self::new(command, args, verbose)
    }

    /// A result, whose error mentions dropped privileges if they may be the cause.
    pub(crate) fn explained<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.privileges.explain(error))
    }

    /// Reports how it ended, on the terminal and as JSON. Prints all errors but the first, which it
    /// returns. A closed reader is no error.
    ///
    /// # Errors
    /// The first error, or standard output cannot be written.
    pub(crate) fn conclude(&self, mut summary: Summary, errors: Vec<Error>) -> Result<()> {
        summary.complete(&errors);
        if !self.args.quiet {
            SummaryReport { summary: &summary, verbose: self.verbose }.print();
        }
        if self.args.json {
            output::json(&summary)?;
        }
        let errors = errors.into_iter().filter(|error| error.kind() != ErrorKind::BrokenPipe);
        self.explained(output::all_but_first(errors))
    }
}
