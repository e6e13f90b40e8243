//! Creates the two namespaces and their interfaces. They are anonymous and end with the process,
//! until they get names.

use std::fs;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use wirelane_os::ethtool::Ethtool;
use wirelane_os::link::{self, VethEnd};
use wirelane_os::tun::{self, Tap};
use wirelane_os::{OsError, iface, netns};

use super::shape::{LabConfig, Offloads, Taps};
use super::site::{Side, Site, failed};
use wirelane::error::{Error, Result};
use wirelane::internal::Remedy;

/// How long to wait for the carrier of both ends; the kernel needs at most a second.
const CARRIER: Duration = Duration::from_secs(10);

/// Creates both ends, the near one first. Both veth interfaces accept packets when it returns.
pub(super) fn build(config: &LabConfig) -> Result<[Site; 2]> {
    config.check()?;
    if !Path::new("/proc/sys/net").exists() {
        let error = OsError::from_errno("open", "/proc/sys/net", Errno::NOENT.raw_os_error());
        return Err(failed(error));
    }
    // A kernel started with `ipv6.disable=1` has no IPv6 settings.
    if config.ipv6.is_some() && !Path::new("/proc/sys/net/ipv6").exists() {
        let error = Error::failed("lab of two network namespaces", "this kernel has no IPv6");
        return Err(error.remedy(Remedy::NoIpv6));
    }
    let sites = [site(config, Side::A)?, site(config, Side::B)?];
    let [near, far] = &sites;
    for site in &sites {
        site.inside(|| quiet_ipv6(config.ipv6.is_some()))?;
    }
    let ends = [(near, Side::A), (far, Side::B)].map(|(site, side)| VethEnd {
        name: side.wire(),
        namespace: site.as_fd(),
        mac: mac(side, false),
    });
    // Created in a namespace of the lab, so that its names cannot clash with the host's.
    let made = near.inside(|| link::create_veth(ends, u32::from(config.queues), config.mtu))?;
    made.map_err(failed)?;
    for (site, peer) in [(near, far), (far, near)] {
        site.inside(|| furnish(config, site, peer))?.map_err(failed)?;
    }
    for site in &sites {
        site.inside(|| iface::wait_until_running(&site.wire, CARRIER))?.map_err(failed)?;
    }
    Ok(sites)
}

/// A namespace without interfaces, and their future names.
fn site(config: &LabConfig, side: Side) -> Result<Site> {
    let namespace = netns::anonymous().map_err(failed)?;
    let tap = has_tap(config.taps, side);
    let wire = side.wire().into();
    let interface = if tap { side.tap() } else { side.wire() }.into();
    let number = side.number();
    let address = match config.ipv4.host(number) {
        IpAddr::V4(address) => address,
        // `LabConfig::check` excludes it.
        IpAddr::V6(_) => std::net::Ipv4Addr::UNSPECIFIED,
    };
    let address6 = config.ipv6.map(|network| network.host(number));
    let is_own = false;
    Ok(Site { namespace, is_own, wire, interface, mac: mac(side, tap), address, address6 })
}

/// Sets up one end. The calling thread must be inside.
fn furnish(config: &LabConfig, site: &Site, peer: &Site) -> wirelane_os::Result<()> {
    let (wire, interface) = (site.wire.as_ref(), site.interface.as_ref());
    if let Some(offloads) = config.offloads {
        set_offloads(wire, offloads)?;
    }
    if interface != wire {
        make_tap(config, site)?;
        bare(wire);
    }
    iface::up(wire)?;
    link::add_address(interface, site.address, config.ipv4.prefix())?;
    link::add_neighbour(interface, peer.address, peer.mac)?;
    if let (Some(network), Some(own), Some(other)) = (config.ipv6, site.address6, peer.address6) {
        link::add_address(interface, own, network.prefix())?;
        link::add_neighbour(interface, other, peer.mac)?;
    }
    Ok(())
}

/// A TAP device that persists without a program at its other end; it then has no carrier.
fn make_tap(config: &LabConfig, site: &Site) -> wirelane_os::Result<()> {
    let options = tun::Options { vnet_hdr: true, persist: true, ..tun::Options::default() };
    let name = site.interface.as_ref();
    let tap = Tap::open(name, usize::from(config.queues), options)?;
    link::set_mac(tap.name(), site.mac)?;
    iface::set_mtu(tap.name(), config.mtu)?;
    iface::up(tap.name())
}

/// Turns the veth interface of an end with a TAP device into the end of a cable: the stack does not
/// use it, and does not answer for the address of the TAP device.
fn bare(wire: &str) {
    write(&format!("ipv6/conf/{wire}/disable_ipv6"), "1");
    // No answer for any address of this host (Documentation/networking/ip-sysctl.rst).
    write(&format!("ipv4/conf/{wire}/arp_ignore"), "8");
}

pub(super) fn set_offloads(interface: &str, offloads: Offloads) -> wirelane_os::Result<()> {
    let changes: Vec<_> = Offloads::NAMES
        .iter()
        .zip(offloads.values())
        .flat_map(|((_, features), on)| features.iter().map(move |feature| (*feature, on)))
        .collect();
    Ethtool::open(interface)?.set_features(&changes)?;
    match self::offloads(interface)? {
        Some(now) if now != offloads => Err(OsError::from_errno(
            "ioctl ETHTOOL_SFEATURES",
            format!("{interface}: asked for {offloads}, it has {now}"),
            EOPNOTSUPP,
        )),
        _ => Ok(()),
    }
}

/// The current offloads of an interface; `None` if it does not report them. An offload of several
/// features is on if the first is.
pub(super) fn offloads(interface: &str) -> wirelane_os::Result<Option<Offloads>> {
    let Some(features) = Ethtool::open(interface)?.features()? else { return Ok(None) };
    let on = |names: &[&str]| {
        let first = names.iter().find_map(|name| features.get(*name));
        first.copied().unwrap_or(false)
    };
    Ok(Some(Offloads::from_values(Offloads::NAMES.map(|(_, names)| on(names)))))
}

/// Prevents the kernel from soliciting routers and configuring addresses and, without IPv6, from
/// reporting multicast groups.
fn quiet_ipv6(on: bool) {
    if !on {
        for scope in ["all", "default"] {
            write(&format!("ipv6/conf/{scope}/disable_ipv6"), "1");
        }
        return;
    }
    // Only configured addresses, which are unique in the lab; `addr_gen_mode` 1 is
    // IN6_ADDR_GEN_MODE_NONE.
    for (setting, value) in [
        ("disable_ipv6", "0"),
        ("accept_ra", "0"),
        ("autoconf", "0"),
        ("router_solicitations", "0"),
        ("accept_dad", "0"),
        ("dad_transmits", "0"),
        ("addr_gen_mode", "1"),
    ] {
        write(&format!("ipv6/conf/default/{setting}"), value);
    }
}

/// Writes a setting of the calling thread's namespace.
fn write(setting: &str, value: &str) {
    // A kernel without IPv6 has no such file, and sends no such packets. If the file cannot be
    // written, some extra packets are no reason to fail.
    let _ = fs::write(format!("/proc/sys/net/{setting}"), value);
}

pub(super) fn has_tap(taps: Taps, side: Side) -> bool {
    taps == Taps::Both || taps == if side == Side::A { Taps::A } else { Taps::B }
}

/// A locally administered address with the letters WL.
fn mac(side: Side, tap: bool) -> [u8; 6] {
    [0x02, 0x57, 0x4c, 0, u8::from(tap), side.number()]
}

const EOPNOTSUPP: i32 = rustix::io::Errno::OPNOTSUPP.raw_os_error();
