//! An interface that is removed and created again.

use tempfile::tempdir;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::{packets as frames, privileged};

use super::*;

#[test]
fn privileged_with_wait_a_recording_outlives_its_interface() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let directory = tempdir().unwrap();
    let port = format!("packet:wl-rec{QUICK}");
    let store = directory.path().to_str().unwrap();
    let mut tap = MultiQueueTap::new(&ns, "wl-rec", 2);
    let args = [&port, store, "--wait", "--tx-queues", "none", "--other", "off"];
    let mut recording = Running::start(Some(&ns), &args);
    for round in 1..=3_u64 {
        // Packets are lost until the recording has found the new interface.
        let pid = recording.pid();
        recording.child.wait_until(PATIENCE, |_| {
            tap.write(0, &frames::raw(round));
            let said = output(&mut wirelane(["stats", "--json", &pid]));
            let stats: Value = serde_json::from_str(&said.stdout).unwrap();
            number(&stats["totals"]["delivered"]) >= round
        });
        drop(tap);
        tap = MultiQueueTap::new(&ns, "wl-rec", 2);
    }
    let summary = recording.finish();
    assert_eq!(summary["totals"]["written"], summary["totals"]["delivered"]);
    assert_eq!(stored(directory.path()).len() as u64, number(&summary["totals"]["written"]));
}
