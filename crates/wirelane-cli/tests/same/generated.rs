//! Generated traffic: any lengths, gaps, directions, tags and queues.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use wirelane_testkit::packets;

use crate::cells::difference;
use crate::commands::COMMANDS;
use crate::files;
use crate::forms::FORMS;
use crate::traffic::{MICROSECOND, Packet, at};

/// A packet before its time is known: its gap in microseconds, its flow, whether it answers, its
/// queue, length and VLAN.
type Seed = (u64, u8, bool, u64, usize, Option<u16>);

/// Fewer than `most` packets.
fn traffic(most: usize, gap: impl Strategy<Value = u64>) -> impl Strategy<Value = Vec<Packet>> {
    let vlan = prop_oneof![3 => Just(None), 1 => (1_u16..4).prop_map(Some)];
    let length = prop_oneof![3 => 60_usize..200, 1 => 200_usize..1515];
    let packet = (gap, 0_u8..4, any::<bool>(), 0_u64..4, length, vlan);
    prop::collection::vec(packet, 1..most).prop_map(packets)
}

fn packets(seeds: Vec<Seed>) -> Vec<Packet> {
    let mut time = 0;
    let packet = |(number, (gap, flow, answers, queue, length, vlan)): (usize, Seed)| {
        time += gap * MICROSECOND;
        let number = number as u64;
        let (near, far) = ([10, 6, 0, flow], [10, 6, 1, flow]);
        let (from, to) = if answers { (far, near) } else { (near, far) };
        let packet = packets::udp4(number).addresses(from, to).flow(flow.into()).length(length);
        let packet = vlan.into_iter().fold(packet, packets::Packet::vlan);
        at(time, queue, packet.build())
    };
    seeds.into_iter().enumerate().map(packet).collect()
}

/// The same packets in each run, without a gap in which a flow ends.
pub(crate) fn example() -> Vec<Packet> {
    traffic(120, 1_u64..20).new_tree(&mut TestRunner::deterministic()).unwrap().current()
}

fn any_gap() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 1_u64..20, 2 => 1_000_u64..100_000, 1 => 1_000_000_u64..90_000_000]
}

proptest! {
    // Each case runs 17 commands on nine forms.
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 60, ..<_>::default() })]

    #[test]
    fn generated_packets_give_the_same_answers(packets in traffic(40, any_gap())) {
        let expected = files::answers(&FORMS[0], &packets);
        for form in FORMS.iter().skip(1).filter(|form| !form.sampled) {
            let told = files::told(form);
            let outcomes = files::answers(form, &packets);
            for ((command, expected), outcome) in COMMANDS.iter().zip(&expected).zip(outcomes) {
                if files::cannot_tell(form, command, false, false) {
                    continue;
                }
                let difference = difference(expected, &outcome, told);
                prop_assert!(difference.is_none(), "{}: {}", form.name, difference.unwrap());
            }
        }
    }
}
