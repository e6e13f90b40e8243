//! `wirelane exec`: programs that run over Wirelane's libpcap, and programs that cannot.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use tempfile::{tempdir, tempdir_in};
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::process::{Output, copy_program, output};
use wirelane_testkit::{privileged, tools};

use super::users::as_user;

/// `wirelane exec` with the library that this test was built with.
fn exec(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane"));
    Library::Stock.of(&mut command).args(["exec", "--library"]).arg(Library::Ours.file());
    command.arg("--").arg(program.as_ref());
    command
}

fn refused(output: &Output, status: i32, words: &[&str]) {
    assert_eq!(output.status.code(), Some(status), "{}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    for word in words {
        assert!(output.stderr.contains(word), "{word} is not in: {}", output.stderr);
    }
}

#[test]
fn linked_programs_get_the_library() {
    if !tools::require("tcpdump") {
        return;
    }
    let said = output(exec("tcpdump").arg("--version"));
    assert!(said.stdout.contains("libpcap version 1.10.3 (with Wirelane "), "{}", said.stdout);
}

/// As Scapy does.
#[test]
fn python_gets_the_library() {
    if !tools::require("python3") {
        return;
    }
    let text = "import ctypes, ctypes.util
library = ctypes.CDLL(ctypes.util.find_library('pcap'))
library.pcap_lib_version.restype = ctypes.c_char_p
print(library.pcap_lib_version().decode())";
    let said = output(exec("python3").args(["-c", text]));
    assert!(said.stdout.contains("with Wirelane "), "{}{}", said.stdout, said.stderr);
}

#[test]
fn the_environment_of_the_program_is_kept() {
    let said = output(
        exec("sh").args(["-c", "echo $LD_PRELOAD $LD_LIBRARY_PATH"]).env("LD_PRELOAD", "libc.so.6"),
    );
    let library = Library::Ours.file();
    assert_eq!(said.stdout.trim(), format!("{}:libc.so.6", library.display()));
    assert_eq!(output(exec("sh").args(["-c", "exit 7"])).status.code(), Some(7));
}

#[test]
fn an_installed_library_is_found_under_all_names() {
    let root = tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [programs, libraries] = ["bin", "lib/wirelane"].map(|name| root.path().join(name));
    for directory in [&programs, &libraries] {
        fs::create_dir_all(directory).unwrap();
    }
    copy_program(Path::new(env!("CARGO_BIN_EXE_wirelane")), &programs.join("wirelane"));
    let echo = |variable: &str| {
        let mut command = Command::new(programs.join("wirelane"));
        Library::Stock.of(&mut command);
        output(
            command
                .args(["exec", "--options", "ring=1M", "--", "sh", "-c"])
                .arg(format!("echo ${variable}")),
        )
    };
    refused(&echo("LD_PRELOAD"), 125, &["../lib/wirelane", "cargo build"]);
    copy_program(&Library::Ours.file(), &libraries.join("libpcap.so.0.8"));
    let library = libraries.canonicalize().unwrap();
    assert_eq!(echo("LD_PRELOAD").stdout.trim(), library.join("libpcap.so.0.8").to_str().unwrap());
    assert_eq!(echo("LD_LIBRARY_PATH").stdout.trim(), library.to_str().unwrap());
    assert_eq!(echo("WIRELANE_PCAP").stdout.trim(), "ring=1M");
}

#[test]
fn what_cannot_be_run_says_why() {
    refused(&output(&mut exec("no-such-program")), 127, &["program no-such-program"]);
    refused(&output(&mut exec("/etc/passwd")), 126, &["program /etc/passwd"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane"));
    command.args(["exec", "--library", "/nonexistent.so", "--", "true"]);
    refused(&output(&mut command), 125, &["library /nonexistent.so"]);
}

#[test]
fn privileged_a_program_with_privileges_of_its_own_is_refused() {
    if !privileged::require() || !tools::require("setcap") {
        return;
    }
    // In a directory that every user can read.
    let directory = tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let [set_user, capable, wirelane, library] =
        ["set-user", "capable", "wirelane", "library.so"].map(|name| directory.path().join(name));
    for (from, to) in [
        (Path::new("/bin/true"), &set_user),
        (Path::new("/bin/true"), &capable),
        (Path::new(env!("CARGO_BIN_EXE_wirelane")), &wirelane),
        (&Library::Ours.file(), &library),
    ] {
        copy_program(from, to);
        fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
    }
    chown(&set_user, Some(NOBODY), None).unwrap();
    fs::set_permissions(&set_user, fs::Permissions::from_mode(0o4755)).unwrap();
    refused(&output(&mut exec(&set_user)), 126, &["set-user-ID", "docs/libpcap.md"]);

    let status = Command::new("setcap").arg("cap_net_raw+ep").arg(&capable).status().unwrap();
    assert!(status.success());
    // Capabilities of the file give root nothing.
    assert!(output(&mut exec(&capable)).status.success());
    let mut command = as_user(NOBODY, &wirelane);
    command.args(["exec", "--library"]).arg(&library).arg("--").arg(&capable);
    refused(&output(&mut command), 126, &["file capabilities", "run it as root"]);
}

const NOBODY: u32 = 65_534;
