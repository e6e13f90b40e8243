//! The packets that a command takes from the host: what to announce, and what to refuse.
//!
//! The command runs the filter over packets that keep the host reachable (`reachability`), and over
//! the SSH connections that the environments of the command and its ancestors name (`ssh`).

use std::fmt::Write as _;

use clap::Args;
use wirelane::filter::{Filter, Program};
use wirelane::port::{self, Backend, OpenOptions, Port, PortInfo, Spec, Take};
use wirelane::{Error, Result};

use crate::output;
use crate::reachability::{ClassEffect, HostAddresses, explain};
use crate::ssh::{self, Connection};

/// Which packets ports take.
#[derive(Args, Clone, Debug)]
pub(crate) struct SteeringArgs {
    /// Take only packets that match: a tcpdump expression, or the output of `tcpdump -ddd`. On xdp:
    /// ports the host receives the rest
    #[arg(short = 'f', long = "filter", value_name = "EXPR", allow_hyphen_values = true)]
    filter: Option<String>,
    /// On xdp: ports, take all packets away from the host
    #[arg(long, help_heading = "Machine")]
    all: bool,
    /// On xdp: ports, also take ARP, neighbour discovery, SSH, DNS and DHCP, including your own SSH
    /// connection: the host may become unreachable over this interface
    #[arg(long, help_heading = "Machine", conflicts_with = "keep_management")]
    take_management: bool,
    /// On xdp: ports, leave ARP, neighbour discovery, SSH, DNS and DHCP to the host. This is the
    /// default unless packets pass between two interfaces
    #[arg(long, help_heading = "Machine")]
    keep_management: bool,
}

/// The use of the packets that a command receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The command only looks at packets: copies suffice.
    Look,
    /// The command consumes packets, or sends them back through their port.
    Consume,
    /// The packets pass through the machine to other hosts, whose ARP and SSH are not this host's.
    PassOn,
}

impl SteeringArgs {
    /// The unparsed filter.
    pub(crate) fn filter(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// Adds a filter that the command line has in another place.
    ///
    /// # Errors
    /// There is a filter already.
    pub(crate) fn with_filter(self, filter: Option<&str>) -> Result<Self> {
        match (filter, &self.filter) {
            (None, _) => Ok(self),
            (Some(filter), None) => Ok(Self { filter: Some(filter.to_owned()), ..self }),
            (Some(words), Some(option)) => {
                let cause = format!("there are two, -f '{option}' and '{words}'");
                Err(Error::usage("filter", cause).help("write one of them"))
            }
        }
    }

    /// Adds the filter and the steering to the options of the port that `spec` names.
    ///
    /// # Errors
    /// The filter is wrong for every link type. The position of the error is then printed, too.
    pub(crate) fn apply(
        &self,
        spec: &Spec,
        purpose: Purpose,
        options: &mut OpenOptions,
    ) -> Result<()> {
        options.filter = self.filter.as_deref().map(filter).transpose()?;
        let take = match (&options.filter, self.all) {
            _ if purpose == Purpose::Look && spec.backend.is_none() => Take::Nothing,
            (_, true) => Take::All,
            (Some(_), false) => Take::Matching,
            (None, false) => Take::Nothing,
        };
        let passes = purpose == Purpose::PassOn && !self.keep_management;
        options.take = take.management(self.take_management || passes);
        Ok(())
    }

    /// The packets that the port that `spec` names would take from the host; `None` if it takes
    /// none.
    ///
    /// # Errors
    /// It would take the user's own connection without consent.
    pub(crate) fn diversion(
        &self,
        spec: &Spec,
        options: &OpenOptions,
    ) -> Result<Option<Diversion>> {
        let may_take = match spec.backend {
            Some(Backend::Xdp) => options.take != Take::Nothing,
            None => options.take.takes_all(),
            Some(_) => false,
        };
        if !may_take || !options.receive {
            return Ok(None);
        }
        let connections = ssh::connections().into_iter();
        let diversion = Diversion {
            interface: spec.name_text().to_owned(),
            connections: connections.filter(|one| one.may_arrive_at(spec.name_text())).collect(),
            take_management: options.take.takes_management(),
            is_consent: self.take_management,
        };
        diversion.check(options.filter.as_ref(), !self.keep_management)?;
        Ok(Some(diversion))
    }
}

/// Parses a filter.
///
/// # Errors
/// It is wrong for every link type. The position of the error is then printed, too.
pub(crate) fn filter(text: &str) -> Result<Filter> {
    let filter: Filter = text.parse()?;
    // Most packets are Ethernet. Errors for single link types are reported once the link types are
    // known.
    if let Err(error) = filter.check(1)
        && error.span().is_some()
    {
        if let Some(caret) = error.caret() {
            caret.lines().for_each(|line| output::line(format_args!("{line}")));
        }
        return Err(error.into());
    }
    Ok(filter)
}

/// The packets that an AF_XDP port takes from the host.
#[derive(Clone, Debug)]
pub(crate) struct Diversion {
    interface: String,
    /// Connections of the user that may use this interface.
    connections: Vec<Connection>,
    take_management: bool,
    /// The user has consented to losing all of them.
    is_consent: bool,
}

impl Diversion {
    /// Checks that `filter` leaves the user's connections alone. If `strict`, it also refuses a
    /// filter that matches such a connection but leaves it to the host, because the user may expect
    /// to capture it.
    ///
    /// # Errors
    /// The filter takes one of the connections, or matches one while `strict`.
    pub(crate) fn check(&self, filter: Option<&Filter>, strict: bool) -> Result<()> {
        if self.is_consent {
            return Ok(());
        }
        let program = program(filter)?;
        for connection in &self.connections {
            let host =
                HostAddresses { addresses: Vec::new(), sessions: vec![*connection], ..self.host() };
            let taken = explain(program.as_deref(), &host)?;
            let is_taken = taken.iter().any(|one| one.packets_taken(self.take_management) > 0);
            let is_meant = filter.is_some() && taken.iter().any(|one| one.matching > 0);
            if !(is_taken || is_meant && strict) {
                continue;
            }
            let what = if filter.is_some() { "the filter accepts" } else { "--all includes" };
            let cause = format!("{what} your own SSH connection, {connection}");
            let stays = taken.iter().all(|one| one.packets_taken(false) == 0);
            let help = match stays {
                true => {
                    "leave it to the host with --keep-management, or take it with --take-management"
                }
                false => "exclude its port with -f, or take it with --take-management",
            };
            let object = format!("interface {}", self.interface);
            return Err(Error::usage(object, cause).help(help));
        }
        Ok(())
    }

