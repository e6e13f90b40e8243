//! A disk that gets full, and has room again later.

use wirelane_testkit::privileged;

use super::*;
use std::process::Command;

const SCRIPT: &str = r#"
    mount -t tmpfs -o size=64m none "$disk" || exit 99
    head -c 36m /dev/zero >"$disk"/ballast
    "$wirelane" record -q --json "$spec" "$disk"/store --segment 4M --flush 50ms --buffer 8M --min-free 0% $options >"$copies"/summary &
    pid=$!
    stats() { "$wirelane" stats --json $pid 2>/dev/null; }
    until stats | grep -q '"writer":[1-9]'; do sleep 0.1; kill -0 $pid || exit 98; done
    stats >"$copies"/full
    rm "$disk"/ballast
    until stats | grep -q '"trouble":null'; do sleep 0.1; kill -0 $pid || exit 97; done
    sleep 0.3
    kill -INT $pid
    wait $pid
    echo $? >"$copies"/status
    cp -r "$disk"/store "$copies"
"#;

/// Runs [`SCRIPT`], and returns the summary.
fn fill(spec: &str, options: &str, copies: &Path) -> Value {
    let disk = tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT]);
    command.env("disk", disk.path()).env("copies", copies).env("wirelane", WIRELANE);
    let ended = output(command.env("spec", spec).env("options", options));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let read = |name: &str| fs::read_to_string(copies.join(name)).unwrap();
    assert_eq!(read("status"), "0\n", "{}", ended.stderr);
    parse(&read("summary"))
}

#[test]
fn privileged_a_full_disk_costs_what_finds_no_room() {
    if !privileged::require() {
        return;
    }
    for options in ["", "--compress lz4"] {
        let copies = tempdir().unwrap();
        let spec = "sim:2?rate=20kpps&size=1200";
        let summary = fill(spec, options, copies.path());
        let store = copies.path().join("store");
        let written = number(&summary["totals"]["written"]);
        assert!(dropped(&summary, "writer") > 0);
        assert_eq!(dropped(&summary, "writer"), number(&summary["totals"]["dropped"]));
        let (found, _) = extract(&store, 0);
        assert_eq!(found.len() as u64, written);
        // There is a gap, followed by packets.
        let full: Value =
            serde_json::from_str(&fs::read_to_string(copies.path().join("full")).unwrap()).unwrap();
        assert!(number(&full["store"]["packets"]) < written);
        for (queue, numbers) in numbers(spec, &found) {
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "queue {queue}");
        }
        let report = check(&store, 0);
        assert_eq!(number(&report["packets"]), written);
        assert_eq!(extract(&store, 0).0, found);
    }
}
