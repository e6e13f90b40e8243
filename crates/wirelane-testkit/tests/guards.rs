//! Tests the guards with real namespaces, processes and devices.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, run};
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets, privileged, tools};

#[test]
fn privileged_namespace_is_gone_after_drop() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let path = ns.path();
    assert!(path.exists());
    assert!(ns.name().starts_with(&format!("wl-{}-", process::id())));
    drop(ns);
    assert!(!path.exists());
}

#[test]
fn privileged_namespace_is_gone_after_a_panic() {
    if !privileged::require() {
        return;
    }
    let (sender, receiver) = std::sync::mpsc::channel::<PathBuf>();
    let test = thread::spawn(move || {
        let ns = Namespace::new();
        sender.send(ns.path()).unwrap();
        let _sleeper = ns.spawn("sleep", ["600"]);
        let _entered = ns.enter();
        assert!(!ns.path().exists(), "this panic is expected");
    });
    let path = receiver.recv().unwrap();
    assert!(test.join().is_err());
    assert!(!path.exists());
}

#[test]
fn privileged_namespace_takes_its_processes_along() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let orphan = ChildGuard::spawn(ns.command("sleep").arg("600"));
    await_program(&orphan, "sleep");
    drop(ns);
    assert!(!orphan.wait(Duration::from_secs(60)).status.success());
}

#[test]
fn privileged_leftovers_of_dead_processes_are_removed() {
    if !privileged::require() {
        return;
    }
    // The removal of leftovers runs once per process, so the test starts this test binary again.
    const CHILD: &str = "WIRELANE_TEST_REAPER_CHILD";
    if std::env::var_os(CHILD).is_some() {
        drop(Namespace::new());
        return;
    }
    let mut dead = Command::new("true").spawn().unwrap();
    let name = format!("wl-{}-0", dead.id());
    dead.wait().unwrap();
    run(Command::new("ip").args(["netns", "add", &name]));
    let alive = Namespace::new();

    run(Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "privileged_leftovers_of_dead_processes_are_removed"])
        .env_remove("WIRELANE_PRIVILEGED_LOG")
        .env(CHILD, "1"));
    assert!(!Path::new("/run/netns").join(&name).exists());
    assert!(alive.path().exists());
}

#[test]
fn privileged_thread_enters_and_comes_back() {
    if !privileged::require() {
        return;
    }
    let identity = || fs::read_link("/proc/thread-self/ns/net").unwrap();
    let outside = identity();
    let ns = Namespace::new();
    let inside = {
        let _entered = ns.enter();
        let interfaces = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        assert!(interfaces.contains("lo:"));
        identity()
    };
    assert_ne!(inside, outside);
    assert_eq!(identity(), outside);
    assert_eq!(ns.inside(identity), inside);
    assert_eq!(ns.run("readlink", ["/proc/self/ns/net"]).trim(), inside.to_str().unwrap());
}

#[test]
fn privileged_veth_pair_carries_packets_and_nothing_else() {
    if !privileged::require() {
        return;
    }
    let (left, right) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&left, &right, 4, 1400);
    let other = VethPair::new(&left, &right, 1, 1500);
    assert_ne!(pair.a.interface, other.a.interface);

    let sender = left.inside(|| UdpSocket::bind((pair.a.address, 0)).unwrap());
    let receiver = right.inside(|| UdpSocket::bind((pair.b.address, 0)).unwrap());
    receiver.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let to = receiver.local_addr().unwrap();
    for number in 0..10_u8 {
        sender.send_to(&[number; 32], to).unwrap();
        let mut buffer = [0; 64];
        let (length, from) = receiver.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from.ip()), (&[number; 32][..], pair.a.address.into()));
    }
    assert_eq!(pair.b.statistic("rx_packets"), 10);
    assert_eq!(pair.a.statistic("rx_packets"), 0);
    assert_eq!(other.b.statistic("rx_packets"), 0);

    let link = left.run("ip", ["-d", "link", "show", &pair.a.interface]);
    for property in ["mtu 1400", "numtxqueues 4", "numrxqueues 4"] {
        assert!(link.contains(property), "{property} is not in {link}");
    }
}

#[test]
fn privileged_veth_offloads_are_toggled() {
    if !privileged::require() || !tools::require("ethtool") {
        return;
    }
    let (left, right) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&left, &right, 2, 1500);
    for (on, line) in [(false, ": off"), (true, ": on")] {
        pair.set_offloads(on);
        for end in [&pair.a, &pair.b] {
            let features = end.ethtool(&["-k", &end.interface]);
            for feature in
                ["tcp-segmentation-offload", "tx-checksumming", "generic-receive-offload"]
            {
                assert!(features.contains(&format!("{feature}{line}")), "{feature}: {features}");
            }
        }
    }
}

#[test]
fn privileged_ipv6_is_silent_until_enabled() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let addresses = || ns.inside(|| fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap());
    assert_eq!(addresses(), "");
    ns.enable_ipv6();
    assert!(addresses().contains("lo"));
}

#[test]
fn privileged_tap_receives_what_is_written_and_gives_what_is_sent() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "tap0", 4);
    assert_eq!((tap.name(), tap.queues()), ("tap0", 4));
    for queue in 0..4 {
        tap.write(queue, &packets::udp4(queue as u64).build());
    }
    let received = ns.run("cat", ["/sys/class/net/tap0/statistics/rx_packets"]);
    assert_eq!(received.trim(), "4");
    assert!(tap.drain().is_empty());

    ns.run("ip", ["address", "add", "192.0.2.1/24", "dev", "tap0"]);
    let peer = ["192.0.2.2", "lladdr", "02:00:00:00:00:02", "dev", "tap0"];
    ns.run("ip", ["neigh", "add"].into_iter().chain(peer));
    let socket = ns.inside(|| UdpSocket::bind("192.0.2.1:0").unwrap());
    socket.send_to(b"hello", "192.0.2.2:9").unwrap();
    let sent = tap.drain();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].1.ends_with(b"hello"));

    drop(tap);
    // The device may remain for a moment: while another test thread starts a program, the new child
    // holds copies of all descriptors until it executes the program.
    let deadline = Instant::now() + Duration::from_secs(60);
    while ns.run("ip", ["link"]).contains("tap0") {
        assert!(Instant::now() < deadline, "tap0 outlived its guard");
    }
}

/// Waits until the child executes `program`. Before that, it is `ip`, which enters the namespace.
fn await_program(child: &ChildGuard, program: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let path = format!("/proc/{}/comm", child.id());
    while fs::read_to_string(&path).expect("a living child").trim() != program {
        assert!(Instant::now() < deadline, "{path} never became {program}");
        thread::sleep(Duration::from_millis(2));
    }
}
