use super::*;

fn document(elapsed_s: f64, packets: u64, frames: u64) -> Value {
    let dropped =
        json!({ "kernel": null, "ring_full": 0, "writer": 0, "bad_header": 0, "tx_full": 3 });
    let class = json!({ "class": "tcp4", "super_frames": frames, "segments": 44 * frames,
        "bytes": 1000 * frames, "smallest_frame": 60, "largest_frame": 1514, "smallest_mss": 6,
        "largest_mss": 1460 });
    let classes = if frames > 0 { vec![class.clone()] } else { Vec::new() };
    let pool =
        json!({ "pool": 8, "free": 5, "fill": 0, "rx": 0, "held": 3, "tx": 0, "completion": 0 });
    json!({
        "schema": "wirelane.stats/1", "command": "forward", "version": "0.1.0", "pid": 7, "elapsed_s": elapsed_s,
        "ports": [
            { "spec": "tap:t0", "mode": "tap", "interface": "t0", "frames": pool, "selected":
              { "enabled": true, "rx": "all", "tx": "none", "other": true, "filter": "a\u{1b}b" } },
            { "spec": "sim:1", "mode": "sim", "interface": null, "frames": pool, "selected": null,
              "offload": { "gso": "tcp", "gro": "off", "gso_max": 9000 } },
        ],
        "queues": [
            { "port": 0, "queue": 1, "class": "rx", "received": null, "packets": packets, "bytes": 100 * packets,
              "filtered": 0, "merged": 6, "dropped": dropped },
            { "port": 0, "queue": 2, "class": "rx", "received": 0, "packets": 0, "bytes": 0, "merged": 0, "filtered": 0,
              "dropped": { "kernel": 0, "ring_full": 0, "writer": 0, "bad_header": 0, "tx_full": 0 } },
        ],
        "tx": [{ "port": 1, "queue": 0, "packets": 44, "bytes": 9, "errors": 0,
            "unfinished": 0, "wrong_length": 0, "refused": 0, "unsent": 0, "copied": 0, "stalls": 0 }],
        "gso": [{ "port": 1, "queue": 0, "classes": classes, "bypassed": [],
                  "refused": [{ "reason": "above_mtu", "frames": 2 }] }],
        "gro": [{ "port": 0, "queue": null, "classes": [class], "flushed": [], "alone": [
                  { "reason": "not_tcp_or_udp", "frames": 5 }] }],
        "totals": { "received": null, "merged": 6, "delivered": packets, "dropped": null, "sent": 44, "written": null },
        "cpu": { "user_s": 0.5, "system_s": 0.25 },
    })
}

#[test]
fn one_reading_in_words() {
    let text = StatisticsReading { now: &document(2.0, 1000, 1), before: None, width: None }.text();
    let expected = "\
process 7: wirelane forward 0.1.0, 2.000 s, CPU 0.50 s user, 0.25 s system
port 0: tap:t0, tap, rx all tx none other on filter a?b
port 1: sim:1, sim, gso tcp gro off gso_max 9000
unknown received (6 merged into others), 1,000 delivered, unknown dropped, 44 sent

received (packets of each receiving queue; kernel, ring_full and the columns behind them are drops):
queue    received  merged  delivered    bytes  filtered   kernel  ring_full  tx_full
t0 rx 1   unknown       6      1,000  100,000         0  unknown          0        3

sent (frames of each sending queue; the columns behind errors are the reasons):
queue       sent  bytes  errors
sim:1 tx 0    44      9       0

cut (long frames that became segments, by kind):
queue            frames  segments  bytes  smallest  largest  smallest_mss  largest_mss
sim:1 tx 0 tcp4       1        44  1,000        60    1,514             6        1,460

not sent (frames that could not be cut, by reason):
queue                 refused
sim:1 tx 0 above_mtu        2

merged (packets that became long frames, by kind):
queue          packets  frames  bytes  smallest  largest  smallest_mss  largest_mss
t0 other tcp4       44       1  1,000        60    1,514             6        1,460

not merged (packets that stayed alone, by reason):
queue                    packets
t0 other not_tcp_or_udp        5

frames  pool  free  fill  rx  held  tx  completion
t0         8     5     0   0     3   0           0
sim:1      8     5     0   0     3   0           0
";
    assert_eq!(text, expected);
}

