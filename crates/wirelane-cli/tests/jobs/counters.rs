//! "How is that capture doing?", from another terminal.

use rustix::process::Signal;
use wirelane_testkit::process::ChildGuard;

use super::lan::ONCE;
use super::*;

/// The counters of the device, of tcpdump (SIGUSR1) and of Wirelane agree.
#[test]
fn privileged_counters_of_a_running_capture() {
    if unavailable(&["tcpdump", "ping"]) {
        return;
    }
    const PINGS: usize = 200;
    let lan = Lan::new(2);
    let [host, other] = &lan.hosts[..] else { unreachable!() };
    let (ns, interface) = other.interface();
    host.ping(other.address, 2, b"hello ok", 56);
    let device = || ["rx_packets", "tx_packets"].map(|name| other.end.statistic(name));
    let before = device();
    let file = lan.path("counted.pcapng");
    let args = [interface, "-w", file.to_str().unwrap(), "-f", "greater 500"];
    let mut capture = Running::start(Some(ns), &args);
    let path = lan.path("theirs.pcap");
    let args = ["-i", interface, "-U", "--immediate-mode", "-B", "65536", "-Z", "root", "-w"];
    let mut command = ns.command("tcpdump");
    let mut tcpdump = ChildGuard::spawn(command.args(args).arg(&path).arg("greater 500"));
    tcpdump.wait_until(PATIENCE, |child| child.stderr().contains("listening on"));

    host.ping(other.address, PINGS, b"a packet", 1000);
    host.ping(other.address, PINGS, b"tiny one", ONCE);
    host.ping(other.address, 1, LAST, 1000);
    let after = device();
    let came: u64 = after.iter().zip(before).map(|(after, before)| after - before).sum();
    let taken = 2 * PINGS as u64 + 2;
    // Not at once: each reads the kernel's counters at its own time.
    capture.wait_until_statistics(|stats| {
        let totals = &stats["totals"];
        number(&totals["delivered"]) == taken && number(&totals["received"]) == came
    });
    // As a table for people.
    let pid = capture.child.id().to_string();
    let table = wirelane_testkit::process::run(&mut wirelane(["stats", &pid]));
    assert!(table.contains("filtered"), "{table}");
    // tcpdump's count after its filter is the same.
    let says = format!("{taken} packets captured");
    tcpdump.wait_until(PATIENCE, |child| {
        child.signal(Signal::USR1);
        child.stderr().contains(&says)
    });
    assert!(tcpdump.stderr().contains(&format!("{taken} packets received by filter")));

    // By queue, as the driver counts received packets.
    let summary = finish(capture);
    assert_eq!(summary["totals"]["filtered"], came - taken);
    let received = |class: &str| {
        let queues = summary["queues"].as_array().unwrap().iter();
        let of = queues.filter(|queue| queue["class"] == class);
        of.map(|queue| number(&queue["received"])).sum::<u64>()
    };
    assert_eq!([received("rx"), received("tx")], [after[0] - before[0], after[1] - before[1]]);
}
