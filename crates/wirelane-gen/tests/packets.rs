//! Random recipes compile to packets that pass the auditor, and format to equivalent text.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use wirelane_gen::protocol::{FieldPosition, Notation, ProtocolField};
use wirelane_gen::recipe::{Setting, Value};
use wirelane_gen::{Layer, Recipe, Sizes, Stream, Values, signature};
use wirelane_verify::{Auditor, Options, Packet, Rule};

/// Each valid combination of adjacent layers, at least once.
const STACKS: &[&str] = &[
    "udp",
    "eth vlan vlan ipv4 tcp",
    "ipv6 udp",
    "ipv6 hopopts routing dstopts tcp",
    "icmp",
    "icmpv6",
    "ns",
    "na",
    "arp",
    "mpls mpls ipv4 udp",
    "vxlan ipv4 udp",
    "vxlan vlan ipv6 tcp",
    "ipv6 vxlan eth ipv4 icmp",
    "gre ipv4 udp",
    "gre eth ipv6 icmpv6",
    "ipv6 gre ipv6 tcp",
    "geneve eth ipv4 tcp",
    "ipv6 geneve ipv6 udp",
    "ipv4 ipv4 ipv6 udp",
    "ipv4 tcp payload text=hello",
    "udp payload hex=010203 fill=count",
    "ipv6 tcp payload fill=random",
    "vxlan udp payload text=odd fill=7",
];

/// Fields that can have any value without changing the structure of the packet.
const FREE: &[&str] = &[
    "src",
    "priority",
    "dei",
    "id",
    "tc",
    "ttl",
    "sender-mac",
    "sender-ip",
    "target-mac",
    "target-ip",
    "dscp",
    "ecn",
    "label",
    "hop-limit",
    "seq",
    "ack",
    "window",
    "mss",
    "tsval",
    "tsecr",
    "vni",
    "key",
    "target",
    "mac",
];

fn values(field: &'static ProtocolField) -> impl Strategy<Value = Values> {
    let max = field.max();
    let one = move || any::<u128>().prop_map(move |value| value & max);
    prop_oneof![
        one().prop_map(Values::Constant),
        proptest::collection::vec(one(), 1..5).prop_map(Values::List),
        (one(), any::<u128>(), 1..1000u64).prop_map(|(start, step, count)| Values::Counter {
            start,
            step,
            count
        }),
        (one(), 0..300u128, 1..300u64).prop_map(|(start, step, count)| Values::Counter {
            start,
            step,
            count
        }),
        (one(), one(), any::<u64>()).prop_map(|(a, b, seed)| Values::Random {
            low: a.min(b),
            high: a.max(b),
            seed
        }),
    ]
}

fn setting(field: &'static ProtocolField) -> BoxedStrategy<Setting> {
    let value = match field.kind {
        Notation::Text | Notation::Hex => {
            proptest::collection::vec(any::<u8>(), 0..9).prop_map(Value::Bytes).boxed()
        }
        // A byte or a name.
        _ if field.place == FieldPosition::Payload => {
            (0..=257u128).prop_map(|value| Value::Numbers(Values::Constant(value))).boxed()
        }
        _ if field.preset.is_computed() => {
            prop_oneof![Just(Value::Auto), values(field).prop_map(Value::Numbers)].boxed()
        }
        _ => values(field).prop_map(Value::Numbers).boxed(),
    };
    value.prop_map(move |value| Setting { field, value }).boxed()
}

/// Recipes of a stack with random values in some of the fields that `choose` accepts.
fn recipes(choose: fn(&ProtocolField) -> bool) -> impl Strategy<Value = Recipe> {
    proptest::sample::select(STACKS).prop_flat_map(move |text| {
        let recipe: Recipe = text.parse().unwrap();
        let layers: Vec<_> =
            recipe.layers.into_iter().map(move |layer| settle(layer, choose)).collect();
        layers.prop_map(|layers| Recipe { layers })
    })
}

