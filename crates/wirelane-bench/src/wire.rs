//! The user's interfaces in place of a lab, named by `--port` and `--load`.
//!
//! ```text
//!   others ──────────────────────▶ --port      the load comes from outside
//!   the kernel ─▶ --load ═ cable ═▶ --port      this host has both ends
//! ```

use std::fs;

use clap::Args;
use wirelane::error::{Error, Result};
use wirelane::port::{Backend, PortMode, Spec, Take};
use wirelane_lab::Site;
use wirelane_os::iface;
use wirelane_os::packet::PacketSocket;

use crate::row::Param;

/// The value of `--load` for packets that other hosts send.
pub const OUTSIDE: &str = "outside";

/// Options of the suites that measure a port at a cable.
#[derive(Args, Clone, Debug, Default)]
pub struct WireOptions {
    /// Measure this port of yours instead (packet:IF or xdp:IF)
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Who sends to it: an interface of yours at the other end of its cable, or `outside` [default:
    /// outside]
    #[arg(long, value_name = "IF", requires = "port")]
    load: Option<String>,
    /// Let an xdp: port named with --port take all packets away from the host
    #[arg(long, requires = "port")]
    all: bool,
}

impl WireOptions {
    /// Whether a port was named.
    pub(crate) fn is_named(&self) -> bool {
        self.port.is_some()
    }

    /// The named port, and its sender.
    ///
    /// # Errors
    /// It is no socket of an interface, or an interface does not exist.
    pub(crate) fn open(&self) -> Result<Option<Wired>> {
        let Some(port) = &self.port else { return Ok(None) };
        let spec: Spec = port.parse()?;
        let name = interface(&spec)?;
        let near = load(self.load.as_deref())?;
        if near.as_ref().is_some_and(|near| near.interface() == name) {
            let error = Error::usage(format!("--load {name}"), "it is the port that is measured");
            return Err(error.help("name the interface at the other end of its cable"));
        }
        let take = if self.all { Take::All } else { Take::Nothing };
        Wired::new(spec, near, &name, take).map(Some)
    }
}

/// The user's port, and its sender.
#[derive(Debug)]
pub struct Wired {
    /// The port.
    pub(crate) spec: Spec,
    /// Its interface.
    pub(crate) far: Site,
    /// The interface that sends; `None` if other hosts send.
    pub(crate) near: Option<Site>,
    /// The packets that it may take away from the host.
    pub(crate) take: Take,
    /// The sender's packets have an address that no host has, so that no host answers.
    _promiscuous: Option<PacketSocket>,
}

impl Wired {
    fn new(spec: Spec, near: Option<Site>, name: &str, take: Take) -> Result<Self> {
        let far = Site::here(name)?;
        // Packets from other hosts have the address that they choose.
        let _promiscuous = near.as_ref().map(|_| promiscuous(name)).transpose()?;
        Ok(Self { spec, far, near, take, _promiscuous })
    }

    /// The name of its kind in rows, and in the list of skipped cases.
    pub(crate) fn label(&self) -> &'static str {
        self.spec.backend.map_or("port", Backend::as_str)
    }

    /// The interface that sends.
    ///
    /// # Errors
    /// Other hosts send: `case` needs to set the rate.
    pub(crate) fn sender(&self, case: &str) -> Result<&Site> {
        self.near.as_ref().ok_or_else(|| {
            let cause = "it searches for a rate, which nobody here sets when others send";
            let error = Error::usage(case, cause);
            error.help("name the interface at the other end of the cable: --load IF")
        })
    }

    /// The kind of the port, its mode and its interfaces, for rows of Wirelane's command. `mode` is
    /// the mode that the command reported.
    pub(crate) fn conditions(&self, mode: Option<String>) -> Vec<(&'static str, Param)> {
        let backend = self.spec.backend.unwrap_or(Backend::Packet);
        // `packet:` has one mode only, which other programs have, too.
        let only = (backend == Backend::Packet).then(|| PortMode::TpacketV3.to_string());
        let mode = only.or(mode).map(|mode| ("mode", Param::Name(mode)));
        let port = ("port", Param::Text(backend.as_str()));
        [port].into_iter().chain(mode).chain(self.params()).collect()
    }

