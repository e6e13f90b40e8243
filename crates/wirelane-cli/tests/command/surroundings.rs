//! Errors where the system lacks file systems, descriptors or the initial user namespace. The error
//! names the first cause instead of the last failure.

use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{kernel, privileged};

use super::*;

/// A veth pair within one namespace.
fn bed() -> (Namespace, VethPair) {
    let ns = Namespace::new();
    let pair = VethPair::new(&ns, &ns, 2, 1500);
    (ns, pair)
}

/// Runs `wirelane ARGS` in `ns` and a separate mount namespace, after the shell command
/// `preparation`.
#[track_caller]
fn run_after(ns: &Namespace, preparation: &str, args: &[&str]) -> Output {
    let script = format!("{preparation} && exec \"$@\"");
    let mut command = ns.command("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh", WIRELANE]).args(args);
    output(&mut command)
}

const COVERED: &str = "mount -t tmpfs none ";
const UNMOUNTED: &str = "umount -l ";

#[test]
fn privileged_without_sys_a_mode_that_was_asked_for_is_not_proposed() {
    if !privileged::require() || !kernel::require_tags() {
        return;
    }
    let (ns, pair) = bed();
    let [a, b] = [&pair.a, &pair.b].map(|end| &end.interface);
    for way in [COVERED, UNMOUNTED] {
        for mode in ["?mode=native", ""] {
            let ports = [a, b].map(|name| format!("xdp:{name}{mode}"));
            let args = ["forward", "-q", "--all", "--duration", "1ms", &ports[0], &ports[1]];
            let ended = run_after(&ns, &format!("{way}/sys"), &args);
            let parts =
                ["read(/sys/kernel/btf/vmlinux)", "no /sys is mounted here", "mount -t sysfs"];
            assert_refused(&ended, 1, &parts);
            assert!(!ended.stderr.contains("mode=native"), "{}", ended.stderr);
        }
        // A port that does not need it works.
        let port = format!("packet:{a}{QUICK}");
        let args = ["capture", "-q", "--json", "--duration", "1ms", &port];
        summary(&run_after(&ns, &format!("{way}/sys"), &args));
    }
}

#[test]
fn privileged_without_proc_a_kernel_is_not_said_to_lack_ipv6() {
    if !privileged::require() || !kernel::require_tags() {
        return;
    }
    let (ns, pair) = bed();
    for way in [COVERED, UNMOUNTED] {
        let name = format!("wl-lab{}", std::process::id());
        let ended = run_after(&ns, &format!("{way}/proc"), &["lab", "up", "--name", &name]);
        assert_refused(&ended, 1, &["no /proc is mounted here", "mount -t proc"]);
        assert!(!ended.stderr.contains("IPv6"), "{}", ended.stderr);
        let port = format!("xdp:{}?mode=native&tags=on", pair.a.interface);
        let args = ["capture", "-q", "--all", "--duration", "1ms", &port];
        let ended = run_after(&ns, &format!("{way}/proc"), &args);
        assert_refused(&ended, 1, &["/proc/thread-self/ns/net", "no /proc is mounted here"]);
        let queues = run_after(&ns, &format!("{way}/proc"), &["queues", &pair.a.interface]);
        assert!(queues.stdout.contains("/proc is not mounted here"), "{}", queues.stdout);
    }
}

/// At whichever call the descriptors run out.
#[test]
fn privileged_too_few_descriptors_are_the_cause_that_is_told() {
    if !privileged::require() || !kernel::require_tags() {
        return;
    }
    let (ns, pair) = bed();
    let [a, b] = [&pair.a, &pair.b].map(|end| &end.interface);
    let packet = format!("packet:{a}{QUICK}");
    let native = [a, b].map(|name| format!("xdp:{name}?mode=native&frames=64"));
    let auto = [a, b].map(|name| format!("xdp:{name}"));
    let commands: [&[&str]; 4] = [
        &["capture", &packet],
        &["capture", "--all", &native[0]],
        &["forward", "--all", &native[0], &native[1]],
        &["forward", "--all", &auto[0], &auto[1]],
    ];
    for args in commands {
        let (mut refusals, mut successes) = (0, 0);
        for limit in 5..=40 {
            let args = [args, &["-q", "--json", "--duration", "1ms"]].concat();
            let ended = run_after(&ns, &format!("ulimit -n {limit}"), &args);
            if ended.status.success() {
                successes += 1;
                parse(&ended.stdout);
                continue;
            }
            refusals += 1;
            assert_refused(&ended, 1, &["(EMFILE)", "ulimit -n"]);
            for untrue in ["mode=native", "does not report", "VLAN"] {
                assert!(!ended.stderr.contains(untrue), "{limit}: {}", ended.stderr);
            }
        }
        assert!(refusals > 0 && successes > 0, "{args:?}: {refusals} and {successes}");
    }
}

/// Root in a user namespace has all capabilities there. The kernel checks those of the initial
/// namespace.
#[test]
fn privileged_in_a_user_namespace_xdp_says_what_is_missing() {
    if !privileged::require() {
        return;
    }
    let script = "ip link add wl-a type veth peer wl-b && ip link set wl-a up && exec \"$@\"";
    let run = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "sh", "-c", script, "sh", WIRELANE]);
        output(command.args(args))
    };
    let made = run(&["queues", "wl-a"]);
    if made.stderr.contains("unshare") {
        // User namespaces are disabled.
        return;
    }
    assert!(made.status.success(), "{}", made.stderr);
    for port in ["xdp:wl-a", "xdp:wl-a?mode=native"] {
        let ended = run(&["capture", "-q", "--all", "--duration", "1ms", port]);
        assert_refused(&ended, 1, &["user namespace", "CAP_BPF", "packet:wl-a"]);
    }
    let port = format!("packet:wl-a{QUICK}");
    summary(&run(&["capture", "-q", "--json", "--duration", "1ms", &port]));
}
