//! The devices that the drop-in lists: the system's libpcap's devices in its order, then the queues
//! of interfaces.

use std::path::{Path, PathBuf};

use wirelane_testkit::libpcap::Library;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::run;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::{c, privileged, tools};

/// Each test compiles its own copy, because tests run in parallel.
fn program(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/devices.c");
    c::compile("gcc", &program, [source.as_os_str(), "-lpcap".as_ref()]);
    program
}

/// Interfaces of many kinds: with and without addresses, labels, carrier and other ends; up and
/// down.
fn furnish(ns: &Namespace) -> MultiQueueTap {
    let ip = |line: &str| {
        ns.run("ip", line.split(' '));
    };
    ns.enable_ipv6();
    ip("link add wl-v0 type veth peer name wl-v1");
    ip("addr add 10.1.2.3/24 brd + dev wl-v0");
    ip("addr add 192.168.7.1/16 brd + dev wl-v0 label wl-v0:1");
    ip("addr add fd00::1/64 dev wl-v0 nodad");
    ip("link set wl-v0 up");
    ip("link add wl-up type veth peer name wl-down");
    ip("link set wl-up up");
    ip("addr add 172.16.0.1 peer 172.16.0.2/32 dev wl-up");
    ip("tuntap add mode tun name wl-tun");
    ip("addr add 10.9.0.1 peer 10.9.0.2/32 dev wl-tun");
    ip("link set wl-tun up");
    MultiQueueTap::new(ns, "wl-multi", 3)
}

#[test]
fn privileged_devices_are_those_of_libpcap_and_queues() {
    if !privileged::require() || !tools::require("gcc") {
        return;
    }
    let ns = Namespace::new();
    let _tap = furnish(&ns);
    let program = program("devices-as-libpcap");
    let networks = [
        "wl-v0",
        "wl-v0:1",
        "wl-down",
        "wl-tun",
        "lo",
        "any",
        "usbmon0",
        "no-such-if",
        "a-name-longer-than-any-interface",
        "",
    ];
    let answer = |library: Library, options: &str| {
        let mut command = ns.command(&program);
        library.of(&mut command).args(networks);
        if !options.is_empty() {
            command.env("WIRELANE_PCAP", options);
        }
        run(&mut command)
    };
    let stock = answer(Library::Stock, "");
    assert!(stock.contains("default: wl-"), "{stock}");
    assert!(stock.contains("netmask 2 255.255.0.0 broadcast 2 192.168.255.255"), "{stock}");
    assert_eq!(answer(Library::Ours, "list=off"), stock);
    assert_eq!(answer(Library::Ours, "off"), stock);

    // The queues follow all other devices, which are unchanged.
    let ours = answer(Library::Ours, "");
    let is_queue = |line: &&str| line.starts_with("device wirelane:");
    let others: Vec<_> = ours.lines().filter(|line| !is_queue(line)).collect();
    assert_eq!(others, stock.lines().collect::<Vec<_>>());
    let queues: Vec<_> = ours.lines().filter(is_queue).collect();
    let expected = [0, 1, 2].map(|queue| {
        format!(
            "device wirelane:packet:wl-multi@{queue}: RX and TX queue {queue} of wl-multi, flags 16"
        )
    });
    assert_eq!(queues, expected);
    let last = ours.lines().rfind(|line| line.starts_with("device "));
    assert_eq!(last, queues.last().copied());
}

/// Without the system's libpcap, network interfaces are still listed, with all their properties.
#[test]
fn privileged_interfaces_are_listed_without_libpcap() {
    if !privileged::require() || !tools::require("gcc") {
        return;
    }
    let ns = Namespace::new();
    let _tap = furnish(&ns);
    let program = program("devices-alone");
    let stock = run(Library::Stock.of(&mut ns.command(&program)));
    let mut ours = ns.command(&program);
    Library::Ours.of(&mut ours).env("WIRELANE_PCAP", "list=off");
    let ours = run(ours.env("WIRELANE_LIBPCAP_REAL", "/dev/null"));
    let mut is_interface = false;
    let interfaces = stock.lines().filter(|line| {
        let name = line.strip_prefix("device ").and_then(|rest| rest.split(':').next());
        if let Some(name) = name {
            is_interface = name == "lo" || name.starts_with("wl-");
        }
        is_interface
    });
    let listed = ours.lines().filter(|line| !line.starts_with("default"));
    let interfaces: Vec<_> = interfaces.filter(|line| !line.starts_with("default")).collect();
    assert!(interfaces.len() > 12, "{stock}");
    assert_eq!(listed.collect::<Vec<_>>(), interfaces);
}
