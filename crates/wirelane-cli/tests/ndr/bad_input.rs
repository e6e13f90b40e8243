//! Refused arguments, and their messages.

use wirelane_testkit::privileged;
use wirelane_testkit::process::output;

use super::middle::Middle;
use super::shared::{WIRELANE, assert_refused, refused};

#[test]
fn what_cannot_be_is_refused() {
    refused(&["ndr", "sim:1", "lo"], 2, &["sim:1", "is no network interface"]);
    refused(&["ndr", "lo", "lo"], 2, &["the same interface"]);
    refused(&["ndr", "lo", "lo0", "--rate", "80%"], 2, &["--rate", "share"]);
    refused(&["ndr", "lo", "lo0", "--loss", "2"], 2, &["--loss", "0.1%"]);
    refused(&["ndr", "lo", "lo0", "--sizes", "60"], 2, &["--sizes"]);
    let mac = ["--back-mac", "02:bb:bb:bb:bb:02"];
    for what in [["--packet", "udp"], ["--flows", "x.yaml"]] {
        refused(&[&["ndr", "lo", "lo0"][..], &what, &mac].concat(), 2, &["cannot be used with"]);
    }
    refused(&["ndr", "lo", "lo0", "--src-ip", "::1", "--dst-ip", "1.2.3.4"], 2, &["of one kind"]);
}

#[test]
fn privileged_a_path_that_leads_nowhere_is_an_error() {
    if !privileged::require() {
        return;
    }
    let middle = Middle::new();
    let run =
        |args: &[&str]| output(middle.tester.command(WIRELANE).args(["ndr", "-q"]).args(args));
    let ended = run(&["a0", "a1", "--quick"]);
    assert_refused(&ended, 1, &["a0 → a1", "none of", "packets arrived"]);
    let ended = run(&["a0", "missing", "--quick"]);
    assert_refused(&ended, 1, &["missing"]);
    // The user's own connection is not disturbed.
    middle.tester.run("ip", ["address", "add", "192.0.2.7/24", "dev", "a0"]);
    let mut command = middle.tester.command(WIRELANE);
    command.env("SSH_CONNECTION", "192.0.2.9 50000 192.0.2.7 22");
    let ended = output(command.args(["ndr", "-q", "a0", "a1", "--quick"]));
    assert_refused(&ended, 2, &["interface a0", "SSH connection", "--yes"]);
}