#[test]
fn rates_between_two_readings() {
    let (before, now) = (document(2.0, 1000, 0), document(4.0, 5000, 10));
    let statistics = StatisticsReading { now: &now, before: Some(&before), width: None };
    let text = statistics.text();
    assert!(text.contains("per second, of the last 2.000 s:\n"), "{text}");
    assert!(text.contains("\nt0 rx 1   unknown       0     2.00 k  1.60 M "), "{text}");
    assert!(text.contains("\nsim:1 tx 0 tcp4       5       220  40.0 k "), "{text}");
    assert!(!text.contains("pool"), "{text}");
    let json = statistics.json();
    assert_eq!((&json["pid"], &json["interval_s"]), (&json!(7), &json!(2.0)));
    let row = json!({ "port": 0, "queue": 1, "class": "rx", "received_per_s": null, "merged_per_s": 0.0, "delivered_per_s": 2000.0,
        "bits_per_s": 1.6e6, "filtered_per_s": 0.0, "kernel_per_s": null, "ring_full_per_s": 0.0,
        "writer_per_s": 0.0, "tx_full_per_s": 0.0, "bad_header_per_s": 0.0 });
    assert_eq!(json["rates"]["received"][0], row);
    assert_eq!(json["rates"]["cut"][0]["segments_per_s"], 220.0);
    assert!(
        StatisticsReading { now: &now, before: None, width: None }.json().get("rates").is_none()
    );
}

#[test]
fn tables_fit_the_terminal() {
    let mut now = document(2.0, 123_456_789, 0);
    now["command"] = json!("capture");
    now["queues"][0]["dropped"]["kernel"] = json!(0);
    now["queues"][1]["packets"] = json!(1_000_000_000);
    let text = |width| StatisticsReading { now: &now, before: None, width }.text();
    assert!(text(None).contains(" 123,456,789 "), "{}", text(None));
    assert!(text(None).contains("\ntotal  ") && text(None).contains(" 1,123,456,789 "));
    assert!(text(None).contains("  writer  "), "{}", text(None));
    for width in [80, 60] {
        let text = text(Some(width));
        let table = text.split("\nreceived ").nth(1).unwrap().split("\n\n").next().unwrap();
        assert!(table.lines().all(|line| line.chars().count() <= width), "{table}");
        assert!(table.contains(" 1.12 G "), "{table}");
    }
}

/// Packets that shared rings have lost, or that their filter has rejected, count in one row and in
/// the total.
#[test]
fn interfaces_of_one_port_have_rows_of_their_own() {
    let row = |interface: &str, packets: u64, kernel: Option<u64>| {
        json!({ "port": 0, "interface": interface, "queue": 0, "class": "rx", "received": packets,
            "packets": packets, "bytes": packets, "filtered": kernel, "merged": 0,
            "dropped": { "kernel": kernel, "ring_full": kernel, "writer": 0, "bad_header": 0, "tx_full": 0 } })
    };
    let rows =
        [row("eth0", 1, None), row("eth1", 2, None), row("lo", 0, None), row("any", 0, Some(7))];
    let now = json!({ "command": "capture", "queues": rows });
    let text = StatisticsReading { now: &now, before: None, width: None }.text();
    let expected = "\nqueue      received  delivered  bytes  filtered  kernel  ring_full  writer
eth0 rx 0         1          1      1         -       -          -       0
eth1 rx 0         2          2      2         -       -          -       0
any rx 0          0          0      0         7       7          7       0
total             3          3      3         7       7          7       0\n";
    assert!(text.contains(expected), "{text}");

    // Rejected packets are not counted.
    let mut row = row("eth0", 1, None);
    row["received"] = Value::Null;
    let now = json!({ "command": "capture", "queues": [row] });
    let text = StatisticsReading { now: &now, before: None, width: None }.text();
    assert!(text.contains("eth0 rx 0   unknown          1      1   unknown       -"), "{text}");
}

/// Another version may omit any field.
#[test]
fn what_is_not_there_is_unknown() {
    for document in [json!({}), json!(null), json!([1]), json!({ "queues": [{}], "ports": {} })] {
        let text =
            StatisticsReading { now: &document, before: Some(&document), width: None }.text();
        assert!(text.starts_with("process null: wirelane unknown unknown"), "{text}");
        StatisticsReading { now: &document, before: Some(&document), width: None }.json();
        StatisticsReading { now: &document, before: None, width: None }.text();
    }
}
