//! Compares the whole answer with ethtool and iproute2.

use std::process::Command;

use wirelane_os::tun::{Options, Tap};
use wirelane_testkit::netns::in_new_namespace;

use super::*;

#[test]
fn loopback_has_one_queue_and_no_driver() {
    let lo = interface("lo").unwrap();
    assert_eq!((lo.name.as_str(), lo.index), ("lo", 1));
    assert_eq!((lo.rx.count, lo.tx.count), (Some(1), Some(1)));
    assert_eq!((lo.driver, lo.rss, lo.combined), (None, None, Setting::default()));
    assert!(
        lo.notes.iter().any(|note| note.contains("records no receive queue")),
        "{:?}",
        lo.notes
    );
    assert!(interfaces().unwrap().contains(&"lo".to_owned()));
}

#[test]
fn an_unknown_interface_says_what_to_do() {
    for name in ["foo", "", "a-name-of-more-than-15-bytes", "..", "x/y"] {
        let error = interface(name).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{name}: the interface does not exist; `wirelane queues` lists the interfaces")
        );
        assert_eq!(error.errno(), Some(rustix::io::Errno::NODEV.raw_os_error()));
    }
}

#[test]
fn json_has_null_for_unknown() {
    let lo = serde_json::to_value(interface("lo").unwrap()).unwrap();
    assert_eq!(lo["driver"], serde_json::Value::Null);
    assert_eq!(lo["rx"]["ring"]["max"], serde_json::Value::Null);
    assert_eq!(lo["rx"]["queues"][0]["irq"], serde_json::Value::Null);
    assert_eq!(lo["rx"]["queues"][0]["index"], 0);
    assert_eq!(lo["ifindex"], 1);
    assert_eq!(lo["rx_queue_mapping"], "shifted");
    assert_eq!(lo["combined"].to_string(), r#"{"count":null,"max":null}"#);
    assert_eq!(lo["rx"]["ring"].to_string(), r#"{"current":null,"max":null}"#);
}

#[test]
fn privileged_veth_agrees_with_ethtool_and_ip() {
    in_new_namespace(|| {
        run("ip link add va numrxqueues 4 numtxqueues 3 type veth peer name vb");
        run("ethtool -L va rx 3 tx 2");
        // Down, the kernel lists no queue, but sysfs does.
        let va = interface("va").unwrap();
        assert!(!va.up);
        assert_eq!((va.rx.count, va.tx.count), (Some(3), Some(2)));
        run("ip link set va up");
        run("ip link set vb up");

        let va = interface("va").unwrap();
        let counts = numbers(&run("ethtool -l va"), &["RX:", "TX:"]);
        let of_va = [va.rx.max, va.tx.max, va.rx.count, va.tx.count].map(Option::unwrap);
        assert_eq!(counts, of_va);
        let link: serde_json::Value = serde_json::from_str(&run("ip -d -j link show va")).unwrap();
        assert_eq!(link[0]["ifindex"], va.index);
        assert_eq!(link[0]["num_rx_queues"], va.rx.max.unwrap());
        assert_eq!(link[0]["num_tx_queues"], va.tx.max.unwrap());
        assert_eq!(link[0]["mtu"], va.mtu.unwrap());

        assert_eq!(va.driver.as_deref(), Some("veth"));
        assert_eq!(va.rx_queue_mapping, QueueMapping::Unshifted);
        assert_eq!(
            (va.rx.ring, va.tx.ring, va.rss),
            (Setting::default(), Setting::default(), None)
        );
        assert_eq!(va.rx.queues.len(), 3);
        assert_eq!(va.rx.queues[2].index, 2);
        // A virtual device has no interrupt, and steering that is off by default.
        assert_eq!(va.rx.queues[0].service.irq, None);
        assert_eq!(va.rx.queues[0].rps_cpus, Some(CpuList::default()));
        assert_eq!(va.tx.queues[1].xps_cpus, Some(CpuList::default()));
    });
}

#[test]
fn privileged_steering_of_this_namespace_is_read() {
    in_new_namespace(|| {
        run("ip link add va up numrxqueues 2 numtxqueues 2 type veth peer name vb");
        // `ip netns exec` cannot use a nameless namespace; a separate mount shows the right sysfs.
        run_script(
            "mount -t sysfs none /sys && echo 1 > /sys/class/net/va/queues/rx-1/rps_cpus && \
             echo 1 > /sys/class/net/va/queues/tx-0/xps_cpus",
        );
        let va = interface("va").unwrap();
        let cpu0 = CpuList::from_list("0");
        assert_eq!(va.rx.queues[1].rps_cpus, cpu0);
        assert_eq!(va.rx.queues[0].rps_cpus, Some(CpuList::default()));
        assert_eq!(va.tx.queues[0].xps_cpus, cpu0);
        assert_eq!(va.tx.queues[1].xps_cpus, Some(CpuList::default()));
    });
}

#[test]
fn privileged_tap_counts_the_queues_that_are_open() {
    in_new_namespace(|| {
        let tap = Tap::open("t0", 4, Options::default()).unwrap();
        run("ip link set t0 up");
        let t0 = interface(tap.name()).unwrap();
        assert_eq!((t0.rx.count, t0.tx.count), (Some(4), Some(4)));
        assert_eq!(t0.combined, Setting { current: Some(4), max: t0.combined.max });
        assert_eq!(t0.driver.as_deref(), Some("tun"));
        assert_eq!(t0.rx_queue_mapping, QueueMapping::Shifted);
        let [max, count] = numbers(&run("ethtool -l t0"), &["Combined:"])[..] else { panic!() };
        assert_eq!(t0.combined, Setting { current: Some(count), max: Some(max) });
    });
}

#[test]
fn privileged_a_thousand_queues_are_counted() {
    in_new_namespace(|| {
        // Their list takes several datagrams.
        run("ip link add va up numrxqueues 1000 numtxqueues 1000 type veth peer name vb");
        run("ethtool -L va rx 1000 tx 1000");
        let va = interface("va").unwrap();
        assert_eq!((va.rx.count, va.tx.count), (Some(1000), Some(1000)));
        assert_eq!(va.rx.queues[999].index, 999);
    });
}

#[test]
fn privileged_gro_is_noted() {
    in_new_namespace(|| {
        run("ip link add va up type veth peer name vb");
        let noted = || {
            let va = interface("va").unwrap();
            va.notes.iter().any(|note| note.starts_with("GRO merges"))
        };
        run("ethtool -K va gro on");
        assert!(noted());
        run("ethtool -K va gro off");
        assert!(!noted());
    });
}

#[test]
fn privileged_interfaces_are_those_of_the_namespace() {
    in_new_namespace(|| {
        run("ip link add va type veth peer name vb");
        assert_eq!(interfaces().unwrap(), ["lo", "vb", "va"]);
        let names: Vec<_> = all().unwrap().into_iter().map(|interface| interface.name).collect();
        assert_eq!(names, ["lo", "vb", "va"]);
    });
}

/// The last word of every line that begins with one of `labels`, if it is a number.
fn numbers(text: &str, labels: &[&str]) -> Vec<u32> {
    text.lines()
        .filter(|line| labels.iter().any(|label| line.starts_with(label)))
        .filter_map(|line| line.split_whitespace().next_back()?.parse().ok())
        .collect()
}

fn run(line: &str) -> String {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn run_script(script: &str) {
    let output = Command::new("unshare").args(["-m", "sh", "-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}
