//! Incomplete labs: a process was killed, or a part was removed.

use std::process::Command;
use std::thread;
use std::time::Instant;

use rustix::process::Signal;
use wirelane_testkit::process::{ChildGuard, output, run};
use wirelane_testkit::{privileged, tools};

use super::bed::{Bed, exchange, host, take_down};
use super::shared::{PATIENCE, assert_refused};

/// `up` and `down` are killed at moments spread over their duration. The next command then works,
/// whatever is left.
#[test]
fn privileged_nothing_is_left_of_who_is_killed() {
    if !privileged::require() {
        return;
    }
    let before = host();
    let bed = Bed::new();
    let took = |action: &str| {
        let started = Instant::now();
        run(&mut bed.lab(&[action]));
        started.elapsed()
    };
    let (up, down) = (took("up"), took("down"));
    let mut states = Vec::new();
    for step in 0..STEPS {
        for (action, time) in [("up", up), ("down", down)] {
            let victim = ChildGuard::spawn(&mut bed.lab(&[action]));
            thread::sleep(time.mul_f64(f64::from(step) / f64::from(STEPS)));
            victim.signal(Signal::KILL);
            victim.wait(PATIENCE);
            let state = bed.status()["state"].as_str().unwrap().to_owned();
            assert!(["absent", "partial", "up"].contains(&&*state), "{state}");
            states.push((action, state));
            // Every other time the lab is repaired, otherwise removed without repair.
            if step % 2 == 0 {
                bed.up(&[]);
                assert_eq!(bed.status()["state"], "up", "{states:?}");
            }
            if action == "down" || step % 2 == 1 {
                take_down(&bed);
                assert!(bed.is_gone(), "{states:?}");
            }
        }
    }
    assert_eq!(host(), before);
}

const STEPS: u32 = 24;

/// Every part that can be missing.
#[test]
fn privileged_a_lab_of_which_a_part_is_missing_is_repaired_or_removed() {
    if !privileged::require() || !tools::require("ip") {
        return;
    }
    let bed = Bed::new();
    let run = |program: &str, args: &[&str]| drop(run(Command::new(program).args(args)));
    let (near, far) = (bed.namespace("a"), bed.namespace("b"));
    let path = |name: &str| format!("/run/netns/{name}");
    let damages: [&dyn Fn(); 5] = [
        &|| run("ip", &["netns", "del", &near]),
        &|| run("ip", &["netns", "del", &far]),
        &|| run("umount", &[&path(&far)]),
        &|| [&near, &far].iter().for_each(|name| run("umount", &[&path(name)])),
        &|| run("ip", &["-n", &near, "link", "del", "wl-a"]),
    ];
    for damage in damages {
        for repair in [true, false] {
            bed.up(&[]);
            damage();
            assert_eq!(bed.status()["state"], "partial");
            let ended = output(&mut bed.exec("a", ["true"]));
            assert_refused(&ended, 125, &["lab up --name", "repairs it"]);
            if repair {
                let ended = output(&mut bed.lab(&["up"]));
                assert!(ended.stderr.ends_with("remains of an earlier one were removed\n"));
                exchange(
                    &bed,
                    "10.87.0.1".parse().unwrap(),
                    "10.87.0.2".parse().unwrap(),
                    b"whole",
                );
            }
            take_down(&bed);
            assert!(bed.is_gone());
        }
    }
}

#[test]
fn privileged_what_runs_in_a_damaged_lab_is_not_ended_by_up() {
    if !privileged::require() || !tools::require("ip") {
        return;
    }
    let bed = Bed::new();
    bed.up(&[]);
    let mut sleeper = ChildGuard::spawn(&mut bed.exec("b", ["sleep", "600"]));
    sleeper.wait_until(PATIENCE, |_| {
        bed.status()["sites"][1]["processes"][0]["command"][0] == "sleep"
    });
    run(Command::new("ip").args(["netns", "del", &bed.namespace("a")]));
    let ended = output(&mut bed.lab(&["up"]));
    assert_refused(&ended, 1, &[&format!("process {} runs in", sleeper.id()), "lab down --name"]);
    assert!(sleeper.is_running());
    take_down(&bed);
    assert!(!sleeper.wait(PATIENCE).status.success());
}

/// The directory of names is mounted upon itself, as by a system's first `ip netns add`, and mounts
/// are copied into other mount namespaces.
#[test]
fn privileged_copies_of_the_names_elsewhere_do_not_keep_the_lab() {
    if !privileged::require() || !tools::require("unshare") {
        return;
    }
    let bed = Bed::new();
    bed.up(&[]);
    // Another mount namespace, which receives no mount events from this one.
    let script = "echo ready; while [ -e \"$0\" ]; do sleep 0.02; done; echo gone";
    let path = bed.path("a");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(&path);
    let mut elsewhere = ChildGuard::spawn(&mut command);
    elsewhere.wait_until(PATIENCE, |child| child.stdout().contains("ready"));
    take_down(&bed);
    assert!(bed.is_gone());
    assert_eq!(elsewhere.wait(PATIENCE).stdout, "ready\ngone\n");
}
