//! A full disk: the capture fails, names the number of safe packets, and the file holds exactly
//! these.

use std::fs;

use tempfile::tempdir;
use wirelane_testkit::files::below;
use wirelane_testkit::process::unfolded;
use wirelane_testkit::tshark::check_clean;
use wirelane_testkit::{privileged, tools};

use super::*;

/// Runs `wirelane capture ARGS` with `$disk` as a private file system of this size, then copies its
/// files to `copies`.
fn on_a_small_disk(size: &str, args: &str, copies: &Path) -> Output {
    let script = "
        mount -t tmpfs -o size=$size none \"$disk\" || exit 99
        eval \"$wirelane\" capture -q --json $args
        status=$?
        cp \"$disk\"/* \"$copies\" || exit 98
        exit $status";
    let disk = tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    command.env("disk", disk.path()).env("copies", copies);
    output(command.env("wirelane", WIRELANE).env("args", args).env("size", size))
}

/// Status 1, one line that names file, cause and next step; the counters balance; returns the
/// summary and the number of packets that the line calls safe.
#[track_caller]
fn assert_failed(ended: &Output, name: &str) -> (Value, u64) {
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    for part in [name, "ENOSPC", "; free space"] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    let summary = parse(&ended.stdout);
    assert_eq!(summary["errors"].as_array().unwrap().len(), 1);
    // … cannot write: No space left on device (ENOSPC); N packets are safely in the file; …
    let (before, _) = ended.stderr.split_once(" packets are safely in the file").unwrap();
    let safe = before.rsplit(' ').next().unwrap().parse().unwrap();
    (summary, safe)
}

#[test]
fn privileged_everything_until_then_is_in_the_file() {
    if !privileged::require() {
        return;
    }
    // A paced source with frames for seconds.
    for spec in ["sim:2?size=imix", "sim:2?rate=4kpps&size=imix&frames=16384"] {
        let copies = tempdir().unwrap();
        let args = format!("'{spec}' --duration 60s -w \"$disk\"/x.pcapng");
        let ended = on_a_small_disk("1m", &args, copies.path());
        let (summary, safe) = assert_failed(&ended, "x.pcapng");
        let file = copies.path().join("x.pcapng");
        let packets = packets(&file);
        assert!(safe > 1000, "{safe}");
        assert_eq!(packets.len() as u64, safe);
        assert_eq!(summary["totals"]["written"], safe);
        assert_eq!(summary["totals"]["delivered"], safe);
        assert_eq!(dropped(&summary, "writer"), number(&summary["totals"]["dropped"]));
        assert!(dropped(&summary, "writer") > 0);
        assert!(is_in_order(&packets));
        let numbers = predicted_numbers(&stream(spec), &packets);
        if spec.contains("rate") {
            assert!(numbers.into_iter().eq(0..safe), "the first ones");
        }
        if tools::require("tshark") {
            assert_eq!(check_clean(&file), safe);
        }
    }
}

/// Packets that are still in memory when the capture ends may not fit: they are counted as dropped.
#[test]
fn privileged_the_last_packets_do_not_fit() {
    if !privileged::require() {
        return;
    }
    let copies = tempdir().unwrap();
    // 838 kB in 1032 bytes per packet.
    let args = "'sim:1?count=812&size=1000' -w \"$disk\"/x.pcapng";
    let ended = on_a_small_disk("800k", args, copies.path());
    let (summary, safe) = assert_failed(&ended, "x.pcapng");
    assert!((700..812).contains(&safe), "{safe}");
    assert_eq!(packets(copies.path().join("x.pcapng")).len() as u64, safe);
    assert_eq!(summary["totals"]["delivered"], safe);
    assert_eq!(summary["totals"]["received"], 812);
    assert_eq!(dropped(&summary, "writer"), 812 - safe);
}

/// With `-W` the oldest files make room, and the capture continues.
#[test]
fn privileged_deleting_the_oldest_keeps_going() {
    if !privileged::require() {
        return;
    }
    let copies = tempdir().unwrap();
    let spec = "sim:2?count=20000&size=imix";
    let args = format!("'{spec}' -w \"$disk\"/x.pcapng -C 256k -W 3");
    let summary = summary(&on_a_small_disk("1m", &args, copies.path()));
    assert_eq!(summary["totals"]["written"], 20_000);
    assert_eq!(fs::read_dir(&copies).unwrap().count(), 3);
}

/// The files before the failed one stay unchanged.
#[test]
fn privileged_files_of_a_rotation_stay_whole() {
    if !privileged::require() {
        return;
    }
    let copies = tempdir().unwrap();
    let spec = "sim:2?count=20000&size=imix";
    let args = format!("'{spec}' -w \"$disk\"/x.pcapng -C 256k");
    let ended = on_a_small_disk("1m", &args, copies.path());
    let (summary, _) = assert_failed(&ended, "x_0000");
    let files = below(copies.path());
    assert!(files.len() >= 3, "{files:?}");
    let held: usize = files
        .iter()
        .filter(|file| file.metadata().unwrap().len() > 0)
        .map(|file| packets(file).len())
        .sum();
    assert_eq!(summary["totals"]["written"], held);
}

/// A file size limit is an error like a full disk: the command reports it, and the file holds all
/// earlier packets, also on standard output.
#[test]
fn a_limit_of_the_size_is_like_a_full_disk() {
    let directory = tempdir().unwrap();
    let spec = "sim:2?size=imix";
    for suffix in ["pcapng", "pcap", "pcapng.gz", "pcapng.lz4", "pcapng.zst"] {
        // Wireshark 4.0 reads only the first frame of such a file.
        let several_frames = suffix.ends_with("lz4") || suffix.ends_with("zst");
        let limit = if several_frames { "--fsize=500000" } else { "--fsize=3000000" };
        for to_stdout in [false, true] {
            if to_stdout && suffix != "pcapng" {
                continue;
            }
            let file = directory.path().join(format!("x.{suffix}"));
            let mut command = Command::new("prlimit");
            command.args([limit, WIRELANE, "capture", "-q", spec, "-w"]);
            let ended = if to_stdout {
                let out = fs::File::create(&file).unwrap();
                let ended = command.arg("-").stdout(out).stderr(std::process::Stdio::piped());
                let ended = ended.output().unwrap();
                let stderr = unfolded(&ended.stderr);
                Output { status: ended.status, stdout: String::new(), stderr }
            } else {
                output(command.arg(&file).arg("--json"))
            };
            assert_refused(&ended, 1, &["EFBIG", "; raise the file size limit"]);
            let (before, _) = ended.stderr.split_once(" packets are safely in the file").unwrap();
            let safe: u64 = before.rsplit(' ').next().unwrap().parse().unwrap();
            assert!(safe > 1000, "{safe}");
            assert_eq!(packets(&file).len() as u64, safe, "{suffix}");
            if !to_stdout {
                let summary = parse(&ended.stdout);
                assert_eq!(summary["totals"]["written"], safe);
                assert_eq!(summary["totals"]["delivered"], safe);
            }
            if suffix.starts_with("pcapng") && !several_frames && tools::require("tshark") {
                assert_eq!(check_clean(&file), safe);
            }
        }
    }
}
