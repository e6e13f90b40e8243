//! Control groups with little memory.

use wirelane_testkit::memory::MemoryGroup;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::*;

#[test]
fn privileged_a_group_has_little_memory() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    for kind in KINDS {
        for mebibytes in [32, 64, 128] {
            let name = format!("{kind:?}{mebibytes}");
            let Some(group) = MemoryGroup::require(mebibytes << 20) else { return };
            let file = bed.path(&name);
            let ended = bed.run(&group.command(&wirelane(bed.finite(kind, &file))));
            if !ended.status.success() {
                assert_told(kind, &ended, &["memory", "ENOMEM"]);
            }
            assert_written(kind, &ended, &file);
        }
    }
}

/// Rings in the kernel count for the group, too.
#[test]
fn privileged_a_group_has_little_memory_for_rings() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    let ns = Namespace::new();
    let pair = VethPair::new(&ns, &ns, 2, 1500);
    for backend in ["packet", "xdp"] {
        for mebibytes in [32, 64, 128] {
            let name = format!("{backend}{mebibytes}");
            let Some(group) = MemoryGroup::require(mebibytes << 20) else { return };
            let file = bed.path(&name);
            let port = format!("{backend}:{}", pair.a.interface);
            let mut command = ns.command(WIRELANE);
            command.args(["capture", "-q", "--json", &port, "--duration", "1s", "-w"]).arg(&file);
            if backend == "xdp" {
                command.arg("--all");
            }
            let ended = bed.run(&group.command(&command));
            if !ended.status.success() {
                assert_told(Kind::Capture, &ended, &["memory", "ENOMEM"]);
            }
            assert_written(Kind::Capture, &ended, &file);
        }
    }
}

/// Packets that wait for a blocked reader fit into the group, too: further packets are counted.
#[test]
fn privileged_a_group_has_little_memory_for_a_reader_that_takes_nothing() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    let Some(group) = MemoryGroup::require(64 << 20) else { return };
    let fifo = bed.path("fifo");
    run(Command::new("mkfifo").arg(&fifo));
    let _reader = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    let mut command = wirelane(from("sim:2?rate=400kpps&size=1500", Kind::Capture, &fifo));
    let ended = bed.run(&group.command(command.args(["--duration", "2s"])));
    assert_told(Kind::Capture, &ended, &["takes nothing"]);
    assert!(written(Kind::Capture, &ended).unwrap() > 0);
}
