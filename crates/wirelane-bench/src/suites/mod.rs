//! The suites, and the list of them.

pub(crate) mod bed;
pub mod capture;
pub mod filter;
pub mod flows;
pub mod gso;
pub mod libpcap;
pub mod noloss;
mod paced;
mod parts;
mod programs;
pub mod qdisc;
pub mod record;
pub mod scaling;
pub mod send;
mod senders;
pub mod sockets;

use clap::{ArgMatches, Command, FromArgMatches, Subcommand};

use crate::suite::{ListedSuite, ReadySuite};

/// All suites, in the order of a report. The suite with the longest round is last: it may have time
/// for a single round.
pub const SUITES: [ListedSuite; 11] = [
    ListedSuite::of::<capture::CaptureSuite>(),
    ListedSuite::of::<record::RecordSuite>(),
    ListedSuite::of::<libpcap::LibpcapSuite>(),
    ListedSuite::of::<flows::FlowsSuite>(),
    ListedSuite::of::<sockets::SocketsSuite>(),
    ListedSuite::of::<noloss::NolossSuite>(),
    ListedSuite::of::<send::SendSuite>(),
    ListedSuite::of::<scaling::ScalingSuite>(),
    ListedSuite::of::<qdisc::QdiscSuite>(),
    ListedSuite::of::<filter::FilterSuite>(),
    ListedSuite::of::<gso::GsoSuite>(),
];

/// A suite that is named on the command line.
pub struct NamedSuite(pub ReadySuite);

impl FromArgMatches for NamedSuite {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let found = matches.subcommand().and_then(|(name, matches)| {
            SUITES.iter().find(|suite| suite.name == name).map(|suite| (suite.parse)(matches))
        });
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        found.ok_or_else(missing)?.map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for NamedSuite {
    fn augment_subcommands(command: Command) -> Command {
        let add = |command: Command, suite: &ListedSuite| {
            command.subcommand((suite.arguments)(Command::new(suite.name)).display_order(1))
        };
        SUITES.iter().fold(command, add)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        SUITES.iter().any(|suite| suite.name == name)
    }
}
