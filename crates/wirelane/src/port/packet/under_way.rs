//! Finds the port's frames in flight when the kernel refuses a frame. See `refused`.
//!
//! All TX queues of an interface can share one queueing discipline (e.g. tbf at its root), which
//! may be full of frames of other ends. So an end queries the sockets of all ends.

use std::sync::{Arc, Weak};

use rustix::io::Errno;
use wirelane_os::netdev::LinkReader;
use wirelane_os::packet::PacketSocket;

use super::refused::UnderWay;

/// The sockets of an end: the socket of its ring, and the socket for frames that the kernel
/// segments.
pub(super) type TxSockets = (Arc<PacketSocket>, Option<Arc<PacketSocket>>);

/// The transmitting sockets of a port. The ends own them: an end that is dropped closes its own.
#[derive(Clone)]
pub(super) struct AllSockets(Arc<[Weak<PacketSocket>]>);

impl AllSockets {
    pub(super) fn new<'a>(ends: impl Iterator<Item = &'a TxSockets>) -> Self {
        let each = ends.flat_map(|(ring, past)| [Some(ring), past.as_ref()]).flatten();
        Self(each.map(Arc::downgrade).collect())
    }
}

/// Queries the frames in flight.
pub(super) struct Inquiry {
    all: AllSockets,
    /// Frames bypass the queueing disciplines.
    bypass: bool,
    /// Reads the carrier, after the first refusal.
    link: Option<LinkReader>,
}

impl Inquiry {
    pub(super) fn new(all: AllSockets, bypass: bool) -> Self {
        Self { all, bypass, link: None }
    }

    /// Whether frames bypass the queueing disciplines.
    pub(super) fn bypass(&self) -> bool {
        self.bypass
    }

    /// Finds the frames in flight, for the end with the sockets `own`.
    #[cold]
    pub(super) fn ask(&mut self, own: [Option<&PacketSocket>; 2], interface: &str) -> UnderWay {
        let has_frames = |socket: &PacketSocket| socket.outstanding().is_ok_and(|bytes| bytes > 0);
        if own.into_iter().flatten().any(has_frames) || !self.sends(own, interface) {
            return UnderWay::Own;
        }
        let is_busy =
            |socket: &Weak<PacketSocket>| socket.upgrade().is_some_and(|s| has_frames(&s));
        if self.all.0.iter().any(is_busy) { UnderWay::Others } else { UnderWay::Nothing }
    }

    /// Whether the interface sends. If this is unknown, it counts as sending.
    ///
    /// Without a carrier the kernel refuses every frame past the queueing disciplines
    /// (`__dev_direct_xmit`). The flags show this up to a second later, so then the carrier is
    /// read, although that takes the lock of all interfaces (`rtnl_lock`).
    fn sends(&mut self, own: [Option<&PacketSocket>; 2], interface: &str) -> bool {
        if !self.bypass {
            let flags = own.into_iter().flatten().next().map(|socket| socket.flags(interface));
            return flags.and_then(Result::ok).is_none_or(|flags| flags.is_running());
        }
        if self.link.is_none() {
            self.link = LinkReader::open(interface).ok();
        }
        self.link.as_mut().and_then(|link| link.read().ok()).is_none_or(|link| link.is_running())
    }
}

/// Whether this error may mean a dropped frame: validate_xmit_skb() drops with ENOMEM.
pub(super) fn is_refusal(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOBUFS | Errno::NOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirelane_os::iface;
    use wirelane_testkit::netns::Namespace;
    use wirelane_testkit::privileged;
    use wirelane_testkit::veth::VethPair;

    #[test]
    fn privileged_frames_of_other_ends_in_a_queueing_discipline_are_seen() {
        if !privileged::require() {
            return;
        }
        let (left, right) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&left, &right, 1, 1500);
        let name = pair.a.interface.as_str();
        let shape = ["root", "tbf", "rate", "8kbit", "burst", "2000", "limit", "100000"];
        left.run("tc", [&["qdisc", "add", "dev", name][..], &shape].concat());
        let _inside = left.enter();
        let end = || -> TxSockets {
            let socket = PacketSocket::open().unwrap();
            socket.bind(iface::index(name).unwrap(), 0).unwrap();
            (Arc::new(socket), None)
        };
        let ends = [end(), end()];
        let all = AllSockets::new(ends.iter());
        let ask = |(socket, _): &TxSockets| {
            Inquiry::new(all.clone(), false).ask([Some(&**socket), None], name)
        };
        let [first, second] = ends;
        assert_eq!([ask(&first), ask(&second)], [UnderWay::Nothing; 2]);
        for _ in 0..4 {
            first.0.send_frame(&[0x02; 1000]).unwrap();
        }
        assert_eq!([ask(&first), ask(&second)], [UnderWay::Own, UnderWay::Others]);
        // An end that is closed is not asked.
        drop(first);
        assert_eq!(ask(&second), UnderWay::Nothing);
        // Without a link the interface sends nothing.
        right.run("ip", ["link", "set", &pair.b.interface, "down"]);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while ask(&second) != UnderWay::Own {
            assert!(std::time::Instant::now() < deadline, "the link is not seen as lost");
        }
    }
}
