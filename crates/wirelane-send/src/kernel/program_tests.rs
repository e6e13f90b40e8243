//! Compares the output of programs with the output of templates.

use wirelane_gen::sizes::Sizes as PacketSizes;
use wirelane_gen::{Recipe, Signature};
use wirelane_testkit::privileged;

use super::*;

const RECIPES: &[&str] = &[
    "udp",
    "ipv4 src=10.0.0.1-10.0.0.200 udp src=1000-1999 dst=53,80,443",
    "ipv4 src=10.0.0.0/8@random dst=10.0.0.9-10.0.0.1 ttl=1-64@step:3 udp src=100-300@random",
    "ipv6 src=2001:db8::1-2001:db8::ff udp dst=random",
    "ipv6 dst=random src=2001:db8::1,2001:db8::77 label=random tcp src=random:7 seq=random",
    "ipv6 dst=fe80::ffff:ffff:ffff:fff0-fe80:0:0:1::ff src=2001:db8::/64@random udp",
    "ipv6 dst=fe80::9-fe80::1 src=::1:0:0:0:7-::fff0:0:0:2@step:18446744073709551615 udp",
    "vlan id=1-4000 priority=random ipv4 tcp dst=1-65535",
    "vlan id=1,2 vlan id=random ipv4 icmp id=0-999",
    "ipv6 icmpv6 seq=0-65535",
    "ipv4 udp vxlan vni=1-1000 ipv4 src=10.0.0.0-10.0.255.255 udp src=random",
    "ipv6 udp checksum=auto vxlan vni=random ipv6 src=random tcp",
    "ipv4 gre checksum=auto ipv4 udp src=1-9",
    "mpls label=16-99 ipv4 udp payload fill=random",
    "eth src=02:00:00:00:00:01-02:00:00:00:ff:ff dst=random ipv4 udp payload text=123456789",
    "geneve vni=random udp src=1-3 payload fill=count",
];

/// The program's output for its starting frame, after `count` frames.
fn run(sender: &SenderProgram, count: u64) -> Vec<u8> {
    sender.set_count(count);
    let outcome = sender.program.test_run(&sender.frame, None, 1).unwrap();
    assert_eq!(outcome.result, XdpAction::Redirect as u32);
    outcome.output
}

fn stream(recipe: &str, sizes: Option<&str>, reserved: usize) -> Stream {
    let recipe: Recipe = recipe.parse().unwrap_or_else(|error| panic!("{recipe}: {error}"));
    let sizes = sizes.map(|sizes| sizes.parse::<PacketSizes>().unwrap());
    Stream::new("s", &recipe, sizes.as_ref(), reserved)
        .unwrap_or_else(|error| panic!("{recipe}: {error}"))
}

fn load(parts: &ProgramParameters<'_>) -> SenderProgram {
    match SenderProgram::new(parts) {
        Ok(sender) => sender,
        Err(FieldError::Refused(refusal)) => panic!("{refusal}"),
        Err(FieldError::Os(error)) => panic!("{error}"),
    }
}

#[test]
fn privileged_programs_write_what_templates_write() {
    if !privileged::require() {
        return;
    }
    for recipe in RECIPES {
        for sizes in [None, Some("200"), Some("imix"), Some("190-1400@random")] {
            for (lane, reserved) in
                [(ThreadShare::ALL, 0), (ThreadShare { index: 2, of: 3 }, signature::LEN)]
            {
                let stream = stream(recipe, sizes, reserved);
                let parts = ProgramParameters {
                    ifindex: 1,
                    stream: &stream,
                    lane,
                    signature: None,
                    paced: false,
                };
                let sender = load(&parts);
                for count in (0..5).chain([255, 4095, 65_536, 1 << 33, u64::MAX / 3 - 1]) {
                    let number = count * u64::from(lane.of) + u64::from(lane.index);
                    let mut expected = vec![0; stream.lengths.at(number)];
                    stream.template.write(number, &mut expected);
                    let written = run(&sender, count);
                    assert_eq!(written, expected, "{recipe} {sizes:?} packet {number}");
                }
            }
        }
    }
}

#[test]
fn privileged_programs_sign() {
    if !privileged::require() {
        return;
    }
    let key = SignatureKey(0x0123_4567_89ab_cdef);
    for recipe in RECIPES {
        for sizes in [Some("200"), Some("imix"), Some("201,200")] {
            let stream = stream(recipe, sizes, signature::LEN);
            let signature = Some((key, 0x12_3456));
            let parts = ProgramParameters {
                ifindex: 1,
                stream: &stream,
                lane: ThreadShare::ALL,
                signature,
                paced: false,
            };
            let sender = load(&parts);
            for count in [0, 1, 2, 7, (1 << 32) + 5] {
                let before = wirelane_os::clock::monotonic_ns();
                let mut written = run(&sender, count);
                let after = wirelane_os::clock::monotonic_ns();
                let Some(found) = Signature::parse(key, &written) else {
                    panic!("{recipe} {sizes:?} packet {count} is not signed")
                };
                assert_eq!((found.flow, found.sequence), (0x12_3456, count as u32));
                let time = (before..=after).any(|time| time % signature::TIME_SPAN == found.time);
                assert!(time, "{before} {} {after}", found.time);
                let end = written.len() - signature::LEN;
                written[end..].fill(0);
                let mut expected = vec![0; stream.lengths.at(count)];
                stream.template.write(count, &mut expected);
                assert_eq!(written, expected, "{recipe} {sizes:?} packet {count}");
            }
        }
    }
}

