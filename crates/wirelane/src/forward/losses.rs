//! What an interface drops of what it was given.
//!
//! A port hands its frames to the interface, and counts them as sent. An interface without a link drops them, and so
//! does one whose other end has no room (a veth pair: `veth_xmit()`). The kernel counts such frames for all queues and
//! all senders together, so that no queue knows its own, but the interface can be asked.

use wirelane_os::netdev::LinkReader;

use crate::port::PortInfo;

/// Reads what one interface has dropped since forwarding began.
pub(super) struct Losses {
    reader: LinkReader,
    before: u64,
}

impl Losses {
    /// Of the interface behind a port that sends; `None` where there is none or the kernel does not tell. What a TAP device
    /// drops comes from the kernel's stack, and the port tells it itself.
    pub(super) fn of(info: &PortInfo) -> Option<Self> {
        let name = info.interface.as_deref().filter(|_| info.backend != "tap")?;
        let mut reader = LinkReader::open(name).ok()?;
        let before = reader.read().ok()?.tx_dropped?;
        Some(Self { reader, before })
    }

    /// What a user should know at the end.
    pub(super) fn note(&mut self) -> Option<String> {
        // One that is gone has an error of its own.
        let link = self.reader.read().ok()?;
        let dropped = link.tx_dropped?.saturating_sub(self.before);
        let name = &link.name;
        (dropped > 0).then(|| {
            format!(
                "{name} itself dropped {dropped} packets that it was to send, ours or others' (tx_dropped): it \
                 had no link, or its other end no room; ours among them are counted as sent"
            )
        })
    }
}
