//! Labs that are refused: foreign namespaces, and users without privileges.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use tempfile::tempdir;
use wirelane_testkit::process::{copy_program, output, run};
use wirelane_testkit::{privileged, tools};

use super::bed::Bed;
use super::shared::{WIRELANE, assert_refused};

#[test]
fn privileged_a_namespace_of_somebody_else_is_never_touched() {
    if !privileged::require() || !tools::require("ip") {
        return;
    }
    let bed = Bed::new();
    let ip = |args: &[&str]| run(Command::new("ip").args(args));
    let foreign = bed.namespace("b");
    ip(&["netns", "add", &foreign]);
    let removed = scopeguard(|| {
        output(Command::new("ip").args(["netns", "del", &foreign]));
    });
    ip(&["-n", &foreign, "link", "add", "wl-b", "type", "veth", "peer", "wl-x"]);
    let identity = || fs::metadata(bed.path("b")).map(|found| (found.dev(), found.ino())).unwrap();
    let before = identity();
    let parts = [
        &*format!("namespace {foreign}: "),
        "it does not belong to a lab; it is left alone",
        "--name",
    ];
    assert_refused(&output(&mut bed.lab(&["up"])), 1, &parts);
    assert_refused(&output(&mut bed.lab(&["down"])), 1, &parts);
    assert_refused(&output(&mut bed.exec("b", ["true"])), 125, &parts);
    let status = bed.status();
    assert_eq!(status["state"], "foreign");
    assert_eq!(status["sites"][1]["cause"], "it does not belong to a lab");
    assert_eq!(status["sites"][1]["interfaces"].as_array().unwrap().len(), 0, "not looked into");
    assert_eq!(identity(), before);
    assert!(ip(&["-n", &foreign, "-br", "link"]).contains("wl-b"), "its interface is still there");
    // Even if the other end belongs to the lab: that one is removed, this one is kept.
    ip(&["netns", "del", &foreign]);
    bed.up(&[]);
    ip(&["netns", "del", &foreign]);
    ip(&["netns", "add", &foreign]);
    let before = identity();
    assert_refused(&output(&mut bed.lab(&["up"])), 1, &parts);
    assert_refused(&output(&mut bed.lab(&["down"])), 1, &parts);
    assert_eq!(identity(), before);
    assert!(!bed.path("a").exists());
    drop(removed);
    assert!(bed.is_gone());
}

#[test]
fn privileged_files_of_somebody_else_are_never_touched() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    let path = bed.path("a");
    fs::create_dir_all("/run/netns").unwrap();
    // Two files that resemble remains of a killed `ip netns add`, or a mark; and files that must
    // not be opened.
    let plain =
        |contents: &'static str| move |path: &std::path::Path| fs::write(path, contents).unwrap();
    let makers: [(&str, Box<Maker>); 5] = [
        ("a file that does not belong to a lab", Box::new(plain(""))),
        ("a file that does not belong to a lab", Box::new(plain("wirelane lab x/a: \n"))),
        (
            "not a network namespace",
            Box::new(|path| {
                run(Command::new("mkfifo").arg(path));
            }),
        ),
        (
            "not a network namespace",
            Box::new(|path| {
                std::os::unix::fs::symlink("/proc/self/ns/net", path).unwrap();
            }),
        ),
        ("not a network namespace", Box::new(|path| fs::create_dir(path).unwrap())),
    ];
    for (cause, make) in makers {
        make(&path);
        let before = fs::symlink_metadata(&path).unwrap();
        let refused: Vec<_> =
            ["up", "down"].iter().map(|action| output(&mut bed.lab(&[action]))).collect();
        let after = fs::symlink_metadata(&path).map(|found| (found.ino(), found.mode()));
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        for ended in refused {
            assert_refused(&ended, 1, &[&bed.namespace("a"), cause]);
        }
        assert_eq!(after.unwrap(), (before.ino(), before.mode()), "{cause}");
        assert!(bed.is_gone());
    }
}

#[test]
fn privileged_an_ordinary_user_is_told_what_it_needs() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    // In a directory that every user can read.
    let directory = tempdir().unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("wirelane");
    copy_program(Path::new(WIRELANE), &program);
    let as_nobody = |args: &[&str]| {
        let mut command = Command::new(&program);
        output(command.arg("lab").args(args).args(["--name", bed.name()]).uid(65_534).gid(65_534))
    };
    assert_refused(&as_nobody(&["up"]), 1, &["EPERM", "it needs root"]);
    assert!(bed.is_gone());
    let ended = as_nobody(&["down"]);
    assert_eq!(
        (ended.status.code(), ended.stderr.contains("does not exist")),
        (Some(0), true),
        "{ended:?}"
    );
    bed.up(&[]);
    assert_refused(&as_nobody(&["down"]), 1, &["EPERM", "it needs root"]);
    assert_refused(&as_nobody(&["status"]), 1, &["EPERM", "it needs root"]);
    assert_eq!(bed.status()["state"], "up");
}

/// Creates a foreign file at a path.
type Maker = dyn Fn(&std::path::Path);

/// Calls `action` when it is dropped.
fn scopeguard(action: impl FnMut()) -> impl Drop {
    struct Guard<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Guard<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    Guard(action)
}
