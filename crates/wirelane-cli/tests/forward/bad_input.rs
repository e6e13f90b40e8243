//! Bad input: one line that names the object, the cause and the next step.

use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::*;

fn refuses(args: &[&str], status: i32, parts: &[&str]) {
    refused(&[&["forward"], args].concat(), status, parts);
}

#[test]
fn ports_that_cannot_be_joined() {
    for (args, status, parts) in [
        (&["lo", "lo"][..], 2, &["interface lo", "both ports"][..]),
        (&["lo", "packet:lo@0"], 2, &["interface lo", "both ports"]),
        (&["sim:2", "sim:x"], 2, &["sim:x", "not a number of queues"]),
        (&["sim:2", "foo:1"], 2, &["no backend 'foo'"]),
        (&["sim:1", "sim:1", "sim:1"], 2, &["sim:1"]),
        (&["no-such-if", "sim:1"], 1, &["no-such-if", "no such interface"]),
        (&["sim:1", "--one-way"], 2, &["--one-way", "only one port"]),
        (&["file:x.pcapng"], 2, &["file:x.pcapng", "cannot send back", "second port"]),
        (&["file:/nowhere/x.pcapng", "sim:1"], 1, &["/nowhere/x.pcapng"]),
        (&["sim:1", "file:/nowhere/x.pcapng"], 1, &["/nowhere/x.pcapng"]),
        (&["sim:1?count=1", "file:-", "--json"], 2, &["--json", "standard output"]),
        (&["sim:2", "sim:2", "--rx-queues", "2"], 2, &["queue 2", "0 to 1"]),
        (&["sim:2", "sim:1", "--rx-queues", "1"], 2, &["queue 1"]),
        (&["sim:2", "sim:2", "--rx-queues", "x"], 2, &["--rx-queues"]),
        (&["sim:1", "-c", "0"], 2, &["-c"]),
        (&["sim:1", "--cpus", "99999"], 2, &["99999"]),
        (&["sim:1", "--gso=sctp"], 2, &["--gso", "write tcp, udp, tcp,udp, on or off"]),
        (&["sim:1?gso=sctp"], 2, &["gso=sctp is not possible; write tcp, udp"]),
        (&["sim:1?gso_max=1"], 2, &["gso_max=1 is not possible; write a number from 576 to 65535"]),
        (&["sim:1?gso=on&gso=off"], 2, &["'gso' appears twice"]),
    ] {
        refuses(args, status, parts);
    }
}

#[test]
fn the_file_that_is_read_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.pcapng");
    let port = format!("file:{}", path.display());
    forward(&["sim:1?count=10", &port]);
    refuses(&[&port, &port], 2, &["it is the input file"]);
    assert_eq!(packets(&path).len(), 10);
}

#[test]
fn privileged_queues_and_privileges() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let pair = VethPair::new(&ns, &ns, 2, 1500);
    let [a, b] = [&pair.a, &pair.b].map(|end| format!("packet:{}", end.interface));
    let run = |args: &[&str]| output(ns.command(WIRELANE).args(["forward"]).args(args));
    let ended = run(&[&a, &b, "--rx-queues", "5"]);
    assert_refused(&ended, 2, &["no RX queue 5", "numbered 0 to 1"]);
    let ended = run(&[&a, &b, "-Z", "no-such-user"]);
    assert_refused(&ended, 2, &["no-such-user"]);
    let setpriv = ["--reuid=65534", "--clear-groups", WIRELANE, "forward", &a, &b];
    let ended = output(ns.command("setpriv").args(setpriv));
    assert_refused(&ended, 1, &["CAP_NET_RAW"]);
}

/// A port that would change packets is refused for forwarding. A capture only gets a note.
#[test]
fn privileged_a_port_that_loses_tags_is_not_forwarded_from() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let pair = VethPair::new(&ns, &ns, 1, 1500);
    let from = format!("xdp:{}?mode=generic", pair.a.interface);
    let run = |args: &[&str]| output(ns.command(WIRELANE).args(args).args(["--all"]));
    let ended = run(&["forward", &from, "sim:1"]);
    let fix = ["VLAN tags", "generic mode", "mode=native", "ethtool -K", "txvlan off", "tags=off"];
    assert_refused(&ended, 1, &[&[pair.a.interface.as_str()], &fix[..]].concat());
    for said in [&from, &format!("{from}&tags=off")] {
        let ended = run(&["capture", said, "--duration", "100ms"]);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert!(ended.stderr.contains("VLAN tags that veth removes"), "{}", ended.stderr);
    }
    let ended = run(&["forward", &format!("{from}&tags=off"), "sim:1", "--duration", "100ms"]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}

/// A file is created as the user that the command has switched to.
#[test]
fn privileged_files_are_not_created_as_root() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    if !privileged::require() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.pcapng");
    let sink = format!("file:{}", path.display());
    let args = ["forward", "-q", "sim:1?count=10", &sink, "-Z", "65534:65534"];
    let ended = output(&mut wirelane(args));
    assert_refused(&ended, 1, &["x.pcapng", "had dropped its privileges", "--keep-privileges"]);
    chown(&directory, Some(65_534), Some(65_534)).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert!(output(&mut wirelane(args)).status.success());
    assert_eq!(path.metadata().unwrap().uid(), 65_534);
    assert_eq!(packets(&path).len(), 10);
}

/// As in `send`: packets of a file would be extra traffic.
#[test]
fn privileged_the_own_ssh_connection_is_not_flooded() {
    if !privileged::require() {
        return;
    }
    let session = ssh::Session::new();
    let [own, other] = [&session.pair.a.interface, &session.pair.b.interface];
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let args = ["capture", "-q", "sim:1?count=1", "-w", file.to_str().unwrap()];
    assert!(output(&mut wirelane(args)).status.success());
    let forward = |source: &str, interface: &str, more: &[&str]| {
        let mut command = session.command();
        output(command.args(["forward", "-q", source, interface]).args(more))
    };
    let source = format!("file:{}", file.display());
    session.assert_refused(&forward(&source, own, &[]));
    session.assert_refused(&forward("sim:1?count=1", own, &["--one-way"]));
    session.assert_refused(&forward(own, "sim:1?count=1", &["-c", "1"]));
    for ended in [forward(&source, own, &["--yes"]), forward(&source, other, &[])] {
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    }
}
