//! Ready queries answer what their names say.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use wirelane_flow::Half;

use super::{answer, refusal, three_hours};
use crate::made::{HOUR, START, write};

fn rows(words: &[&str], source: &Path) -> Vec<Value> {
    let words = [words, &["--format", "json"]].concat();
    let text = answer(&words, &[source]);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_has_a_name_and_says_what_it_answers() {
    let text = answer(&["--list"], &[]);
    for name in ["top-talkers", "retransmissions", "timeline", "scans"] {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line.len() > name.len() + 10, "{line}");
    }
}

#[test]
fn talkers_come_by_their_bytes_with_bars() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &three_hours());
    let found = rows(&["top-talkers", "--top", "3"], directory.path());
    let expected = |hour: u64| {
        json!({"source": format!("10.{hour}.0.0"), "destination": "192.0.2.1", "flows": 10,
            "packets": 50, "bytes": 3000 + 450 + 1000})
    };
    assert_eq!(found, [0, 1, 2].map(expected));
    let table = answer(&["top-talkers", "--top", "4"], &[directory.path()]);
    let bars: Vec<usize> = table.lines().skip(1).map(|line| line.matches('█').count()).collect();
    assert_eq!(bars, [30, 30, 30, 3], "{table}");
}

#[test]
fn a_span_bounds_what_counts() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &three_hours());
    let span = ["--from", "2026-11-23T03:00:00Z", "--to", "2026-11-23 03:00:50"];
    let found = rows(&[&["top-talkers", "--top", "1"], &span[..]].concat(), directory.path());
    assert_eq!((&found[0]["source"], &found[0]["flows"]), (&json!("10.1.0.0"), &json!(5)));
    let text = answer(&[&["top-talkers", "--explain"], &span[..]].concat(), &[directory.path()]);
    assert!(text.contains(": 1 file, "), "{text}");
}

#[test]
fn a_timeline_has_a_row_for_each_step() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &three_hours());
    let found = rows(&["timeline", "--bucket", "1h"], directory.path());
    let sum: u64 = (0..100).map(|index| 400 + index).sum();
    let hour = |hour: u64| json!({"time": format!("2026-11-23T0{hour}:00:00Z"), "flows": 100, "packets": 500, "bytes": sum});
    assert_eq!(found, [2, 3, 4].map(hour));
    // The default step is five minutes, the first round length above a sixtieth of the span.
    let found = rows(&["timeline"], directory.path());
    assert_eq!(found.len(), 3, "{found:?}");
    let svg = directory.path().join("plot.svg");
    answer(&["timeline", "--svg", svg.to_str().unwrap()], &[directory.path()]);
    let text = fs::read_to_string(&svg).unwrap();
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{text}");
    // About two hours in steps of five minutes, most of them empty.
    assert!(text.matches("<rect ").count() > 20, "{text}");
}

#[test]
fn scans_and_retransmissions_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let mut flows = three_hours();
    // One source asks 50 hosts and gets no answer.
    for host in 0..50 {
        let mut flow = flows[0].clone();
        flow.key.source = [172, 16, 0, 9].into();
        flow.key.destination = [198, 51, 100, host].into();
        flow.forward.start = START - START % HOUR + u64::from(host);
        flow.reverse = Half::default();
        flows.push(flow);
    }
    write(directory.path(), &flows);
    let found = rows(&["scans"], directory.path());
    let expected =
        json!({"source": "172.16.0.9", "flows": 50, "hosts": 50, "ports": 1, "unanswered": 50});
    assert_eq!(found, [expected]);
    let found = rows(&["retransmissions"], directory.path());
    let sources: Vec<_> = found.iter().map(|row| row["source"].as_str().unwrap()).collect();
    assert_eq!(sources, ["10.0.0.7", "10.1.0.7", "10.2.0.7"]);
    assert_eq!((&found[0]["retransmissions"], &found[0]["percent"]), (&json!(2), &json!(40.0)));
}

#[test]
fn what_a_ready_query_needs_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("trace.pcap");
    fs::write(
        &capture,
        [&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0][..], &[0; 8], &[255, 255, 0, 0, 1, 0, 0, 0]]
            .concat(),
    )
    .unwrap();
    let (status, said) = refusal(&["top-talkers"], &[&capture]);
    assert_eq!(status, 2, "{said}");
    for words in
        ["trace.pcap holds packets", "`wirelane flows ", "`wirelane query top-talkers flows/`"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (status, said) = refusal(&["scans"], &[]);
    assert!(status == 2 && said.contains("wirelane flows SOURCE"), "{said}");
    for words in [&["top-talkrs"][..], &["top-talkrs", "flows/"]] {
        let (status, said) = refusal(words, &[]);
        assert!(status == 2 && said.contains("did you mean top-talkers?"), "{said}");
    }
}

/// Longer addresses leave less room for bars, and at last none.
#[test]
fn lines_with_bars_fit_80_columns() {
    let directory = tempfile::tempdir().unwrap();
    let long = "2001:db8:1111:2222:3333:4444:5555:6666";
    for (address, blocks) in [("2001:db8::1", 30), ("2001:db8::1:111:2222", 13), (long, 0)] {
        let mut flow = three_hours()[0].clone();
        flow.key.source = address.parse().unwrap();
        flow.key.destination = address.parse().unwrap();
        let to = directory.path().join(blocks.to_string());
        write(&to, &[flow]);
        let table = answer(&["top-talkers"], &[&to]);
        assert_eq!(table.matches('█').count(), blocks, "{table}");
        let widest = table.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80 || blocks == 0, "{widest}: {table}");
    }
}
