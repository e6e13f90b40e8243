//! Groups of processes with little memory.

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::*;

/// A cgroup below that of this process; gone with the guard.
struct Group(PathBuf);

impl Group {
    /// One with so many bytes; `None` where this process may not make any.
    fn new(name: &str, bytes: u64) -> Option<Self> {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let first = own.lines().find_map(|line| line.split_once(":memory:"));
        let (parent, limit) = match first {
            Some((_, path)) => (format!("/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes"),
            None => {
                let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
                (format!("/sys/fs/cgroup{path}"), "memory.max")
            }
        };
        let path = Path::new(&parent).join(format!("wirelane-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        let group = Self(path);
        std::fs::write(group.0.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }

    /// `command`, in the group.
    fn command(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside.args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""]).arg(&self.0);
        inside.arg(command.get_program()).args(command.get_args());
        inside
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn privileged_a_group_has_little_memory() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    for kind in KINDS {
        for mebibytes in [32, 64, 128] {
            let name = format!("{kind:?}{mebibytes}");
            let Some(group) = Group::new(&name, mebibytes << 20) else {
                eprintln!("no cgroup with a limit of memory can be made here");
                return;
            };
            let file = bed.path(&name);
            let ended = bed.run(&group.command(&wirelane(bed.finite(kind, &file))));
            if !ended.status.success() {
                assert_told(kind, &ended, &["memory", "ENOMEM"]);
            }
            assert_written(kind, &ended, &file);
        }
    }
}

/// Rings in the kernel count as memory of the group, too.
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
            let Some(group) = Group::new(&name, mebibytes << 20) else {
                eprintln!("no cgroup with a limit of memory can be made here");
                return;
            };
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

/// What waits for a reader that takes nothing fits into the group, too: the rest is counted.
#[test]
fn privileged_a_group_has_little_memory_for_a_reader_that_takes_nothing() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    let Some(group) = Group::new("stalled", 64 << 20) else {
        eprintln!("no cgroup with a limit of memory can be made here");
        return;
    };
    let fifo = bed.path("fifo");
    run(Command::new("mkfifo").arg(&fifo));
    let _reader = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    let mut command = wirelane(from("sim:2?rate=400kpps&size=1500", Kind::Capture, &fifo));
    let ended = bed.run(&group.command(command.args(["--duration", "2s"])));
    assert_told(Kind::Capture, &ended, &["takes nothing"]);
    assert!(written(Kind::Capture, &ended).unwrap() > 0);
}
