//! File systems that a container or a chroot may lack.

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::*;

/// `wirelane ARGS` with these directories empty, in a private mount namespace.
fn without(directories: &str, args: &[String]) -> Command {
    let script = format!(
        "for directory in {directories}; do mount -t tmpfs none $directory || exit 99; done
         exec \"$0\" \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script, WIRELANE]);
    command.args(args);
    command
}

const MISSING: [&str; 4] = ["/sys", "/proc", "/run", "/sys /proc /run"];

#[test]
fn privileged_file_systems_are_missing() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    for kind in KINDS {
        for directories in MISSING {
            let file = bed.path(&format!("{kind:?}{}.pcapng", directories.replace(['/', ' '], "")));
            let ended = bed.run(&without(directories, &bed.finite(kind, &file)));
            assert_eq!(ended.status.code(), Some(0), "{kind:?} {directories}: {}", ended.stderr);
            assert!(assert_written(kind, &ended, &file).unwrap() > 0, "{kind:?} {directories}");
        }
    }
}

/// An interface of the kernel: the capture works, or the error names the missing file system.
#[test]
fn privileged_file_systems_are_missing_beside_an_interface() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    let ns = Namespace::new();
    let pair = VethPair::new(&ns, &ns, 2, 1500);
    let [a, b] = [&pair.a, &pair.b].map(|end| end.interface.clone());
    for backend in ["packet", "xdp"] {
        for directories in MISSING {
            let file = bed.path("x.pcapng").display().to_string();
            let port = format!("{backend}:{a}");
            let mut capture = words(&["capture", "-q", "--json", &port, "-w", &file]);
            let other = format!("{backend}:{b}");
            let mut forward = words(&["forward", "-q", "--json", &port, &other]);
            for args in [&mut capture, &mut forward] {
                args.extend(words(&["--duration", "500ms"]));
                if backend == "xdp" {
                    args.push("--all".into());
                }
                let mut command = ns.command("sh");
                // The mount namespace must be inside: entering the network namespace mounts another
                // /sys.
                let inner = without(directories, args);
                command.args(["-c", "exec \"$@\"", "sh"]).arg(inner.get_program());
                let ended = bed.run(command.args(inner.get_args()));
                if ended.status.success() {
                    parse(&ended.stdout);
                    continue;
                }
                let named: Vec<_> = directories.split(' ').collect();
                assert_told(Kind::Capture, &ended, &named);
            }
        }
    }
}
