//! Which packets a command takes away from the host, what it says of that beforehand, and what it
//! refuses to take.
//!
//! The command runs the filter over packets that keep the host reachable (`reachability`), and over
//! the SSH connections that the environments of the command and its ancestors name (`ssh`).

use std::fmt::Write as _;

use clap::Args;
use wirelane::filter::{Filter, Program};
use wirelane::port::{self, Backend, OpenOptions, Port, PortInfo, Spec, Take};
use wirelane::{Error, Result};

use crate::output;
use crate::reachability::{Host, Taken, explain};
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

/// What a command does with the packets that it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It only looks at them: copies are as good.
    Look,
    /// It consumes them, or sends them back where they came from.
    Consume,
    /// They are on their way through the machine to others, whose ARP and SSH are no business of
    /// this host.
    PassOn,
}

impl SteeringArgs {
    /// The filter, as it was written.
    pub(crate) fn filter(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// As these, with a filter that was written elsewhere.
    ///
    /// # Errors
    /// There is one already.
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

    /// Puts them into the options of the port that `spec` names.
    ///
    /// # Errors
    /// The filter is wrong whatever the port: then the place is shown as well.
    pub(crate) fn apply(
        &self,
        spec: &Spec,
        purpose: Purpose,
        options: &mut OpenOptions,
    ) -> Result<()> {
        options.filter = self.filter.as_deref().map(filter).transpose()?;
        options.take = match (&options.filter, self.all) {
            _ if purpose == Purpose::Look && spec.backend.is_none() => Take::Nothing,
            (_, true) => Take::All,
            (Some(_), false) => Take::Matching,
            (None, false) => Take::Nothing,
        };
        let passes = purpose == Purpose::PassOn && !self.keep_management;
        options.take_management = self.take_management || passes;
        Ok(())
    }

    /// What the port that `spec` names would take away from the host; `None` if nothing.
    ///
    /// # Errors
    /// The user's own connection is among it, and nobody has said that it may.
    pub(crate) fn diversion(
        &self,
        spec: &Spec,
        options: &OpenOptions,
    ) -> Result<Option<Diversion>> {
        let may_take = match spec.backend {
            Some(Backend::Xdp) => options.take != Take::Nothing,
            None => options.take == Take::All,
            Some(_) => false,
        };
        if !may_take || !options.receive {
            return Ok(None);
        }
        let connections = ssh::connections().into_iter();
        let diversion = Diversion {
            interface: spec.name_text().to_owned(),
            connections: connections.filter(|one| one.may_arrive_at(spec.name_text())).collect(),
            take_management: options.take_management,
            is_consent: self.take_management,
        };
        diversion.check(options.filter.as_ref(), !self.keep_management)?;
        Ok(Some(diversion))
    }
}

/// A filter that somebody wrote.
///
/// # Errors
/// It is wrong whatever the link type: then the place is shown as well.
pub(crate) fn filter(text: &str) -> Result<Filter> {
    let filter: Filter = text.parse()?;
    // Most packets are Ethernet. What is wrong only there, or only elsewhere, will be said when
    // they are known.
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

/// What an AF_XDP port takes away from the host.
#[derive(Clone, Debug)]
pub(crate) struct Diversion {
    interface: String,
    /// By which the user may have come through this interface.
    connections: Vec<Connection>,
    take_management: bool,
    /// The user has said that all of them may be taken.
    is_consent: bool,
}

impl Diversion {
    /// Whether `filter` leaves the user's connections alone. A filter that means one of them is
    /// refused even if that would stay with the host, if it is `strict`: somebody may believe that
    /// it is captured.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn check(&self, filter: Option<&Filter>, strict: bool) -> Result<()> {
        if self.is_consent {
            return Ok(());
        }
        let program = program(filter)?;
        for connection in &self.connections {
            let host = Host { addresses: Vec::new(), sessions: vec![*connection], ..self.host() };
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
        let mut host = Host { sessions: self.connections.clone(), ..self.host() };
        let whose = if host.addresses.is_empty() {
            host.addresses = Host::generic().addresses;
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

    fn host(&self) -> Host {
        // What has no Ethernet address is refused when it is opened.
        Host::of_interface(&self.interface).unwrap_or_else(|_| Host::generic())
    }
}

/// Opens a port. Unless `quiet`, it first says which packets the host loses to it.
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

/// What becomes of each class, and a warning if SSH is among what is taken.
pub(crate) fn table(classes: &[Taken], take_management: bool) -> String {
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
    let is_lost = |taken: &Taken| taken.class.is_ssh() && taken.packets_taken(take_management) > 0;
    if classes.iter().any(is_lost) {
        page += "WARNING: SSH on that interface is included; sessions would break.\n";
    }
    page
}
