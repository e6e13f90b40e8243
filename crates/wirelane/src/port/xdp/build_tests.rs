//! What a mode that is refused leaves to the next one.

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::*;
use crate::frame::Batch;

/// How many chunks each queue has to receive into.
fn chunks(memory: &mut [Memory]) -> Vec<usize> {
    let all = |memory: &mut Memory| {
        let mut batch = Batch::new(1 << 16);
        memory.rx.as_mut().map_or(0, |pool| pool.take(&mut batch, usize::MAX))
    };
    memory.iter_mut().map(all).collect()
}

/// Two queues of an end of a veth pair, receiving. Returns the draft, its memory, and who keeps the interface.
fn drafted(
    options: &OpenOptions,
) -> (Draft, Region, Vec<Memory>, (Namespace, Namespace, VethPair)) {
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let spec: Spec = format!("xdp:{}?frames=1024", pair.b.interface).parse().unwrap();
    let (draft, region, memory) = far.inside(|| {
        let draft = Draft::new(&spec, options, &Allotment::of_rest()).unwrap();
        let region = draft.region(options, &mut Vec::new()).unwrap();
        let memory = draft.carve(&region).unwrap();
        (draft, region, memory)
    });
    (draft, region, memory, (near, far, pair))
}

#[test]
fn privileged_a_mode_that_is_refused_late_leaves_its_pools_to_the_next() {
    if !privileged::require() {
        return;
    }
    let options = OpenOptions { take: Take::All, ..OpenOptions::default() };
    let (draft, region, mut memory, bed) = drafted(&options);
    bed.1.inside(|| {
        let prospects = Prospects::of(draft.device()).unwrap();
        let whole = chunks(&mut memory);
        assert_eq!(whole, [1024, 1024]);
        // When both sockets are bound and have chunks.
        let mut filled = 0;
        let late = |built: &mut Built| {
            filled = built.queues.iter().filter(|(_, intake)| intake.is_some()).count();
            Err(Error::failed("the last thing", "refused"))
        };
        let with = (&prospects, &options);
        let tried = draft.attempt_and(late, Mode::Native, with, &region, &mut memory);
        assert_eq!(tried.err().unwrap().to_string(), "the last thing: refused");
        assert_eq!((filled, chunks(&mut memory)), (2, whole.clone()));
        // When the second one cannot be bound: somebody has its queue.
        let other = OpenOptions { receive: false, transmit: true, ..OpenOptions::default() };
        let spec = format!("xdp:{}@1?mode=native&frames=1024", bed.2.b.interface);
        let taken = super::super::XdpPort::open(&spec.parse().unwrap(), &other).unwrap();
        let tried = draft.attempt(Mode::Native, &prospects, &options, &region, &mut memory);
        let error = tried.err().unwrap().to_string();
        assert!(error.contains("queue 1 already has an AF_XDP socket"), "{error}");
        assert_eq!(chunks(&mut memory), whole);
        drop(taken);
        // The next mode has all of them.
        let built =
            draft.attempt(Mode::Generic, &prospects, &options, &region, &mut memory).unwrap();
        assert!(built.queues.iter().all(|(_, intake)| intake.is_some()));
        built.undo(&mut memory);
        assert_eq!(chunks(&mut memory), whole);
    });
}
