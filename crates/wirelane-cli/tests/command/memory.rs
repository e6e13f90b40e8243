//! Little memory: smaller rings with a note, or a readable refusal, but no killed process and no
//! abort.

use std::path::Path;

use tempfile::tempdir;
use wirelane_testkit::memory::MemoryGroup;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{kernel, privileged};

use super::*;

/// `wirelane ARGS` in a group and a namespace where the cgroup file system is hidden.
fn run_in(group: &MemoryGroup, ns: &Namespace, args: &[&str]) -> Output {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", ns.name(), WIRELANE]).args(args);
    output(&mut group.command(&command))
}

/// `wirelane ARGS` with a limit on its address space.
fn within(ns: Option<&Namespace>, kilobytes: u32, args: &[&str]) -> Output {
    let limit = format!("ulimit -c 0 -v {kilobytes} && exec \"$@\"");
    let mut command = ns.map_or_else(|| Command::new("bash"), |ns| ns.command("bash"));
    output(command.args(["-c", &limit, "bash", WIRELANE]).args(args))
}

/// Returns whether the command succeeded. Otherwise its last line must name the memory that it
/// needed and the memory available.
#[track_caller]
fn assert_in_words(ended: &Output, args: &[&str]) -> bool {
    let said = ended.stderr.as_str();
    assert!(!said.contains("panicked") && !said.contains("allocation"), "{args:?}: {said}");
    match ended.status.code() {
        Some(0) => {
            let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!(summary["frames"]["leaked"], 0, "{summary}");
            true
        }
        Some(1) => {
            let last = said.lines().last().unwrap_or_default();
            assert!(last.starts_with("wirelane: "), "{args:?}: {said}");
            let parts = [" are needed, and ", " leaves ", "Cannot allocate memory (ENOMEM)"];
            assert!(parts.iter().any(|part| last.contains(part)), "{args:?}: {said}");
            false
        }
        _ => panic!("{args:?}: {:?}, {said}", ended.status),
    }
}

const END: [&str; 3] = ["--json", "--duration", "50ms"];

#[test]
fn privileged_a_small_cgroup_means_smaller_rings_and_no_kill() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 4, 1500);
    let ports = ["xdp", "packet"].map(|backend| format!("{backend}:{}", pair.b.interface));
    let [xdp, packet] = ports.each_ref().map(String::as_str);
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    // 3 MB: on a file system in memory, the file counts for the group.
    let source = "sim:4?rate=max&size=1500&count=2000";
    let write = ["capture", source, "-w", file.to_str().unwrap()];
    let commands = [
        &["capture", xdp, "--all"][..],
        &["capture", packet],
        &["capture", "sim:64?rate=1kpps"],
        &write,
        &["forward", xdp, "--all"],
        &["forward", packet],
        &["forward", "sim:4", "sim:4"],
    ];
    for megabytes in [24, 32, 128] {
        let Some(group) = MemoryGroup::require(megabytes << 20) else { return };
        for command in commands {
            if *command == ["forward", xdp, "--all"] && !kernel::require_tags() {
                continue;
            }
            let args = [command, &END].concat();
            let ended = run_in(&group, &far, &args);
            let is_well = assert_in_words(&ended, &args);
            assert!(is_well || megabytes < 32, "{args:?}: {}", ended.stderr);
            if is_well && args[1] == xdp {
                let note = "frames per queue instead of 16384: the memory limit of the cgroup";
                assert!(ended.stderr.contains(note), "{}", ended.stderr);
            }
        }
        // An explicit request is granted or refused.
        let huge = format!("{xdp}?frames=100k");
        let args = [&["capture", &huge, "--all"][..], &END].concat();
        assert!(!assert_in_words(&run_in(&group, &far, &args), &args));
    }
}

#[test]
fn a_limit_of_the_address_space_is_no_abort() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let commands = [
        &["capture", "sim:4?rate=10kpps", "-w", file.to_str().unwrap()][..],
        &["capture", "sim:64?rate=1kpps"],
        &["forward", "sim:4", "sim:4", "--gro"],
    ];
    for kilobytes in [36_000, 48_000, 80_000, 160_000, 400_000] {
        for command in commands {
            let args = [command, &END].concat();
            let is_well = assert_in_words(&within(None, kilobytes, &args), &args);
            assert!(is_well || kilobytes < 400_000, "{args:?}");
        }
    }
}

#[test]
fn privileged_a_limit_of_the_address_space_is_no_abort_with_rings_of_the_kernel() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 4, 1500);
    let ports = ["xdp", "packet"].map(|backend| format!("{backend}:{}", pair.b.interface));
    for kilobytes in [36_000, 48_000, 80_000, 160_000, 400_000] {
        for port in &ports {
            for command in ["capture", "forward"] {
                if command == "forward" && port.starts_with("xdp:") && !kernel::require_tags() {
                    continue;
                }
                let args = [&[command, port, "--all"][..], &END].concat();
                let is_well = assert_in_words(&within(Some(&far), kilobytes, &args), &args);
                assert!(is_well || kilobytes < 160_000, "{kilobytes} {args:?}");
            }
        }
    }
}

