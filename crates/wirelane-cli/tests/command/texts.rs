//! Messages about ports: what a user needs, once, and in the units of options.

use tempfile::tempdir;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{privileged, process};

use super::*;

#[test]
fn of_a_file_that_is_read_only_its_name_is_said() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("td.pcap");
    let name = file.to_str().unwrap();
    capture(&["sim:1?count=10", "-w", name]);
    let store = directory.path().join("store");
    let said = format!("reading {name}\n");
    let port = format!("file:{name}");
    for args in [
        &["capture", "-r", name, "-w", "/dev/null"][..],
        &["count", name],
        &["flows", name],
        &["record", &port, store.to_str().unwrap()],
    ] {
        let ended = output(&mut wirelane(args));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert!(ended.stderr.starts_with(&said), "{args:?}: {}", ended.stderr);
    }
    let pipe = format!("cat {name} | '{WIRELANE}' capture -r - -w /dev/null");
    let ended = output(Command::new("sh").args(["-c", &pipe]));
    assert!(ended.stderr.starts_with("reading standard input\n"), "{}", ended.stderr);
    let ended = output(&mut wirelane(["forward", &port, "sim:1"]));
    assert!(ended.stderr.starts_with(&format!("forwarding from {name}\n")), "{}", ended.stderr);
}

#[test]
fn sizes_are_those_that_options_take() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("t.pcap");
    let args = ["capture", "sim:1?count=1000&size=1500", "-w", file.to_str().unwrap()];
    let ended = output(&mut wirelane(args));
    let bytes = file.metadata().unwrap().len();
    assert_eq!(bytes >> 10, 1480, "the file has the expected size");
    assert!(ended.stderr.contains("t.pcap (1 file, 1.45M)\n"), "{}", ended.stderr);
}

/// `| head` is a clean end without advice on losses.
#[test]
fn a_reader_that_leaves_gets_no_advice() {
    for write in ["", "-w -"] {
        let pipe = format!("'{WIRELANE}' capture -n 'sim:2?rate=max' {write} | head -c 2000 >&2");
        let ended = output(Command::new("sh").args(["-c", &pipe]));
        let (_, said) = ended.stderr.rsplit_once("captured, ").unwrap();
        for text in ["not printed", "try "] {
            assert!(!said.contains(text), "'{write}': {said}");
        }
    }
}

#[test]
fn statistics_say_what_their_columns_are() {
    let help = output(&mut wirelane(["stats", "--help"])).stdout;
    for column in ["delivered", "filtered", "kernel", "ring_full", "writer", "backlog", "stalls"] {
        assert!(help.contains(&format!("  {column}")), "{column}: {help}");
    }
    let running = Running::start(None, &["sim:1?rate=1kpps"]);
    let pid = running.child.id().to_string();
    let told = output(&mut wirelane(["stats", &pid])).stdout;
    assert!(told.contains("\nreceived (packets of each receiving queue; "), "{told}");
    running.finish();
}

/// The note on queues is printed once, for ports with several queues. The note on GRO is for
/// interfaces that merge packets, unlike a loopback.
#[test]
fn privileged_notes_on_the_interface_are_there_where_they_matter() {
    const MARK: &str = "veth does not mark packets";
    const GRO: &str = "GRO is on";
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let notes = |ports: &[&str]| {
        let mut command = near.command(WIRELANE);
        command.args(["capture", "--duration", "300ms", "-w", "/dev/null"]).args(ports);
        let said = output(&mut command).stderr;
        [MARK, GRO].map(|text| said.matches(text).count())
    };
    process::run(near.command("ip").args(["link", "set", "lo", "up"]));
    assert_eq!(notes(&["lo"]), [0, 0]);
    let one = VethPair::new(&near, &far, 1, 1500);
    assert_eq!(notes(&[&one.a.interface])[0], 0);
    let two = VethPair::new(&near, &far, 2, 1500);
    two.a.ethtool(&["-K", &two.a.interface, "gro", "on"]);
    assert_eq!(notes(&[&two.a.interface]), [1, 1]);
    let other = VethPair::new(&near, &far, 2, 1500);
    other.a.ethtool(&["-K", &other.a.interface, "gro", "on"]);
    assert_eq!(notes(&["-i", &two.a.interface, "-i", &other.a.interface]), [1, 1]);
}
