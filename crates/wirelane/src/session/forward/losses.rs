//! Packets that an interface dropped after they were sent, and packets that could not be sent.
//!
//! A port passes its frames to the interface and counts them as sent. An interface without a link
//! drops them, and so does an interface whose other end has no room (a veth pair: `veth_xmit()`).
//! The kernel counts such drops only per interface, for all queues and senders together.

use std::collections::BTreeMap;

use wirelane_os::netdev::LinkReader;

use crate::error::Error;
use crate::port::{Backend, PortInfo};
use crate::segment::SegmentStats;
use crate::stats::TxStats;

/// Reads how many packets one interface has dropped since forwarding began.
pub(super) struct InterfaceLosses {
    reader: LinkReader,
    before: u64,
}

impl InterfaceLosses {
    /// For the interface behind a port that sends; `None` if there is none or the kernel does not
    /// count. Packets that a TAP device drops are from the kernel's stack, and the port reports
    /// them itself.
    pub(super) fn of(info: &PortInfo) -> Option<Self> {
        let name = info.interface.as_deref().filter(|_| info.backend != Backend::Tap)?;
        let mut reader = LinkReader::open(name).ok()?;
        let before = reader.read().ok()?.tx_dropped?;
        Some(Self { reader, before })
    }

    /// A note for the user at the end, and an error if the interface has no link.
    pub(super) fn report(&mut self) -> (Option<String>, Option<Error>) {
        // A missing interface is reported elsewhere.
        let Ok(link) = self.reader.read() else { return (None, None) };
        let dropped = link.tx_dropped.map_or(0, |count| count.saturating_sub(self.before));
        if dropped == 0 {
            return (None, None);
        }
        let name = &link.name;
        let note = format!(
            "{name} dropped {dropped} packets on transmit, of this and other programs \
             (tx_dropped): no link, no room at its other end, or the kernel could not \
             segment them. Those of this command count as sent"
        );
        let has_link = link.is_up() && link.is_running();
        let error = (!has_link).then(|| {
            let cause = format!("the interface has no link, and dropped {dropped} packets");
            Error::failed(name, cause).help("look at its cable, and whether the other end is up")
        });
        (Some(note), error)
    }
}

/// A note for the user if a port did not send all packets: their number per reason. Unfinished
/// frames have a separate note.
pub(super) fn refusals(info: &PortInfo, tx: &[&TxStats], gso: &[&SegmentStats]) -> Option<String> {
    let name = info.interface.as_deref()?;
    let sum = |count: fn(&TxStats) -> u64| tx.iter().map(|tx| count(tx)).sum::<u64>();
    let errors = sum(|tx| tx.errors - tx.unfinished.min(tx.errors));
    let (wrong_length, refused, unsent) =
        (sum(|tx| tx.wrong_length), sum(|tx| tx.refused), sum(|tx| tx.unsent));
    let mut reasons = Vec::new();
    if wrong_length > 0 {
        reasons.push(format!("{wrong_length} exceed its MTU, or are too short for a frame"));
    }
    if refused > 0 {
        let why = match tx.iter().find_map(|tx| tx.refused_errno) {
            // tun_get_user()
            Some("EIO") if info.backend == Backend::Tap => " (EIO: the device is down)".to_owned(),
            Some(errno) => format!(" (at first with {errno})"),
            None => String::new(),
        };
        reasons.push(format!("{refused} were refused by the kernel{why}"));
    }
    if unsent > 0 {
        let held = |errno| tx.iter().any(|tx| tx.unsent > 0 && tx.held_errno == Some(errno));
        reasons.push(match (held("ENXIO"), held("ENETDOWN")) {
            (true, _) => {
                format!("{unsent} were queued when the interface was removed")
            }
            (false, true) => format!("{unsent} were waiting for the interface, which is down"),
            (false, false) => format!("{unsent} were not sent before the end"),
        });
    }
    let mut uncut: BTreeMap<_, u64> = BTreeMap::new();
    for refused in gso.iter().flat_map(|stats| &stats.refused) {
        *uncut.entry(refused.reason).or_default() += refused.frames;
    }
    let above_mtu = uncut.contains_key("above_mtu");
    let told = |(reason, frames): (&str, u64)| {
        format!("{frames} could not be segmented ({})", reason.replace('_', " "))
    };
    reasons.extend(uncut.into_iter().map(told));
    if errors == 0 {
        return None;
    }
    let mut note = format!("{errors} packets could not be sent through {name}");
    if !reasons.is_empty() {
        note = format!("{note}: {}", reasons.join(", "));
    }
    if wrong_length > 0 || above_mtu {
        note.push_str(
            "; segmentation offload makes packets longer than the MTU. Forward with segmentation \
             (gso) to cut them. To avoid them, run `ethtool -K IF gro off lro off` on the \
             receiving interface, and `ethtool -K IF tso off gso off` on the other end of a veth pair",
        );
    }
    Some(note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::OpenOptions;
    use crate::port::sim;
    use crate::segment::ReasonStats;
    use crate::stats::TxCounters;

    fn info() -> PortInfo {
        let sim = sim::open(&"sim:1".parse().unwrap(), &OpenOptions::default()).unwrap();
        PortInfo { interface: Some("eth7".into()), backend: Backend::Packet, ..sim.info().clone() }
    }

    fn note(count: impl Fn(&TxCounters)) -> Option<String> {
        let counters = TxCounters::new(0);
        count(&counters);
        refusals(&info(), &[&counters.snapshot(0)], &[])
    }

    #[test]
    fn the_note_says_what_was_counted() {
        let errno = std::io::Error::from_raw_os_error;
        assert_eq!(note(|_| {}), None);
        let unfinished = |tx: &TxCounters| {
            tx.errors.add(3);
            tx.unfinished.add(3);
        };
        assert_eq!(note(unfinished), None, "it has a note of its own");
        let refused = note(|tx| {
            tx.refuse(&errno(22));
            tx.refuse(&errno(90));
        });
        let expected = "2 packets could not be sent through eth7: 2 were refused by the kernel (at \
                        first with EINVAL)";
        assert_eq!(refused.unwrap(), expected);
        for (held, words) in [
            (Some(100), "5 were waiting for the interface, which is down"),
            (Some(6), "5 were queued when the interface was removed"),
            (None, "5 were not sent before the end"),
        ] {
            let note = note(|tx| {
                tx.hold(Some(&errno(100)));
                tx.hold(held.map(errno).as_ref());
                tx.give_up(5);
            });
            assert_eq!(note.unwrap(), format!("5 packets could not be sent through eth7: {words}"));
        }
        let long = note(|tx| tx.of_wrong_length(1)).unwrap();
        assert!(long.contains("1 exceed its MTU") && long.contains("gro off"), "{long}");
    }

    #[test]
    fn what_could_not_be_cut_has_its_reason() {
        let counters = TxCounters::new(0);
        counters.errors.add(4);
        let of = |frames| SegmentStats {
            refused: vec![ReasonStats { reason: "length_mismatch", frames }],
            ..SegmentStats::default()
        };
        let note = refusals(&info(), &[&counters.snapshot(0)], &[&of(1), &of(3)]).unwrap();
        assert!(note.ends_with("eth7: 4 could not be segmented (length mismatch)"), "{note}");
    }
}
