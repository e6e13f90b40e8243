//! A port that a device name selects, and how to open it.

use wirelane::internal::port::ProgramOptions;
use wirelane::port::{Backend, OpenOptions, Spec, Take};
use wirelane::{QueueMask, QueueSet, inspect};
use wirelane_os::iface;

use super::settings::DeviceSettings;

/// A port and how to open it.
#[derive(Clone, Debug)]
pub(crate) struct PortOpening {
    /// The port.
    pub(crate) spec: Spec,
    /// Bytes of all rings together, if the environment sets them.
    pub(crate) ring: Option<usize>,
    is_loopback: bool,
}

impl PortOpening {
    /// The port of `spec`. `settings` fill in the options that the spec does not set.
    pub(super) fn new(mut spec: Spec, settings: DeviceSettings) -> Self {
        let is_packet = matches!(spec.backend, None | Some(Backend::Packet));
        let is_interface = is_packet || spec.backend == Some(Backend::Xdp);
        if is_interface && spec.queues.is_none() {
            spec.queues = settings.queues;
        }
        let mut ring = None;
        if is_packet {
            let says = |spec: &Spec, key: &str| spec.options.iter().any(|(said, _)| said == key);
            ring = settings.ring.filter(|_| !says(&spec, "ring"));
            for (key, value) in settings.options {
                if !says(&spec, &key) {
                    spec.options.push((key, value));
                }
            }
        }
        let flags = is_packet.then(|| iface::flags(spec.name_text()));
        let is_loopback = matches!(flags, Some(Ok(flags)) if flags.is_loopback());
        Self { spec, ring, is_loopback }
    }

    /// Whether it is an AF_PACKET port, whose packets also reach the host.
    pub(crate) fn is_packet(&self) -> bool {
        matches!(self.spec.backend, None | Some(Backend::Packet))
    }

    /// The network interface, if it has one.
    pub(crate) fn interface(&self) -> Option<&str> {
        let has_none = matches!(self.spec.backend, Some(Backend::Sim | Backend::File));
        (!has_none).then(|| self.spec.name_text())
    }

    pub(crate) fn options(&self) -> OpenOptions {
        // `wirelane:xdp:` takes packets, except those that keep the host reachable.
        let take = match self.spec.backend {
            Some(Backend::Xdp) => Take::All,
            _ => Take::Nothing,
        };
        let options = OpenOptions::default().mask(self.mask(true, true)).take(take);
        // libpcap has no counter for rejected packets, and its programs do not expect further
        // filters to be loaded.
        options
            .internal(ProgramOptions::default().outgoing(!self.is_loopback).count_rejected(false))
    }

    /// Selects packets that the interface received, packets that the host sent, or both.
    ///
    /// * Every packet on a loopback is sent and received; it is shown once, as received.
    /// * Packets without a queue belong to queue 0. Handles that divide all queues among them
    ///   therefore receive each packet once.
    pub(crate) fn mask(&self, received: bool, sent: bool) -> QueueMask {
        let set = |on: bool| if on { QueueSet::All } else { QueueSet::NONE };
        let has_first = self.spec.queues.as_ref().is_none_or(|queues| queues.contains(0));
        QueueMask {
            enabled: true,
            rx: set(received),
            tx: set(sent && !self.is_loopback),
            other: received && has_first,
        }
    }

    /// The number of receive rings that share the memory.
    pub(crate) fn rings(&self) -> usize {
        let shares = |(key, value): &(String, String)| key == "share" && value != "off";
        let is_shared = self.spec.options.iter().any(shares);
        if !self.is_packet() || is_shared {
            return 1;
        }
        let queues = inspect::interface(self.spec.name_text());
        let (rx, tx) = queues.map_or((None, None), |queues| (queues.rx.count, queues.tx.count));
        let open = |count: Option<u32>| {
            let wanted = |queue: &u32| {
                self.spec.queues.as_ref().is_none_or(|queues| queues.contains(*queue as usize))
            };
            (0..count.unwrap_or(1)).filter(wanted).count()
        };
        let mask = self.mask(true, true);
        let tx = if mask.tx.is_empty() { 0 } else { open(tx) };
        (open(rx) + tx + usize::from(mask.other)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(spec: &str, settings: DeviceSettings) -> PortOpening {
        PortOpening::new(spec.parse().unwrap(), settings)
    }

    fn settings() -> DeviceSettings {
        DeviceSettings {
            ring: Some(1 << 20),
            queues: Some([1, 2].into_iter().collect()),
            options: vec![("share".into(), "flow".into()), ("retire".into(), "5ms".into())],
            ..DeviceSettings::default()
        }
    }

    #[test]
    fn the_environment_fills_in_what_the_spec_does_not_say() {
        let all = opening("packet:eth9", settings());
        assert_eq!(all.spec.to_string(), "packet:eth9@1,2?share=flow&retire=5ms");
        assert_eq!(all.ring, Some(1 << 20));
        let some = opening("packet:eth9@0?ring=2M&share=queue", settings());
        assert_eq!(some.spec.to_string(), "packet:eth9@0?ring=2M&share=queue&retire=5ms");
        assert_eq!(some.ring, None);
    }

    #[test]
    fn it_is_about_interfaces() {
        for spec in ["sim:4", "file:a.pcap", "tap:tap0"] {
            let opening = opening(spec, settings());
            assert_eq!((opening.spec.to_string().as_str(), opening.ring), (spec, None));
        }
        assert_eq!(opening("xdp:eth9", settings()).spec.to_string(), "xdp:eth9@1,2");
        assert_eq!(opening("sim:4", settings()).interface(), None);
    }

    #[test]
    fn packets_of_no_queue_go_with_queue_0() {
        let other = |spec| opening(spec, DeviceSettings::default()).mask(true, true).other;
        assert!(other("packet:eth9") && other("packet:eth9@0") && other("packet:eth9@0-3"));
        assert!(!other("packet:eth9@1") && !other("packet:eth9@1-3"));
    }

    #[test]
    fn directions_are_masks() {
        let opening = opening("packet:eth9", DeviceSettings::default());
        assert_eq!(opening.mask(true, true), QueueMask::ALL);
        assert_eq!(opening.mask(false, false), QueueMask::NONE);
        let sent = opening.mask(false, true);
        assert!(sent.rx.is_empty() && !sent.other && sent.tx == QueueSet::All);
    }

    #[test]
    fn only_xdp_takes_packets_away() {
        for (spec, take) in [
            ("packet:eth9", Take::Nothing),
            ("sim:1", Take::Nothing),
            ("tap:tap0", Take::Nothing),
            ("xdp:eth9", Take::All),
        ] {
            let options = opening(spec, DeviceSettings::default()).options();
            assert_eq!(options.take, take, "{spec}");
        }
    }

    #[test]
    fn memory_is_for_the_rings_that_are_used() {
        // Received packets of lo: one ring for its queue, one for packets without a queue.
        assert_eq!(opening("packet:lo", DeviceSettings::default()).rings(), 2);
        assert_eq!(opening("packet:lo?share=queue", DeviceSettings::default()).rings(), 1);
        assert_eq!(opening("sim:4", DeviceSettings::default()).rings(), 1);
    }
}
