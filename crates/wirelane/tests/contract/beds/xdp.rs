//! `xdp:` on veth pairs, which do not support zero copy.

use crate::bed::{Classes, Held, Promises};
use crate::beds::veth::Veth;
use crate::beds::{Medium, OnInterface};

/// Native mode (in the driver), with copying.
pub(crate) fn native(queues: u16) -> OnInterface<Veth> {
    on(Veth::new(queues), queues, "native", "?mode=native&ring=512&frames=1024")
}

/// Native mode, with frames that span several chunks.
pub(crate) fn jumbo(queues: u16) -> OnInterface<Veth> {
    let bed = on(Veth::jumbo(queues), queues, "native", "?mode=native&ring=512&frames=2048&sg=on");
    bed.with_longest(9014)
}

/// Generic (SKB) mode, with copying.
pub(crate) fn generic(queues: u16) -> OnInterface<Veth> {
    on(Veth::generic(queues), queues, "generic", "?mode=generic&ring=512&frames=1024")
}

/// On the interface of `medium`, which has `queues` queues; `query` forces the mode.
pub(crate) fn on<M: Medium>(
    medium: M,
    queues: u16,
    mode: &'static str,
    query: &'static str,
) -> OnInterface<M> {
    let promises = Promises {
        backend: "xdp",
        mode,
        interface: Some(medium.interface().to_owned()),
        queues,
        longest: 1514,
        refuses_longer: true,
        parts: true,
        classes: Classes::Refused,
        hold: 256,
        held: Held::Frames,
        fills: true,
        counts_losses: true,
        drops_known: true,
        calm: medium.calm(),
        macs: medium.macs(),
    };
    // A socket is bound to one queue in both directions.
    OnInterface { medium, promises, query, steers: true }
}