fn settle(layer: Layer, choose: fn(&ProtocolField) -> bool) -> impl Strategy<Value = Layer> {
    let free = |field: &&'static ProtocolField| choose(field) && layer.get(field.name).is_none();
    let settings: Vec<_> = layer
        .protocol
        .fields
        .iter()
        .filter(free)
        .map(|field| proptest::option::weighted(0.4, setting(field)))
        .collect();
    settings.prop_map(move |settings| {
        let mut layer = layer.clone();
        layer.settings.extend(settings.into_iter().flatten());
        layer
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_printed_means_the_same(recipe in recipes(|_| true)) {
        let text = recipe.to_string();
        let again: Recipe = text.parse().map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        prop_assert_eq!(again, recipe, "{}", text);
    }

    #[test]
    fn packets_are_valid_for_every_number_and_size(
        recipe in recipes(|field| FREE.contains(&field.name)),
        signed: bool,
        more in 0..200usize,
        k: u64,
    ) {
        let reserved = if signed { signature::LEN } else { 0 };
        let template = recipe.compile(reserved).unwrap();
        let mut auditor = Auditor::new(Options { strict: true, ..Options::default() });
        let mut wrong = Vec::new();
        let mut cursor = template.cursor(k, 3);
        for turn in 0..20u64 {
            let number = k.wrapping_add(turn * 3);
            let mut packet = vec![0xa5; template.min_len() + more + turn as usize];
            cursor.write(&template, &mut packet);
            // After the last packet number, positions of cursors continue, but numbers wrap to 0.
            if number >= k {
                let mut single = vec![0x5a; packet.len()];
                template.write(number, &mut single);
                prop_assert_eq!(&single, &packet);
            }
            let audited = Packet {
                interface: 0,
                link_type: 1,
                timestamp: (turn + 1) * 1_000_000_000,
                original_len: packet.len() as u32,
                data: &packet,
            };
            auditor.packet(&audited, &mut |finding| wrong.push(format!("{finding:?}")));
        }
        auditor.finish(&mut |finding| wrong.push(format!("{finding:?}")));
        prop_assert!(wrong.is_empty(), "{}: {:?}", recipe, wrong);
    }

    #[test]
    fn values_depend_on_the_number_alone(
        recipe in recipes(|field| FREE.contains(&field.name)),
        lanes in 1..5u64,
    ) {
        let template = recipe.compile(0).unwrap();
        let len = template.min_len();
        for lane in 0..lanes {
            let mut cursor = template.cursor(lane, lanes);
            for turn in 0..10 {
                let (mut lane_wrote, mut whole) = (vec![0; len], vec![0; len]);
                cursor.write(&template, &mut lane_wrote);
                template.write(lane + turn * lanes, &mut whole);
                prop_assert_eq!(lane_wrote, whole);
            }
        }
    }
}

#[test]
fn the_auditor_sees_every_checksum() {
    // The auditor detects wrong checksums, so the tests above are meaningful.
    for (text, rule) in [
        ("ipv4 checksum=1 udp", Rule::Ipv4Checksum),
        ("udp checksum=1", Rule::UdpChecksum),
        ("tcp checksum=1", Rule::TcpChecksum),
        ("vxlan ipv4 tcp checksum=1", Rule::TcpChecksum),
        ("gre checksum=1 ipv4 udp", Rule::GreChecksum),
    ] {
        let template = text.parse::<Recipe>().unwrap().compile(0).unwrap();
        let mut packet = vec![0; template.min_len()];
        template.write(0, &mut packet);
        let mut auditor = Auditor::new(Options { strict: true, ..Options::default() });
        let audited = Packet {
            interface: 0,
            link_type: 1,
            timestamp: 1,
            original_len: packet.len() as u32,
            data: &packet,
        };
        let mut found = Vec::new();
        auditor.packet(&audited, &mut |finding| found.push(finding.rule));
        assert_eq!(found, [rule], "{text}");
    }
}

#[test]
fn a_stream_checks_its_sizes() {
    let recipe: Recipe = "vxlan ipv6 tcp".parse().unwrap();
    let sizes = |text: &str| text.parse::<Sizes>().unwrap();
    let error = Stream::new("a", &recipe, Some(&sizes("64")), 18).unwrap_err().to_string();
    assert_eq!(error, "a frame of 64 bytes is too short; its headers need at least 142");
    let imix = Stream::new("a", &recipe, Some(&Sizes::Imix), 18).unwrap();
    assert_eq!((imix.lengths.min(), imix.lengths.max()), (142, 1514));
    assert_eq!(Stream::new("a", &recipe, None, 0).unwrap().lengths.fixed(), Some(124));
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_ones() {
    // For any other contents, one of all ports makes the sum zero.
    for text in ["udp src=0-65535", "ipv6 udp src=0-65535", "vxlan ipv4 udp src=0-65535"] {
        let template = text.parse::<Recipe>().unwrap().compile(0).unwrap();
        let at = usize::from(template.checksums()[0].offset);
        assert!(template.checksums()[0].nonzero);
        let mut packet = vec![0; template.min_len()];
        let mut cursor = template.cursor(0, 1);
        let mut ones = 0;
        for _ in 0..=65535 {
            cursor.write(&template, &mut packet);
            assert_ne!(packet[at..at + 2], [0, 0]);
            ones += usize::from(packet[at..at + 2] == [0xff, 0xff]);
        }
        assert!(ones > 0, "{text}");
    }
}
