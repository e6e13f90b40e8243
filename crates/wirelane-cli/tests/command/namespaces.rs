//! `--netns`: every command that opens ports opens them in another network namespace.

use tempfile::tempdir;
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{privileged, tools};

use super::*;

/// The commands that take the name of a port, with the option.
#[test]
fn every_command_with_ports_has_the_option() {
    let mut found = Vec::new();
    for (name, help) in super::live::commands() {
        let has_ports = help.contains("The port") || help.contains("packet:eth0");
        let is_given = help.contains("--netns <NAME|PID>");
        assert!(is_given || !has_ports || name == "ports", "{name}: {help}");
        if is_given {
            found.push(name);
        }
    }
    let expected =
        ["capture", "count", "exec", "flows", "forward", "ndr", "queues", "record", "send"];
    assert_eq!(found, expected);
}

/// Each command reaches interfaces that exist only in the other namespace.
#[test]
fn privileged_every_command_reaches_the_other_namespace() {
    if !privileged::require() {
        return;
    }
    let (ns, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&ns, &far, 1, 1500);
    let back = VethPair::new(&ns, &ns, 1, 1500);
    let (near, first, second) = (&pair.a.interface, &back.a.interface, &back.b.interface);
    let directory = tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (store, output_file, copy) = (file("store"), file("a.pcapng"), file("b.pcapng"));
    let path = ns.path();
    let run = |args: &[&str]| {
        let mut command = wirelane(&args[..1]);
        command.arg("--netns").arg(&path).args(&args[1..]);
        let ended = output(&mut command);
        assert_eq!(ended.status.code(), Some(0), "{args:?}: {}", ended.stderr);
        ended.stdout + &ended.stderr
    };
    let short = ["--duration", "300ms"];
    let with = |args: &[&str]| run(&[args, &short].concat());
    with(&["capture", near, "-w", &output_file]);
    with(&["count", near]);
    with(&["flows", near]);
    with(&["record", near, &store]);
    with(&["record", "any", &file("any")]);
    with(&["forward", near, &format!("file:{copy}")]);
    assert!(run(&["queues", near]).contains(&format!("interface  {near} ")));
    let sent = run(&["send", near, "--packet", "ipv4 udp", "-c", "10", "--engine", "sockets"]);
    assert!(sent.contains("10 sent"), "{sent}");
    run(&["ndr", first, second, "--quick", "--max-rate", "1kpps", "--one-way", "-q"]);
    if tools::require("tcpdump") {
        let library = Library::Ours.file();
        let listed = run(&["exec", "--library", library.to_str().unwrap(), "--", "tcpdump", "-D"]);
        assert!(listed.contains(near.as_str()), "{listed}");
    }
    for args in [&["send", near, "--packet", "udp", "-c", "1"][..], &["record", near, &store]] {
        let ended = output(&mut wirelane(args));
        assert_eq!(ended.status.code(), Some(1), "only inside: {}", ended.stderr);
    }
}