    /// The conditions, for rows.
    pub(crate) fn params(&self) -> [(&'static str, Param); 2] {
        let load = self.near.as_ref().map_or(OUTSIDE, Site::interface);
        [
            ("interface", Param::Name(self.far.interface().to_owned())),
            ("load", Param::Name(load.to_owned())),
        ]
    }
}

/// Puts an interface into promiscuous mode until the returned value is dropped.
///
/// # Errors
/// CAP_NET_RAW is missing.
pub(crate) fn promiscuous(name: &str) -> Result<PacketSocket> {
    let set = || {
        let socket = PacketSocket::open()?;
        socket.set_promiscuous(iface::index(name)?, true)?;
        Ok(socket)
    };
    set().map_err(|error| Error::os(format!("promiscuous mode of {name}"), error))
}

/// The interface of `--load`; `None` if other hosts send.
///
/// # Errors
/// There is no such interface.
pub(crate) fn load(named: Option<&str>) -> Result<Option<Site>> {
    named.filter(|load| *load != OUTSIDE).map(Site::here).transpose()
}

/// The interface of a port.
///
/// # Errors
/// The port is no socket of an interface.
pub(crate) fn interface(spec: &Spec) -> Result<String> {
    if !matches!(spec.backend, None | Some(Backend::Packet | Backend::Xdp)) {
        let error = Error::usage(format!("port '{spec}'"), "it is no socket of an interface");
        return Err(error.help("write packet:IF or xdp:IF"));
    }
    Ok(spec.name.to_string_lossy().into_owned())
}

/// The counters of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterfaceCounter {
    /// Packets received.
    Received,
    /// Packets sent.
    Sent,
}

impl InterfaceCounter {
    /// Reads the counter of the interface of `site`, counted since the interface was created.
    pub(crate) fn read(self, site: &Site) -> Result<u64> {
        let text = site.inside(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
        let text = text.map_err(|error| Error::io("/proc/net/dev", "read", error))?;
        // name: bytes packets errs drop fifo frame compressed multicast bytes packets …
        let column = if self == Self::Received { 1 } else { 9 };
        let of = |line: &str| {
            let counts = line.trim().strip_prefix(site.interface())?.strip_prefix(':')?;
            counts.split_whitespace().nth(column)?.parse().ok()
        };
        let found = text.lines().find_map(of);
        let missing = "/proc/net/dev does not count its packets";
        found.ok_or_else(|| Error::failed(site.interface(), missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(port: &str, load: Option<&str>) -> String {
        let (port, load) = (Some(port.to_owned()), load.map(str::to_owned));
        WireOptions { port, load, all: false }.open().unwrap_err().to_string()
    }

    #[test]
    fn ports_are_those_of_interfaces() {
        assert!(WireOptions::default().open().unwrap().is_none());
        for port in ["sim:1", "file:x.pcap", "tap:t0"] {
            assert!(refusal(port, None).contains("no socket of an interface"), "{port}");
        }
        assert!(refusal("packet:lo", Some("lo")).contains("the port that is measured"));
        assert!(refusal("packet:wl-none", None).contains("wl-none"));
        assert!(refusal("lo", Some("wl-none")).contains("wl-none"));
    }

    #[test]
    fn a_load_from_outside_has_no_rate_to_search_for() {
        let wire = WireOptions { port: Some("lo".into()), load: Some(OUTSIDE.into()), all: false };
        let wired = wire.open().unwrap().unwrap();
        assert!(wired.sender("noloss").unwrap_err().to_string().contains("others send"));
        assert_eq!(wired.params()[1].1, Param::Name(OUTSIDE.into()));
        assert_eq!(wired.label(), "port");
        for counter in [InterfaceCounter::Received, InterfaceCounter::Sent] {
            counter.read(&wired.far).unwrap();
        }
    }
}
