//! The user's interfaces to send out of, and to count at.

use std::time::Duration;

use wirelane::error::{Error, Result};
use wirelane_lab::Site;
use wirelane_os::bpf::XdpMode;
use wirelane_os::iface;
use wirelane_os::packet::PacketSocket;

use crate::row::{Param, Params};
use crate::suites::programs::Drops;
use crate::wire::{InterfaceCounter, promiscuous};

/// How long to wait for a link: some drivers take it down when an XDP program is attached.
const CARRIER: Duration = Duration::from_secs(10);

/// The user's interface to send out of, and the interface at the other end of its cable if it is
/// known.
#[derive(Debug)]
pub struct NamedInterface {
    pub(super) near: Site,
    /// It is in promiscuous mode: the packets have an address that no host has, so that no host
    /// answers.
    far: Option<(Site, PacketSocket)>,
}

impl NamedInterface {
    /// Opens the interfaces of `--port` and `--count-at`.
    ///
    /// # Errors
    /// An interface does not exist, or both are the same.
    pub(super) fn open(port: &str, count_at: Option<&str>) -> Result<Self> {
        if port.contains([':', '@', '?']) {
            let cause = "the suite sends by each engine and each kind of port";
            return Err(Error::usage(format!("port '{port}'"), cause).help("name an interface"));
        }
        if count_at == Some(port) {
            let error = Error::usage(format!("--count-at {port}"), "it is the one that sends");
            return Err(error.help("name the interface at the other end of its cable"));
        }
        let near = Site::here(port)?;
        let far = |name: &str| -> Result<_> { Ok((Site::here(name)?, promiscuous(name)?)) };
        Ok(Self { near, far: count_at.map(far).transpose()? })
    }

    /// The interface at which arrivals are counted, if there is one.
    pub(super) fn far(&self) -> Option<&Site> {
        self.far.as_ref().map(|(far, _)| far)
    }

    /// Waits until both ends have a carrier.
    pub(super) fn wait(&self) -> Result<()> {
        for site in [Some(&self.near), self.far()].into_iter().flatten() {
            let name = site.interface();
            iface::wait_until_running(name, CARRIER).map_err(|error| Error::os(name, error))?;
        }
        Ok(())
    }

    /// Starts to count.
    ///
    /// # Errors
    /// Another XDP program is attached, or the link does not return.
    pub(super) fn counting(&self) -> Result<PacketCounter<'_>> {
        let Some(far) = self.far() else { return Ok(PacketCounter::Sent(&self.near)) };
        let program = Drops::attach(far, XdpMode::Native)
            .or_else(|_| Drops::attach(far, XdpMode::Generic))?;
        self.wait()?;
        Ok(PacketCounter::Here(program))
    }

    /// The conditions, for rows.
    pub(super) fn params(&self) -> Params {
        let name = |site: &Site| Param::Name(site.interface().to_owned());
        let at = self.far().map_or(Param::Text("interface"), name);
        Params(vec![("interface", name(&self.near)), ("count_at", at)])
    }
}

/// The counter of packets.
pub(super) enum PacketCounter<'a> {
    /// A program that drops them at the far end, attached permanently.
    There(&'a Drops),
    /// The same, attached for one measurement.
    Here(Drops),
    /// The interface that sends.
    Sent(&'a Site),
}

impl PacketCounter<'_> {
    /// Packets so far.
    pub(super) fn packets(&self) -> Result<u64> {
        match self {
            Self::There(program) => program.packets(),
            Self::Here(program) => program.packets(),
            Self::Sent(site) => InterfaceCounter::Sent.read(site),
        }
    }
}
