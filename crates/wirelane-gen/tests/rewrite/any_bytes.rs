//! A harness for property tests and fuzzing: rewrites arbitrary bytes with rules that the first
//! bytes choose, and restores them. It panics if a property is violated.

use wirelane_gen::rewrite::{GROWTH, PortRule, Rewrite, RewriteField, Rule, TtlRule, VlanRule};

/// The first four bytes choose the rules and the loop. The rest is the frame.
pub(crate) fn run(bytes: &[u8]) {
    let Some(([choice, more, number, last], frame)) = bytes.split_first_chunk::<4>() else {
        return;
    };
    let number = u64::from(*number) << (last % 40);
    let (choice, more) = (*choice, *more);
    let rewrite = Rewrite::new(&reversible(choice, more)).expect("rules that go together");
    let rewrite = rewrite.with_tunnels(more & 1 != 0);
    let mut there = frame.to_vec();
    rewrite.apply(&mut there, number);
    assert!(there.len() == frame.len() || there.len() == frame.len() + GROWTH);
    let mut back = there.clone();
    rewrite.undo(&mut back, number);
    assert_same(frame, &back);

    // `prepare` and the round of a loop together equal `apply`.
    let mut apart = frame.to_vec();
    rewrite.prepare(&mut apart);
    if let Some(round) = rewrite.in_loop(number) {
        round.apply(&mut apart);
    }
    assert_eq!(apart, there);

    let lossy = Rewrite::new(&lossy(more)).expect("rules that go together").with_tunnels(true);
    let mut frame = frame.to_vec();
    let len = frame.len();
    lossy.apply(&mut frame, number);
    assert!(frame.len().abs_diff(len) <= GROWTH);
    lossy.undo(&mut frame, number);
}

/// Rules that lose no information of any frame.
pub(crate) fn reversible(choice: u8, more: u8) -> Vec<Rule> {
    let has = |bit: u8| choice >> bit & 1 != 0;
    let mut rules = Vec::new();
    if has(0) {
        rules.push(Rule::map_ip("10.0.0.0/8=192.0.0.0/8").expect("a map"));
        rules.push(Rule::map_ip("192.0.0.0/8=10.0.0.0/8").expect("a map"));
        rules.push(Rule::map_ip("2001:db8::/32=2001:db9::/32").expect("a map"));
        rules.push(Rule::map_ip("2001:db9::/32=2001:db8::/32").expect("a map"));
    }
    if has(1) {
        rules.push(Rule::Pseudonyms { seed: more.into() });
    }
    if has(2) {
        let to = PortRule::Add(u16::from(more) << 5 | 1);
        rules.push(Rule::Port { side: RewriteField::Both, from: None, to });
    } else if has(3) {
        rules.push(Rule::port("src:80=8080").expect("a rule"));
        rules.push(Rule::port("src:8080=80").expect("a rule"));
    }
    if has(4) {
        rules.push(Rule::map_mac("02:00:00:00:00:01=02:00:00:00:00:02").expect("a map"));
        rules.push(Rule::map_mac("02:00:00:00:00:02=02:00:00:00:00:01").expect("a map"));
    }
    if has(5) {
        rules.push(Rule::Vlan(VlanRule::Push { id: 100, priority: more >> 5 }));
    }
    if has(6) {
        rules.push(Rule::Unique { seed: more.into(), within: Vec::new() });
    } else if has(7) {
        let within = ["10.0.0.0/8", "2001:db8::/32"].map(|it| it.parse().expect("a prefix"));
        rules.push(Rule::Unique { seed: more.into(), within: within.into() });
    }
    rules
}

/// Rules that lose information.
fn lossy(more: u8) -> Vec<Rule> {
    let vlan = if more & 2 == 0 { VlanRule::Pop } else { VlanRule::Set(7) };
    let ttl = if more & 4 == 0 { TtlRule::Set(more) } else { TtlRule::Add(-3) };
    let port = Rule::Port { side: RewriteField::Destination, from: None, to: PortRule::Set(9) };
    vec![Rule::Vlan(vlan), Rule::Ttl(ttl), port]
}

/// Asserts equality, except that a checksum of 0 may be 0xffff, which is the same number.
pub(crate) fn assert_same(expected: &[u8], actual: &[u8]) {
    assert_eq!(expected.len(), actual.len());
    for (at, (a, b)) in expected.iter().zip(actual).enumerate() {
        assert!(a == b || matches!((a, b), (0, 255) | (255, 0)), "byte {at}: {a:#x}, {b:#x}");
    }
}
