//! What cannot be done is said in a line.

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
    ] {
        let status = if args.contains(&"/none/at/all.pcap") { 1 } else { 2 };
        refused(args, status, parts);
    }
}
