//! The contract of ports: the behaviour that every [`Port`](wirelane::port::Port) must have, on all
//! backends.
//!
//! A *property* is a function of a *bed*. A bed opens a port of one kind with a given number of
//! queues, sends frames to its queues, and returns the frames that it transmits. Every property
//! runs on every bed. *Promises* tell a property what a bed or a port supports. No property passes
//! without frames.
//!
//! ```text
//!   property ──▶ Session ──▶ Port, Rx, Tx, Control      the port under test, public API only
//!                   └──────▶ Bed: inject ─▶ medium ─▶ port
//!                                 observe ◀─ medium ◀─ port
//! ```
//!
//! Reading order: `bed`, `traffic`, `session`, then any file in `properties`. A test is named
//! `<bed>::<property>`, with `privileged_` in front of the property if the bed needs privileges.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod bed;
mod beds;
mod properties;
mod session;
mod suite;
mod threads;
mod traffic;

use suite::contract;

/// Checks at compile time that ends can move to another thread, and that two threads cannot use one
/// end at a time.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<wirelane::port::Rx>();
    is_send::<wirelane::port::Tx>();
    is_send::<wirelane::Frame>();
    is_send::<wirelane::Batch>();
    is_send::<wirelane::port::Port>();

    /// Types that are not `Sync` have one implementation. `Sync` types have two, so that `HOLDS` is
    /// ambiguous and does not compile.
    trait NotSync<Witness> {
        const HOLDS: () = ();
    }
    struct Shareable;
    impl<T> NotSync<()> for T {}
    impl<T: Sync> NotSync<Shareable> for T {}
    let () = <wirelane::port::Rx as NotSync<_>>::HOLDS;
    let () = <wirelane::port::Tx as NotSync<_>>::HOLDS;
};

contract!(sim_cable_1, plain, || beds::sim::Cable::new(1));
contract!(sim_cable_2, plain, || beds::sim::Cable::new(2));
contract!(sim_cable_4, plain, || beds::sim::Cable::new(4));
contract!(packet_tap_2, privileged, || beds::packet::on_tap(2));
contract!(packet_jumbo_1, privileged, || beds::packet::on_jumbo_veth(1));
contract!(packet_immediate_2, privileged, || beds::packet::on_immediate_veth(2));
contract!(packet_immediate_jumbo_1, privileged, || beds::packet::on_immediate_jumbo_veth(1));
contract!(packet_veth_1, privileged, || beds::packet::on_veth(1));
contract!(packet_veth_2, privileged, || beds::packet::on_veth(2));
contract!(packet_veth_4, privileged, || beds::packet::on_veth(4));
contract!(tap_1, privileged, || beds::tap::port(1));
contract!(tap_2, privileged, || beds::tap::port(2));
contract!(tap_4, privileged, || beds::tap::port(4));
contract!(xdp_native_1, privileged, || beds::xdp::native(1));
contract!(xdp_native_2, privileged, || beds::xdp::native(2));
contract!(xdp_native_4, privileged, || beds::xdp::native(4));
contract!(xdp_jumbo_2, privileged, || beds::xdp::jumbo(2));
contract!(xdp_generic_1, privileged, || beds::xdp::generic(1));
contract!(xdp_generic_2, privileged, || beds::xdp::generic(2));
contract!(xdp_generic_4, privileged, || beds::xdp::generic(4));
