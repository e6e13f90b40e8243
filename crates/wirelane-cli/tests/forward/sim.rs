//! Between simulated ports: no avoidable loss, and everything is counted.

use tempfile::tempdir;

use super::*;

#[test]
fn between_two_ports_both_ways() {
    let summary = forward(&["sim:2?count=100k", "sim:3?count=50k&seed=9&verify=on"]);
    assert_eq!(summary["totals"]["received"], 150_000);
    assert_eq!(summary["totals"]["sent"], 150_000);
    assert_eq!(of_port(&summary, "tx", 1, "packets"), 100_000);
    assert_eq!(of_port(&summary, "tx", 0, "packets"), 50_000);
    assert_eq!(of_port(&summary, "tx", 1, "bytes"), of_port(&summary, "queues", 0, "bytes"));
    // Three queues into two: the third joins the first. Two into three: the third stays idle.
    let rows = summary["tx"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    let row = |port: u64, queue: u64| {
        let of = |row: &&Value| row["port"] == port && row["queue"] == queue;
        number(&rows.iter().find(of).unwrap()["packets"])
    };
    let received = |port: u64, queue: u64| {
        let mut rows = summary["queues"].as_array().unwrap().iter();
        number(&rows.find(|row| row["port"] == port && row["queue"] == queue).unwrap()["packets"])
    };
    for queue in [0, 1] {
        assert_eq!(row(1, queue), received(0, queue));
    }
    assert_eq!((row(1, 2), row(0, 0)), (0, received(1, 0) + received(1, 2)));
    assert_eq!(summary["frames"]["free"], summary["frames"]["pool"]);
}

#[test]
fn the_source_with_an_end_ends_it() {
    let summary = forward(&["sim:2?count=200k", "sim:2"]);
    assert_eq!(of_port(&summary, "queues", 0, "packets"), 200_000);
    assert_eq!(of_port(&summary, "tx", 1, "packets"), 200_000);
    assert!(of_port(&summary, "queues", 1, "packets") > 0);
}

#[test]
fn one_way() {
    let summary = forward(&["sim:2?count=10k", "sim:1", "--one-way"]);
    assert_eq!(summary["totals"]["received"], 10_000);
    assert_eq!(of_port(&summary, "tx", 1, "packets"), 10_000);
    assert!(summary["queues"].as_array().unwrap().iter().all(|queue| queue["port"] == 0));
}

#[test]
fn packets_that_the_host_sends_are_not_forwarded() {
    let spec = "sim:2?count=30k&tx=3&other=5&flows=64";
    let of_class = |class| {
        let stream = stream(spec);
        (0..30_000).filter(|k| stream.packet(*k).class == class).count() as u64
    };
    let (rx, other) = (of_class(wirelane::Class::Rx), of_class(wirelane::Class::Other));
    let all = forward(&[spec, "sim:2", "--one-way"]);
    assert_eq!(number(&all["totals"]["sent"]), rx + other);
    let without = forward(&[spec, "sim:2", "--one-way", "--other", "off"]);
    assert_eq!(number(&without["totals"]["sent"]), rx);
    let one = forward(&[spec, "sim:2", "--one-way", "--other", "off", "--rx-queues", "1"]);
    let queue = |queue: u16| {
        let stream = stream(spec);
        let is = |k: &u64| {
            let packet = stream.packet(*k);
            packet.class == wirelane::Class::Rx && packet.queue == queue
        };
        (0..30_000).filter(is).count() as u64
    };
    assert_eq!(number(&one["totals"]["received"]), queue(1));
}

/// The sink of `verify=on` counts damaged packets as errors.
#[test]
fn one_port_sends_back_with_swapped_addresses() {
    let summary = forward(&["sim:4?count=20k&verify=on&proto=mix&ip=mix"]);
    assert_eq!(summary["totals"]["sent"], 20_000);
    for queue in 0..4 {
        let row = |table: &str| {
            let mut rows = summary[table].as_array().unwrap().iter();
            number(&rows.find(|row| row["queue"] == queue).unwrap()["packets"])
        };
        assert_eq!(row("queues"), row("tx"), "queue {queue}");
    }
}

#[test]
fn addresses_are_swapped_and_nothing_else() {
    let directory = tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (plain, swapped) = (file("plain.pcapng"), file("swapped.pcapng"));
    let spec = "sim:1?count=500&size=imix";
    forward(&[spec, &format!("file:{plain}")]);
    forward(&[spec, &format!("file:{swapped}"), "--swap"]);
    let (plain, swapped) = (packets(plain), packets(swapped));
    assert_eq!((plain.len(), swapped.len()), (500, 500));
    for (a, b) in plain.iter().zip(&swapped) {
        assert_ne!(a.data[..6], a.data[6..12]);
        let expected = [&a.data[6..12], &a.data[..6], &a.data[12..]].concat();
        assert_eq!(b.data, expected);
    }
}

#[test]
fn exactly_as_many_as_asked_for() {
    for ports in [&["sim:4", "sim:3"][..], &["sim:4?rate=1Mpps", "sim:2?rate=500000"], &["sim:2"]] {
        let summary = forward(&[ports, &["-c", "12345"]].concat());
        assert_eq!(summary["totals"]["received"], 12_345, "{ports:?}");
        assert_eq!(summary["totals"]["sent"], 12_345, "{ports:?}");
    }
}

#[test]
fn flows_stay_in_order() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    for queues in [1, 4] {
        let spec = format!("sim:{queues}?count=20k&flows=50");
        let summary = forward(&[&spec, &format!("file:{}", file.display())]);
        assert_eq!(summary["totals"]["sent"], 20_000);
        let numbers = numbers(&stream(&spec), &file);
        assert_flows_in_order(&numbers, 50);
        assert_eq!(numbers.len(), 20_000);
    }
}

#[test]
fn the_time_and_an_interrupt_end_it() {
    // In such a short time, a thread without CPU time sends nothing.
    let sends = |_| number(&forward(&["sim:2", "sim:2", "--duration", "100ms"])["totals"]["sent"]);
    assert!((0..20).map(sends).any(|sent| sent > 0));
    let mut command = wirelane(["forward", "--json", "sim:2?rate=100000", "sim:1"]);
    let mut child = ChildGuard::spawn(&mut command);
    child.wait_until(PATIENCE, |child| child.stderr().contains("and sim:1"));
    child.interrupt();
    let ended = child.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    forwarded(&parse(&ended.stdout));
    assert!(ended.stderr.contains(" sent, 0 filtered, 0 dropped"), "{}", ended.stderr);
}

#[test]
fn threads_go_where_they_are_told() {
    let summary = forward(&["sim:4?count=1000", "sim:4?count=1000", "--cpus", "0"]);
    assert_eq!(summary["totals"]["sent"], 2000);
}

#[test]
fn a_filter_keeps_back_what_does_not_match() {
    let ports = ["sim:2?count=6000&proto=mix&seed=3", "sim:2", "--one-way"];
    let with = |filter: &str| forward(&[&ports[..], &["-f", filter]].concat());
    let (tcp, rest) = (with("tcp"), with("not tcp"));
    let total = |summary: &Value, key: &str| number(&summary["totals"][key]);
    for summary in [&tcp, &rest] {
        assert_eq!(total(summary, "received"), 6000);
        assert_eq!(total(summary, "delivered") + total(summary, "filtered"), 6000);
        assert_eq!(total(summary, "sent"), total(summary, "delivered"));
    }
    assert!(total(&tcp, "sent") > 0 && total(&tcp, "sent") == total(&rest, "filtered"));
}
