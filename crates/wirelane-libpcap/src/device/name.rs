//! Resolves the name of a device.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use wirelane::port::{Backend, Spec};
use wirelane_os::iface;

use super::opening::PortOpening;
use super::settings::DeviceSettings;

/// Precedes a spec in a device name.
pub(crate) const PREFIX: &str = "wirelane:";

/// The device that a name selects.
#[derive(Debug)]
pub(crate) enum NamedDevice {
    /// A device of the system's libpcap, or none at all.
    Real,
    /// A port of Wirelane.
    Port(Box<PortOpening>),
}

/// Resolves `name` in the network namespace of the calling thread.
///
/// # Errors
/// `wirelane:` is followed by an invalid spec, or `WIRELANE_PCAP` has an unknown option.
pub(crate) fn find(name: impl AsRef<OsStr>) -> Result<NamedDevice, String> {
    find_with(name.as_ref(), DeviceSettings::of_environment()?)
}

fn find_with(name: &OsStr, settings: DeviceSettings) -> Result<NamedDevice, String> {
    if settings.is_off {
        return Ok(NamedDevice::Real);
    }
    if let Some(spec) = name.as_bytes().strip_prefix(PREFIX.as_bytes()) {
        let mut spec =
            Spec::try_from(OsStr::from_bytes(spec)).map_err(|error| error.to_string())?;
        // A capture must not take packets from the host: a bare name never selects AF_XDP.
        spec.backend.get_or_insert(Backend::Packet);
        return Ok(NamedDevice::Port(Box::new(PortOpening::new(spec, settings))));
    }
    // `eth0:1` is another address of eth0, and to the kernel the same interface (dev_ioctl).
    let interface = name.to_str().and_then(|name| name.split(':').next()).unwrap_or_default();
    if !iface::exists(interface).unwrap_or(false) {
        return Ok(NamedDevice::Real);
    }
    let spec = Spec {
        backend: Some(Backend::Packet),
        name: interface.into(),
        queues: None,
        options: Vec::new(),
        offloads: Default::default(),
    };
    Ok(NamedDevice::Port(Box::new(PortOpening::new(spec, settings))))
}

/// A savefile, read without the system's libpcap.
pub(crate) fn savefile(path: &OsStr) -> PortOpening {
    let spec = Spec {
        backend: Some(Backend::File),
        name: path.into(),
        queues: None,
        options: Vec::new(),
        offloads: Default::default(),
    };
    PortOpening::new(spec, DeviceSettings::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirelane::QueueMask;

    fn port(name: &str, settings: DeviceSettings) -> PortOpening {
        match find_with(OsStr::new(name), settings).unwrap() {
            NamedDevice::Port(opening) => *opening,
            NamedDevice::Real => panic!("{name} is not ours"),
        }
    }

    #[test]
    fn interfaces_are_packet_ports() {
        for name in ["lo", "lo:1", "wirelane:lo", "wirelane:packet:lo"] {
            let opening = port(name, DeviceSettings::default());
            assert_eq!(opening.spec.to_string(), "packet:lo", "{name}");
            assert_eq!(opening.interface(), Some("lo"));
        }
    }

    #[test]
    fn any_port_has_a_name() {
        for spec in ["sim:4?rate=1k", "xdp:eth9@2", "file:/tmp/a b@c.pcap", "packet:eth9?ring=1M"] {
            let opening = port(&format!("wirelane:{spec}"), DeviceSettings::default());
            assert_eq!(opening.spec.to_string(), spec);
        }
    }

    #[test]
    fn other_names_go_to_the_real_library() {
        for name in ["any", "nflog:5", "usbmon1", "no-such-if", "", ":1", "wirelane"] {
            let device = find_with(OsStr::new(name), DeviceSettings::default());
            assert!(matches!(device, Ok(NamedDevice::Real)), "{name:?}");
        }
        let off = DeviceSettings { is_off: true, ..DeviceSettings::default() };
        for name in ["lo", "wirelane:sim:1"] {
            let device = find_with(OsStr::new(name), off.clone());
            assert!(matches!(device, Ok(NamedDevice::Real)), "{name:?}");
        }
    }

    #[test]
    fn wrong_specs_say_what_to_write() {
        let error =
            find_with(OsStr::new("wirelane:foo:eth0"), DeviceSettings::default()).unwrap_err();
        assert!(error.ends_with("there is no backend 'foo'; known: sim, file, packet, xdp, tap"));
    }

    #[test]
    fn loopback_shows_each_packet_once() {
        let opening = port("lo", DeviceSettings::default());
        assert!(!opening.options().internal.outgoing);
        let mask = opening.mask(true, true);
        assert!(mask.tx.is_empty() && mask.other);
        assert_eq!(opening.mask(false, true), QueueMask::NONE);
    }
}
