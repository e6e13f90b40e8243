//! Rows of packets from live ports.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt16Type;
use serde_json::Value;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::process::ChildGuard;
use wirelane_testkit::veth::VethPair;

use super::{assert_conserved, count, flows, rows, summary, text};
use crate::flows::wirelane;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn the_packets_of_a_port_are_rows_in_order_of_time() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("rows/");
    let ended = flows(&["sim:4?count=20000&flows=200&seed=3", "--json", "-w", text(&to)]);
    let summary = summary(&ended);
    assert_eq!((&summary["totals"]["received"], count(&rows(&to))), (&20_000.into(), 20_000));
    for batch in rows(&to) {
        let classes = batch.column_by_name("class").unwrap();
        assert_eq!(classes.null_count(), 0);
    }
}

/// UDP datagrams on several queues, through the kernel.
#[test]
fn privileged_each_datagram_of_a_veth_pair_is_a_row() {
    if !privileged::require() {
        return;
    }
    const COUNT: u16 = 2000;
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("rows/");
    let (sender, receiver) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&sender, &receiver, 4, 1500);
    let mut command = receiver.command(wirelane().get_program());
    command.args(["flows", &pair.b.interface, "--packets", "--json", "--keep-privileges", "-w"]);
    let mut running = ChildGuard::spawn(command.arg(&to).args(["udp", "dst", "port", "9000"]));
    running.wait_until(LIMIT, |it| it.stderr().contains("packets of"));
    let address = pair.b.address;
    let (_held, socket) = (
        receiver.inside(|| UdpSocket::bind("0.0.0.0:9000").unwrap()),
        sender.inside(|| UdpSocket::bind("0.0.0.0:0").unwrap()),
    );
    for number in 0..COUNT {
        let port = if number % 10 == 0 { 9001 } else { 9000 };
        let to = SocketAddr::new(address.into(), port);
        // Longer than the snap length.
        let sent = socket.send_to(&vec![0; 400 + usize::from(number % 500)], to);
        // The kernel may report that the other port has no listener.
        assert!(sent.is_ok() || number > 0);
        if number % 64 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    running.interrupt();
    let ended = running.wait(LIMIT);
    assert!(ended.status.success(), "{}", ended.stderr);
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_conserved(&summary);
    let rows = rows(&to);
    assert_eq!(count(&rows), usize::from(COUNT) * 9 / 10, "{summary}");
    for batch in &rows {
        let number = |name: &str| batch.column_by_name(name).unwrap();
        let ports = number("destination_port").as_primitive::<UInt16Type>();
        assert!(ports.iter().all(|port| port == Some(9000)));
        let (captured, length) = (number("captured"), number("length"));
        assert!(captured != length, "only headers are captured");
    }
}