/// A capture file of `flows` flows with one packet each, from sources in `net`.
fn many_flows(path: &Path, net: u8, flows: u32) {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    file.extend([0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0]);
    for flow in 0..flows {
        let [_, a, b, c] = flow.to_be_bytes();
        let (seconds, len) = (1_700_000_000 + flow / 100_000, 42_u32);
        for word in [seconds, flow % 100_000, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        file.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, net, a, b, c, 192, 168, 0, 1]);
        file.extend([4, 0, 0, 53, 0, 8, 0, 0]);
    }
    std::fs::write(path, file).unwrap();
}

/// `wirelane ARGS` in the group.
fn within_group(group: &MemoryGroup, args: &[&str]) -> Output {
    let mut command = Command::new(WIRELANE);
    output(&mut group.command(command.args(args)))
}

#[test]
fn privileged_compression_fits_a_small_cgroup() {
    if !privileged::require() {
        return;
    }
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (from, to) = (path("from.pcapng"), path("to.pcapng.zst"));
    let source = "sim:1?rate=max&size=1500&count=4000";
    assert!(output(&mut wirelane(["capture", source, "-w", &from, "-q"])).status.success());
    let zstd = ["--compress", "zstd:19,threads=4"];
    let store = path("store");
    let commands: [&[&str]; 3] = [
        &["convert", &from, &to],
        &["capture", "sim:2?rate=10kpps", "-w", &to, "--duration", "500ms"],
        &[
            "record",
            "sim:2?rate=10kpps",
            &store,
            "--duration",
            "500ms",
            "--max-bytes",
            "100M",
            "--segment",
            "4M",
        ],
    ];
    for (megabytes, fewest) in [(128, 3), (64, 2), (8, 0)] {
        let Some(group) = MemoryGroup::require(megabytes << 20) else { return };
        let mut done = 0;
        for command in commands {
            let ended = within_group(&group, &[command, &zstd].concat());
            let said = ended.stderr.as_str();
            if ended.status.success() {
                done += 1;
                assert!(said.contains(": the memory limit of the cgroup "), "{command:?}: {said}");
            } else {
                // An error message instead of a killed process.
                assert_eq!(ended.status.code(), Some(1), "{megabytes} {command:?}: {said}");
                assert!(
                    said.lines().last().unwrap_or_default().starts_with("wirelane: "),
                    "{said}"
                );
                assert!(said.contains("the memory limit of the cgroup "), "{said}");
            }
        }
        assert!(done >= fewest, "{megabytes}: {done}");
    }
    assert_eq!(
        output(&mut wirelane(["convert", &to, &path("plain.pcapng")])).status.code(),
        Some(0)
    );
}

#[test]
fn privileged_flow_tables_fit_a_small_cgroup() {
    if !privileged::require() {
        return;
    }
    let directory = tempdir().unwrap();
    let [one, other] = [10, 11].map(|net| {
        let path = directory.path().join(format!("{net}.pcap"));
        many_flows(&path, net, 150_000);
        path.to_str().unwrap().to_owned()
    });
    let live = "sim:4?rate=max&size=64&flows=65536";
    for (megabytes, args, packets) in [
        (128, &["flows", &one, &other][..], Some(300_000)),
        (32, &["flows", "-r", &one], Some(150_000)),
        (64, &["flows", live, "--duration", "1s"], None),
        (9, &["flows", "-r", &one], None),
    ] {
        let Some(group) = MemoryGroup::require(megabytes << 20) else { return };
        let flows = directory.path().join("flows.json");
        let asked = [args, &["--json", "-w", flows.to_str().unwrap()]].concat();
        let ended = within_group(&group, &asked);
        let said = ended.stderr.as_str();
        if megabytes < 10 {
            assert_eq!(ended.status.code(), Some(1), "{said}");
            let last = said.lines().last().unwrap_or_default();
            assert!(last.contains("KiB are needed, and the memory limit of the cgroup "), "{said}");
            continue;
        }
        assert!(ended.status.success(), "{megabytes} {args:?}: {:?} {said}", ended.status);
        let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
        let notes = summary["ports"][0]["notes"].to_string();
        assert!(
            notes.contains("flows at one time instead of 1000000: the memory limit"),
            "{notes}"
        );
        let counted = summary["flows"]["packets"].as_u64().unwrap();
        assert!(packets.is_none_or(|packets| packets == counted), "{args:?}: {counted}");
    }
}
