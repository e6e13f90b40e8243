//! The user's ports, with a load from outside.

use std::process::Command;

use serde_json::Value;
use wirelane_lab::{Lab, LabConfig};
use wirelane_os::affinity;
use wirelane_send::kernel::{LivePace, LiveSender};
use wirelane_testkit::privileged;
use wirelane_testkit::process::output;

use super::BENCH;

/// Packets per second of the load.
const RATE: u64 = 100_000;

#[test]
fn privileged_ports_of_the_user_are_measured_under_a_load_from_outside() {
    if !privileged::require() {
        return;
    }
    let lab = Lab::new(LabConfig { queues: 2, ..LabConfig::default() }).unwrap();
    // With GRO, packets that the sender redirects arrive at packet sockets, too.
    lab.far.set_gro(true).unwrap();
    let frame = [&[0xff; 12][..], &[0x88, 0xb5], &[7; 86]].concat();
    // The CPU determines the queue.
    let cpu = affinity::allowed_cpus().unwrap().into_iter().find(|cpu| cpu % 2 == 0);
    let pace = LivePace { count: None, rate: Some(RATE), cpu };
    let start = || LiveSender::new(lab.near.interface(), &[frame])?.start(pace);
    let sending = lab.near.inside(start).unwrap().unwrap();
    let [packet, xdp] = ["packet", "xdp"].map(|kind| format!("{kind}:{}", lab.far.interface()));
    let run = |arguments: &[&str]| -> Value {
        let mut command = Command::new(BENCH);
        command.args(arguments).args(["--quick", "--samples", "1", "--json"]);
        let ended = lab.far.inside(|| output(&mut command)).unwrap();
        assert!(ended.status.success(), "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    };

    let report = run(&["capture", "--port", &packet, "--port", &xdp, "--all"]);
    let rows = report["rows"].as_array().unwrap();
    for (port, mode) in [("packet", "tpacket-v3"), ("xdp", "native")] {
        let of_port = || rows.iter().filter(|row| row["params"]["port"] == port);
        let rates = of_port().filter(|row| row["metric"] == "packets_per_s");
        let rates: Vec<_> = rates.map(|row| row["median"].as_f64().unwrap()).collect();
        // Read and written to memory, by one thread and by one per queue.
        assert_eq!(rates.len(), 4, "{port}: {report}");
        // A reader receives the packets that waited in a ring all at once.
        assert!(rates.iter().all(|rate| *rate > 0.0 && *rate < 10.0 * RATE as f64), "{rates:?}");
        assert!(of_port().all(|row| row["params"]["mode"] == mode && row["params"]["queues"] == 2));
    }
    assert!(rows.iter().all(|row| row["params"]["port"] != "sim"));

    let report = run(&["scaling", "--port", &packet]);
    let rows = report["rows"].as_array().unwrap();
    let rate = |queues: u64| {
        let is_it = |row: &&Value| {
            row["case"] == "rx"
                && row["metric"] == "packets_per_s"
                && row["params"]["queues"] == queues
        };
        let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("{queues} queues: {report}"));
        row["median"].as_f64().unwrap()
    };
    assert!(rate(1) > 0.0);
    // At most one queue per CPU.
    assert!(affinity::allowed_cpus().unwrap().len() < 2 || rate(2) > 0.0);
    assert!(rows.iter().all(|row| row["params"]["port"] == "packet"), "{report}");
    sending.stop().unwrap();

    // Without packets, there is no figure.
    let mut command = Command::new(BENCH);
    command.args(["capture", "--quick", "--samples", "1", "--port", &packet]);
    let ended = lab.far.inside(|| output(&mut command)).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("not one packet was captured"), "{ended:?}");
}
