//! `kill -9` at a random moment.

use std::thread;
use std::time::Duration;

use wirelane_testkit::oracle::Random;
use wirelane_testkit::tools;
use wirelane_testkit::tshark::capinfos;

use super::*;

const SPEC: &str = "sim:2?rate=30kpps&size=1200&flows=100";

/// After a kill at any moment, all packets that were on the disk are found, before and after the
/// repair. `WIRELANE_KILLS` is the number of kills.
#[test]
fn a_killed_recorder_loses_nothing_that_was_on_the_disk() {
    let kills = std::env::var("WIRELANE_KILLS").ok().and_then(|text| text.parse().ok());
    let mut random = Random::new(u64::from(std::process::id()));
    let (mut done, mut in_vain) = (0, 0);
    while done < kills.unwrap_or(6) {
        let compress = ["none", "lz4", "zstd"][done % 3];
        let moment = Duration::from_micros(random.below(600_000));
        eprintln!("kill {done}: {compress}, after {moment:?}");
        if one(compress, moment) {
            done += 1;
        } else {
            in_vain += 1;
            assert!(in_vain < 20, "the machine is too busy to record {SPEC}");
        }
    }
}

/// False if packets were dropped before the kill, so that the expected packets are unknown.
fn one(compress: &str, moment: Duration) -> bool {
    let directory = tempdir().unwrap();
    let store = directory.path().join("store");
    // Small segments: a kill often hits the end of one.
    let options = ["--segment", "4M", "--flush", "50ms", "--compress", compress];
    let recorder = Recorder::start(SPEC, &store, &options);
    thread::sleep(moment);
    let stats = recorder.stats();
    recorder.kill();
    // A segment that is being written is no damage.
    let (at_once, _) = extract(&store, 0);
    settle(&store);
    if number(&stats["totals"]["dropped"]) > 0 {
        return false;
    }
    let written = number(&stats["store"]["packets"]);

    let (found, _) = extract(&store, 0);
    eprintln!("  {written} packets were written, {} are found", found.len());
    for found in [&at_once, &found] {
        assert!(found.len() as u64 >= written, "{} of {written}", found.len());
    }
    assert_first_ones(SPEC, &found);

    let report = check(&store, 0);
    assert_eq!(number(&report["packets"]), found.len() as u64);
    let (mended, _) = extract(&store, 0);
    assert_eq!(mended, found);
    let mut count = 0;
    for segment in segments(&store) {
        assert!(!segment.to_string_lossy().ends_with(".part"), "{segment:?}");
        assert!(index_of(&segment).exists());
        count += packets(&segment).len();
        if compress == "none" && tools::require("capinfos") {
            assert_eq!(capinfos(&segment).packets, packets(&segment).len() as u64);
        }
    }
    assert_eq!(count, found.len());
    assert_eq!(check(&store, 0)["mended"], serde_json::json!([]));
    true
}

/// The next recorder repairs the store, and continues after its last packet.
#[test]
fn the_next_recorder_goes_on() {
    let directory = tempdir().unwrap();
    let store = directory.path().join("store");
    let options = ["--segment", "4M", "--flush", "50ms", "--json"];
    let recorder = Recorder::start(SPEC, &store, &options);
    while number(&recorder.stats()["store"]["packets"]) < 3000 {
        thread::sleep(Duration::from_millis(20));
    }
    recorder.kill();
    settle(&store);
    let (first, _) = extract(&store, 0);
    let recorder = Recorder::start(SPEC, &store, &options);
    while number(&recorder.stats()["store"]["packets"]) < 3000 {
        thread::sleep(Duration::from_millis(20));
    }
    let ended = recorder.end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let written = number(&parse(&ended.stdout)["totals"]["written"]);
    let (both, _) = extract(&store, 0);
    assert_eq!(both[..first.len()], first);
    assert_eq!((both.len() - first.len()) as u64, written);
    assert_first_ones(SPEC, &both[first.len()..]);
    assert_eq!(check(&store, 0)["mended"], serde_json::json!([]));
}
