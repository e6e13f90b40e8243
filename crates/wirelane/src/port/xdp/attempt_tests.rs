//! A refused mode leaves all chunks to the next one.

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::*;
use crate::frame::Batch;
use crate::memory::Allotment;
use crate::port::options::{OpenOptions, Take};
use crate::port::spec::Spec;

/// The number of receive chunks of each queue.
fn chunks(pools: &mut [QueuePools]) -> Vec<usize> {
    let all = |pools: &mut QueuePools| {
        let mut batch = Batch::new(1 << 16);
        pools.rx.as_mut().map_or(0, |pool| pool.take(&mut batch, usize::MAX))
    };
    pools.iter_mut().map(all).collect()
}

/// Two receiving queues of a veth end. Returns the plan, its pools, and the owners of the
/// interface.
fn planned(
    options: &OpenOptions,
) -> (XdpPlan, Region, Vec<QueuePools>, (Namespace, Namespace, VethPair)) {
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let spec: Spec = format!("xdp:{}?frames=1024", pair.b.interface).parse().unwrap();
    let (plan, region, pools) = far.inside(|| {
        let plan = XdpPlan::new(&spec, options, &Allotment::of_rest()).unwrap();
        let region = plan.region(&mut Vec::new()).unwrap();
        let pools = plan.carve(&region).unwrap();
        (plan, region, pools)
    });
    (plan, region, pools, (near, far, pair))
}

#[test]
fn privileged_a_mode_that_is_refused_late_leaves_its_pools_to_the_next() {
    if !privileged::require() {
        return;
    }
    let options = OpenOptions::default().take(Take::All);
    let (plan, region, mut pools, bed) = planned(&options);
    bed.1.inside(|| {
        let whole = chunks(&mut pools);
        assert_eq!(whole, [1024, 1024]);
        // When both sockets are bound and have chunks.
        let mut filled = 0;
        let late = |bound: &mut BoundQueues| {
            filled = bound.queues.iter().filter(|(_, fill)| fill.is_some()).count();
            Err(Error::failed("the last thing", "refused"))
        };
        let tried = plan.attempt_and(late, Mode::Native, &region, &mut pools);
        assert_eq!(tried.err().unwrap().to_string(), "the last thing: refused");
        assert_eq!((filled, chunks(&mut pools)), (2, whole.clone()));
        // The second queue cannot be bound, because another socket has it.
        let other = OpenOptions::default().receive(false).transmit(true);
        let spec = format!("xdp:{}@1?mode=native&frames=1024", bed.2.b.interface);
        let taken = super::super::XdpPort::open(&spec.parse().unwrap(), &other).unwrap();
        let tried = plan.attempt(Mode::Native, &region, &mut pools);
        let error = tried.err().unwrap().to_string();
        assert!(error.contains("queue 1 already has an AF_XDP socket"), "{error}");
        assert_eq!(chunks(&mut pools), whole);
        drop(taken);
        // The next mode has all chunks.
        let bound = plan.attempt(Mode::Generic, &region, &mut pools).unwrap();
        assert!(bound.queues.iter().all(|(_, fill)| fill.is_some()));
        bound.undo(&mut pools);
        assert_eq!(chunks(&mut pools), whole);
    });
}
