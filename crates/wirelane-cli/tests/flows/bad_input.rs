//! An impossible request gets an error on one line.

use crate::shared::refused;

#[test]
fn what_contradicts_itself_is_refused() {
    for (args, parts) in [
        (&["flows"][..], &["port", "none is named"][..]),
        (&["flows", "/none/at/all.pcap"], &["No such file"]),
        (&["flows", "sim:1", "-w", "flows.xml"], &["flows.xml", ".json"]),
        (&["flows", "sim:1", "--json", "-w", "-"], &["--json", "standard output"]),
        (&["flows", "sim:1", "--json", "--format", "csv"], &["--json", "standard output"]),
        (&["flows", "sim:1", "--from", "-5m"], &["--from", "wirelane record"]),
        (&["flows", "sim:1", "--max-flows", "0"], &["--max-flows"]),
        (&["flows", "sim:1", "--format", "xml"], &["xml", "csv"]),
        (&["flows", "sim:1", "--data"], &["--packets"]),
        (&["flows", "sim:1", "--packets", "--idle-timeout", "1s"], &["--idle-timeout", "packets"]),
        (&["flows", "sim:1", "--packets", "--active-timeout", "1s"], &["--active-timeout"]),
        (&["flows", "sim:1", "--packets", "--max-flows", "9"], &["--max-flows", "about flows"]),
        (&["flows", "sim:1", "--packets", "--top", "9"], &["--top", "about flows"]),
        (&["flows", "sim:1", "--packets", "--ipfix", "udp://a:1"], &["--ipfix", "about flows"]),
        (&["flows", "sim:1", "--packets", "--format", "table"], &["--format table"]),
        (&["flows", "sim:1", "--packets", "-w", "a.xml"], &["a.xml", ".arrows"]),
        (&["flows", "sim:1", "--packets", "--json"], &["--json", "standard output"]),
        (&["flows", "sim:1", "--packets", "-w", "a/", "--format", "csv"], &["--format", "-w"]),
        (&["flows", "sim:1", "--packets", "-w", "a.csv", "--size", "1M"], &["--size", "Parquet"]),
        (&["flows", "sim:1", "--packets", "--from", "-5m"], &["--from", "wirelane record"]),
    ] {
        let status = if args.contains(&"/none/at/all.pcap") { 1 } else { 2 };
        refused(args, status, parts);
    }
}