    /// Says what the port takes, before it does.
    ///
    /// # Errors
    /// The filter is not for Ethernet.
    fn announce(&self, info: &PortInfo, filter: Option<&Filter>) -> Result<()> {
        if info.backend != Backend::Xdp {
            return Ok(());
        }
        let mut host = HostAddresses { sessions: self.connections.clone(), ..self.host() };
        let whose = if host.addresses.is_empty() {
            host.addresses = HostAddresses::generic().addresses;
            "assuming example addresses, because it has none".to_owned()
        } else {
            format!("given the addresses of {}", self.interface)
        };
        let classes = explain(program(filter)?.as_deref(), &host)?;
        let what = if filter.is_some() { "packets that match" } else { "all packets" };
        let text = format!(
            "while this runs, {} takes {what} away from the host ({whose}):\n{}",
            info.spec,
            table(&classes, self.take_management)
        );
        text.lines().for_each(|line| output::line(format_args!("{line}")));
        Ok(())
    }

    fn host(&self) -> HostAddresses {
        // Opening the port refuses an interface without an Ethernet address.
        HostAddresses::of_interface(&self.interface).unwrap_or_else(|_| HostAddresses::generic())
    }
}

/// Opens a port. Unless `quiet`, then prints which packets the host loses to it.
///
/// # Errors
/// As [`port::open`]; the filter does not compile.
pub(crate) fn open(
    spec: &Spec,
    options: &OpenOptions,
    diversion: Option<&Diversion>,
    quiet: bool,
) -> Result<Port> {
    let port = port::open(spec, options)?;
    if let Some(diversion) = diversion.filter(|_| !quiet) {
        diversion.announce(port.info(), options.filter.as_ref())?;
    }
    Ok(port)
}

/// The program of a filter of an AF_XDP port.
fn program(filter: Option<&Filter>) -> Result<Option<std::sync::Arc<Program>>> {
    const ETHERNET: u16 = 1;
    Ok(filter.map(|filter| filter.program(ETHERNET, OpenOptions::MAX_SNAPLEN)).transpose()?)
}

/// The effect on each class, and a warning if SSH packets are taken.
pub(crate) fn table(classes: &[ClassEffect], take_management: bool) -> String {
    let mut page = String::new();
    for taken in classes {
        let what = match taken.packets_taken(take_management) {
            0 if taken.management > 0 => "stays (--take-management takes it)".to_owned(),
            0 => "stays".to_owned(),
            all if all == taken.packets => "taken".to_owned(),
            some => format!("taken in part ({some} of {} packets)", taken.packets),
        };
        let _ = writeln!(page, "  {:30} {what}", taken.class.name());
    }
    let is_lost =
        |taken: &ClassEffect| taken.class.is_ssh() && taken.packets_taken(take_management) > 0;
    if classes.iter().any(is_lost) {
        page += "WARNING: SSH on that interface is included; sessions would break.\n";
    }
    page
}
