//! The effect of switches that change while packets arrive.

use wirelane_testkit::privileged;

use super::transfer::transfer;
use super::*;

const BYTES: u64 = 2 << 20;

/// The numbers of long frames segmented and of packets merged during transfers in both directions.
fn during_transfers(world: &World) -> (u64, u64) {
    let before = world.cut_and_merged();
    for (l, r) in LEFT.into_iter().zip(RIGHT) {
        transfer(&world.left, &world.right, r, BYTES, 7);
        transfer(&world.right, &world.left, l, BYTES, 8);
    }
    let after = world.cut_and_merged();
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn privileged_a_switch_changes_what_is_cut_and_merged() {
    if !privileged::require() {
        return;
    }
    let world = World::new("packet", 1);
    let switches = world.forward.switches();
    let [Some(tap), Some(wire)] = &switches[..] else { panic!("both ports have switches") };
    let (cut, merged) = during_transfers(&world);
    assert!(cut > 0 && merged > 0, "{cut} cut, {merged} merged");

    // Now the stack segments, and Wirelane does not merge these segments again.
    tap.set_gro(Protocols::NONE).unwrap();
    wire.set_gso(Protocols::NONE).unwrap();
    wire.set_gro(Protocols { tcp: false, udp: true }).unwrap();
    assert_eq!(during_transfers(&world), (0, 0));

    wire.set_gso(Protocols { tcp: true, udp: false }).unwrap();
    let (cut, merged) = during_transfers(&world);
    assert!(cut > 0 && merged == 0, "{cut} cut, {merged} merged");

    wire.set_gro(Protocols::ALL).unwrap();
    wire.set_max_burst(4000).unwrap();
    let (_, merged) = during_transfers(&world);
    assert!(merged > 0, "nothing is merged");
    let outcome = world.finish();
    assert_eq!(wire.settings().gso(), Protocols { tcp: true, udp: false });
    drop(outcome);
}

/// A device that was opened without room for long frames refuses them, and the error says how to
/// open it.
#[test]
fn privileged_a_device_without_room_for_long_frames_stays_so() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let options = OpenOptions::default().transmit(true);
    let tap = ns.inside(|| port::open(&"tap:wl-tap".parse().unwrap(), &options)).unwrap();
    let control = tap.control();
    control.set_offload(SinkGso::default()).unwrap();
    let error = control.set_offload(SinkGso::leaving(Protocols::ALL)).unwrap_err();
    assert_eq!(error.kind(), wirelane::ErrorKind::Usage);
    assert!(error.to_string().contains("open it for segmentation"), "{error}");
    drop((tap, control));
    // A device that was prepared for them accepts them.
    let ns = Namespace::new();
    let forwarding = Forwarding::default().prepare_offload(true);
    let options = options.internal(ProgramOptions::default().forwarding(forwarding));
    let tap = ns.inside(|| port::open(&"tap:wl-tap".parse().unwrap(), &options)).unwrap();
    tap.control().set_offload(SinkGso::leaving(Protocols::ALL)).unwrap();
}
