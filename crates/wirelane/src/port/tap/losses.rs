//! Packets that the device drops, mostly because the program did not receive them in time.
//!
//! The kernel counts them for all queues together (`tun_net_xmit()`), including packets that a mask
//! excludes or that it could not segment (`validate_xmit_skb()`). So drops per queue are unknown,
//! but the port reports their sum unless a mask excluded packets.

use wirelane_os::netdev::{Link, LinkReader};

/// Reads how many packets the device has dropped between start and stop.
pub(super) struct TapLosses {
    /// `None` if the kernel does not report them.
    reader: Option<LinkReader>,
    before: Option<u64>,
    /// The count includes packets that a mask excludes.
    is_mixed: bool,
    end: Option<(u64, Link)>,
}

impl TapLosses {
    /// For the device `name` in the calling thread's network namespace.
    pub(super) fn of(name: &str) -> Self {
        Self { reader: LinkReader::open(name).ok(), before: None, is_mixed: false, end: None }
    }

    fn read(&mut self) -> Option<Link> {
        self.reader.as_mut()?.read().ok()
    }

    /// The device starts to accept packets.
    pub(super) fn begin(&mut self) {
        self.before = self.read().and_then(|link| link.tx_dropped);
    }

    /// A mask excludes packets.
    pub(super) fn mix(&mut self) {
        self.is_mixed = true;
    }

    /// Called just before the device stops accepting packets.
    pub(super) fn end(&mut self) {
        if self.end.is_none()
            && let (Some(before), Some(link)) = (self.before, self.read())
        {
            let dropped = link.tx_dropped.map(|after| after.saturating_sub(before));
            self.end = dropped.map(|dropped| (dropped, link));
        }
    }

    /// Notes for the user at the end.
    pub(super) fn note(&self) -> Option<String> {
        let (dropped, link) = self.end.as_ref().filter(|(dropped, _)| *dropped > 0)?;
        if self.is_mixed {
            return None;
        }
        let name = &link.name;
        let length = link.tx_queue_len.map_or_else(String::new, |length| format!(", now {length}"));
        Some(format!(
            "the kernel dropped {dropped} packets of its stack at {name}: the queue was full \
             (`ip link set {name} txqueuelen N` makes it longer{length}; where it segments, packets \
             are fewer and longer), or it could not segment or complete them; it counts both \
             together"
        ))
    }
}
