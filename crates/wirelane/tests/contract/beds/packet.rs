//! `packet:` on multi-queue TAP devices and on veth pairs.

use crate::bed::{Classes, Held, Promises};
use crate::beds::tap::Tap;
use crate::beds::veth::Veth;
use crate::beds::{Medium, OnInterface};

/// Small rings and a short timer, so that tests are fast. On a busy machine the timer retires a
/// block for each frame, so there are more blocks than frames that a property holds or has in
/// flight.
const QUICK: &str = "?ring=1Mi&block=4Ki&retire=2ms";
/// The same number of blocks, large enough for the longest frames.
const JUMBO: &str = "?ring=4Mi&block=16Ki&retire=2ms";

/// On a TAP device: frames written to queue i arrive on RX queue i.
pub(crate) fn on_tap(queues: u16) -> OnInterface<Tap> {
    // The device drops frames that its queues cannot hold.
    on(Tap::new(queues), queues, false)
}

/// On one end of a veth pair: frames that the other end sends through TX queue i arrive on RX queue
/// i.
pub(crate) fn on_veth(queues: u16) -> OnInterface<Veth> {
    on(Veth::new(queues), queues, true)
}

/// As [`on_veth`], with frames of up to 9014 bytes.
pub(crate) fn on_jumbo_veth(queues: u16) -> OnInterface<Veth> {
    OnInterface { query: JUMBO, ..on(Veth::jumbo(queues), queues, true) }.with_longest(9014)
}

/// As [`on_veth`], with packets delivered one by one.
pub(crate) fn on_immediate_veth(queues: u16) -> OnInterface<Veth> {
    one_by_one(on(Veth::new(queues), queues, true))
}

/// As [`on_jumbo_veth`], with packets delivered one by one. Long packets do not fit into slots.
pub(crate) fn on_immediate_jumbo_veth(queues: u16) -> OnInterface<Veth> {
    let mut bed = one_by_one(on_jumbo_veth(queues));
    // Each long frame is in separate memory, which is scarcer.
    bed.promises.hold = 8;
    bed
}

fn one_by_one<M: Medium>(mut bed: OnInterface<M>) -> OnInterface<M> {
    bed.query = "?ring=1Mi&retire=0";
    bed.promises.mode = "tpacket-v2";
    bed.promises.held = Held::Frames;
    bed
}

/// On the interface of `medium`, which has `queues` queues.
pub(crate) fn on<M: Medium>(medium: M, queues: u16, fills: bool) -> OnInterface<M> {
    let promises = Promises {
        backend: "packet",
        mode: "tpacket-v3",
        interface: Some(medium.interface().to_owned()),
        queues,
        longest: 1514,
        refuses_longer: true,
        parts: true,
        classes: Classes::Seen,
        hold: 64,
        held: Held::Blocks,
        fills,
        counts_losses: true,
        drops_known: true,
        calm: medium.calm(),
        macs: medium.macs(),
    };
    // The kernel selects the TX queue of a frame.
    OnInterface { medium, promises, query: QUICK, steers: false }
}
