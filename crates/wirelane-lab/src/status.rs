//! The current state of named labs, read from the kernel.

use std::net::IpAddr;

use serde::{Serialize, Serializer};
use wirelane_os::ethtool::Ethtool;
use wirelane_os::netdev::{self, Link};
use wirelane_os::netns::names::{self, NameMeaning};
use wirelane_os::{OsError, iface, netns};

use super::mark::LabMark;
use super::named::NamedLab;
use super::named::{NamedObject, mark_of};
use super::processes::Process;
use super::shape::{LabConfig, Offloads};
use super::site::Side;
use super::{build, processes};
use wirelane::error::Result;

/// A lab, or the remains of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabStatus {
    /// Its name.
    pub name: String,
    /// Its completeness.
    pub state: State,
    /// Its shape, if known.
    pub shape: Option<LabConfig>,
    /// Both ends, the near one first.
    pub sites: Vec<SiteStatus>,
}

/// The completeness of a lab, or of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Complete.
    Up,
    /// Incomplete: the next `up` repairs it, and `down` removes it.
    Partial,
    /// It does not exist.
    Absent,
    /// Its name is foreign.
    Foreign,
}

/// One end of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiteStatus {
    /// The side.
    pub site: Side,
    /// The name that `ip netns` knows.
    pub namespace: String,
    /// Its completeness.
    pub state: State,
    /// Why it counts as foreign.
    pub cause: Option<&'static str>,
    /// Its interfaces, except for the loopback.
    pub interfaces: Vec<InterfaceStatus>,
    /// The processes inside.
    pub processes: Vec<Process>,
}

/// An interface in a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// Its kind, e.g. `veth`; TAP devices are `tun`.
    pub kind: Option<String>,
    /// Whether it is set up.
    pub up: bool,
    /// Whether it has a carrier. A TAP device has one while a program is at its other end.
    pub running: bool,
    /// Link-layer address.
    #[serde(serialize_with = "colons")]
    pub mac: Vec<u8>,
    /// The MTU, in bytes.
    pub mtu: Option<u32>,
    /// Receive queues in use; unknown for a TAP device, which has one per descriptor.
    pub rx_queues: Option<u32>,
    /// Transmit queues in use.
    pub tx_queues: Option<u32>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its offloads.
    pub offloads: Option<Offloads>,
}

impl NamedLab {
    /// The current state of this lab.
    ///
    /// # Errors
    /// CAP_SYS_ADMIN, which is needed to enter the namespaces, is missing.
    pub fn status(&self) -> Result<LabStatus> {
        let found = self.find()?;
        let whole = self.whole(&found)?;
        let shape = found.iter().find_map(|found| match found {
            NamedObject::Ours(_, config) => *config,
            _ => None,
        });
        let sites = Side::ALL.into_iter().zip(&found).map(|(side, found)| self.site(side, found));
        let sites = sites.collect::<Result<Vec<_>>>()?;
        let any = |state| sites.iter().any(|site| site.state == state);
        let state = match whole {
            Some(_) => State::Up,
            None if any(State::Foreign) => State::Foreign,
            None if any(State::Up) || any(State::Partial) => State::Partial,
            None => State::Absent,
        };
        Ok(LabStatus { name: self.name.clone(), state, shape, sites })
    }

    /// Every lab of which at least remains exist, by name.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub fn all() -> Result<Vec<Self>> {
        let failed = |error: OsError| super::site::refused("labs", error);
        let mut labs: Vec<Self> = Vec::new();
        for name in names::list().map_err(failed)? {
            let Some((lab, side)) = name.rsplit_once('-') else { continue };
            let (Ok(lab), Ok(side)) = (Self::new(lab), side.parse::<Side>()) else { continue };
            let mark = match names::look(&name).map_err(failed)? {
                NameMeaning::Namespace(namespace) => mark_of(&namespace).map_err(failed)?,
                NameMeaning::File(contents) => LabMark::read(&String::from_utf8_lossy(&contents)),
                NameMeaning::Absent | NameMeaning::Other => None,
            };
            if mark.is_some_and(|mark| mark.is_of(&lab.name, side)) && !labs.contains(&lab) {
                labs.push(lab);
            }
        }
        Ok(labs)
    }

    fn site(&self, side: Side, found: &NamedObject) -> Result<SiteStatus> {
        let namespace = self.namespace(side);
        let (mut interfaces, mut processes, mut cause) = (Vec::new(), Vec::new(), None);
        let state = match found {
            NamedObject::Absent => State::Absent,
            NamedObject::Leftover => State::Partial,
            NamedObject::Foreign(why) => {
                cause = Some(*why);
                State::Foreign
            }
            NamedObject::Ours(inside, _) => {
                processes = processes::inside(&namespace, inside)?;
                let _inside = netns::enter(inside).map_err(|error| self.refused(error))?;
                let links = netdev::links().map_err(|error| self.refused(error))?;
                let links = links.into_iter().filter(|link| !link.is_loopback());
                interfaces = links
                    .filter_map(|link| self.interface(link).transpose())
                    .collect::<Result<_>>()?;
                State::Up
            }
        };
        Ok(SiteStatus { site: side, namespace, state, cause, interfaces, processes })
    }

    /// An interface of the calling thread's namespace; `None` if it was removed since.
    fn interface(&self, link: Link) -> Result<Option<InterfaceStatus>> {
        match describe(link) {
            Err(error) if error.errno() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
                Ok(None)
            }
            described => described.map(Some).map_err(|error| self.refused(error)),
        }
    }
}

fn describe(link: Link) -> wirelane_os::Result<InterfaceStatus> {
    let channels = Ethtool::open(&link.name)?.channels()?;
    let queues = |own: u32, combined: u32| Some(own + combined).filter(|count| *count > 0);
    Ok(InterfaceStatus {
        up: link.is_up(),
        running: iface::flags(&link.name)?.is_running(),
        mtu: link.mtu,
        rx_queues: channels.and_then(|channels| queues(channels.rx, channels.combined)),
        tx_queues: channels.and_then(|channels| queues(channels.tx, channels.combined)),
        addresses: iface::addresses(&link.name)?,
        offloads: build::offloads(&link.name)?,
        kind: link.kind,
        mac: link.address,
        name: link.name,
    })
}

fn colons<S: Serializer>(mac: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let text: Vec<_> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    serializer.serialize_str(&text.join(":"))
}