#[test]
fn privileged_packets_wait_until_they_are_due() {
    if !privileged::require() {
        return;
    }
    let stream = stream("udp", None, 0);
    let parts = ProgramParameters {
        ifindex: 1,
        stream: &stream,
        lane: ThreadShare::ALL,
        signature: None,
        paced: true,
    };
    let sender = load(&parts);
    // Packet 5 is due 20 µs from now, packet 7 two intervals of 10 µs later.
    let now = wirelane_os::clock::monotonic_ns();
    sender.set_count(7);
    sender.pace(now + 20_000, 5, 10_000 << INTERVAL_SHIFT, 1).unwrap();
    let mut outcome = 0;
    while outcome != XdpAction::Redirect as u32 {
        outcome = sender.program.test_run(&sender.frame, None, 1).unwrap().result;
    }
    assert!(wirelane_os::clock::monotonic_ns() >= now + 40_000);
    let state = sender.state().unwrap();
    let counted: Vec<_> = state.lateness().filter(|(_, packets)| *packets > 0).collect();
    assert_eq!((state.frames(), counted.len(), counted[0].1), (8, 1, 1));
    assert!(counted[0].0.abs_diff(state.latest()) <= 1 << COARSE_SHIFT);
    // A packet that is due in an hour is neither sent nor counted.
    sender.pace(now + 3_600_000_000_000, 8, 1 << INTERVAL_SHIFT, 1).unwrap();
    let outcome = sender.program.test_run(&sender.frame, None, 1).unwrap();
    assert_eq!((outcome.result, sender.state().unwrap().frames()), (XdpAction::Drop as u32, 8));
}

#[test]
fn privileged_packets_of_a_group_leave_when_the_first_is_due() {
    if !privileged::require() {
        return;
    }
    const HOUR: u64 = 3_600_000_000_000;
    let stream = stream("udp", None, signature::LEN);
    let key = SignatureKey(5);
    let signature = Some((key, 1));
    let parts = ProgramParameters {
        ifindex: 1,
        stream: &stream,
        lane: ThreadShare::ALL,
        signature,
        paced: true,
    };
    let sender = load(&parts);
    // Groups start at the packet that a call begins with, independently of its number.
    sender.set_count(5);
    let due = wirelane_os::clock::monotonic_ns() + 10_000;
    sender.pace(due, 5, HOUR << INTERVAL_SHIFT, 4).unwrap();
    let mut times = Vec::new();
    while times.len() < 4 {
        let outcome = sender.program.test_run(&sender.frame, None, 1).unwrap();
        if outcome.result == XdpAction::Redirect as u32 {
            times.push(Signature::parse(key, &outcome.output).unwrap().time);
        }
    }
    let state = sender.state().unwrap();
    assert_eq!((state.frames(), times), (9, vec![state.last() % signature::TIME_SPAN; 4]));
    assert!(state.last() >= due);
    // The other three leave hours early, and are counted with this error.
    let early = due + 3 * HOUR - state.last();
    assert_eq!(state.latest(), early);
    let counted: Vec<_> = state.lateness().filter(|(_, packets)| *packets > 0).collect();
    assert_eq!(counted.iter().map(|(_, packets)| packets).sum::<u64>(), 4);
    assert_eq!(counted.last().map(|(_, packets)| *packets), Some(3));
    // The next group is due hours later.
    let outcome = sender.program.test_run(&sender.frame, None, 1).unwrap();
    assert_eq!((outcome.result, sender.state().unwrap().frames()), (XdpAction::Drop as u32, 9));

    // A late group leaves at least 7/8 of the normal spacing after the previous group.
    let last = sender.state().unwrap().last();
    sender.pace(last, 9, 10_000 << INTERVAL_SHIFT, 4).unwrap();
    let mut outcome = 0;
    while outcome != XdpAction::Redirect as u32 {
        outcome = sender.program.test_run(&sender.frame, None, 1).unwrap().result;
    }
    assert!(sender.state().unwrap().last() >= last + 35_000);
}

#[test]
fn privileged_what_is_too_much_for_a_program_is_refused() {
    if !privileged::require() {
        return;
    }
    for (recipe, refusal) in [
        ("eth src=02:00:00:00:00:00-02:12:34:56:78:9a@random", KernelRefusal::Values),
        ("ipv6 dst=::-::5@random udp", KernelRefusal::Values),
    ] {
        let stream = stream(recipe, None, 0);
        let parts = ProgramParameters {
            ifindex: 1,
            stream: &stream,
            lane: ThreadShare::ALL,
            signature: None,
            paced: false,
        };
        let refused = SenderProgram::new(&parts).err();
        assert!(
            matches!(refused, Some(FieldError::Refused(found)) if found == refusal),
            "{recipe}"
        );
    }
}
