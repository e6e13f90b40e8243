//! The report of a port about itself.

use wirelane::Class;

use crate::bed::Bed;
use crate::session::{Session, Verified, rx_only};
use crate::traffic::{mixed, short};

/// The report is complete and correct, and exactly one way to open the interface was chosen.
pub(crate) fn info_is_complete(bed: &mut dyn Bed) -> Verified {
    let promises = bed.promises().clone();
    let mut session = Session::start(bed);
    let info = session.port.info();
    assert_eq!((info.backend.as_str(), info.mode.as_str()), (promises.backend, promises.mode));
    assert_eq!(info.interface, promises.interface);
    assert!(info.queues.iter().copied().eq(0..promises.queues), "queues {:?}", info.queues);
    assert!(info.spec.starts_with(promises.backend), "the spec: {}", info.spec);
    assert_eq!(info.link_type, 1, "Ethernet in the registry of link types");
    assert_eq!(info.snaplen, rx_only().snaplen);
    assert!(info.lateness < 2_000_000_000, "a lateness of {} ns", info.lateness);
    let chosen = info.negotiation.iter().filter(|rung| rung.succeeded).count();
    assert_eq!(chosen, 1, "ways that were chosen: {:?}", info.negotiation);
    for rung in info.negotiation.iter().filter(|rung| !rung.succeeded) {
        assert!(rung.cause.as_ref().is_some_and(|cause| !cause.is_empty()), "{rung:?}");
    }
    for note in &info.notes {
        assert!(!note.trim().is_empty() && !note.contains('\n'), "a note of one line: {note:?}");
    }
    assert!(session.port.is_endless());
    session.exchange(40, mixed);
    session.transmit(40, mixed);
    session.finish()
}

/// A port hands out one receiving end per queue and class and one transmitting end per queue, only
/// once, for the queues and classes in the options.
pub(crate) fn ends_are_handed_out_once(bed: &mut dyn Bed) -> Verified {
    let queues = bed.promises().queues;
    let mut session = Session::start(bed);
    assert!(session.rx.iter().map(|rx| rx.queue()).eq((0..queues).map(Some)), "receiving ends");
    assert!(session.tx.iter().map(|tx| tx.queue()).eq(0..queues), "transmitting ends");
    let mut others: Vec<_> = session.others.iter().map(|rx| (rx.class(), rx.queue())).collect();
    let count = others.len();
    others.sort_unstable();
    others.dedup();
    assert_eq!(others.len(), count, "an end twice");
    assert!(others.iter().filter(|(class, _)| *class == Class::Other).count() <= 1);
    assert!(session.port.rx().is_err() && session.port.tx().is_err(), "at the second call");
    // A second start has no effect.
    session.port.start().unwrap();
    session.exchange(20, short);
    session.transmit(20, short);
    session.finish()
}
