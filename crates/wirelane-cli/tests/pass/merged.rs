//! Captures of two hosts are merged as by mergecap.

use std::fs;

use super::*;

#[test]
fn two_hosts_are_merged_as_by_mergecap() {
    if !has_wireshark() {
        return;
    }
    let files = Files::new();
    let keys = files.path("keys");
    let (edited, secret): (Vec<_>, Vec<_>) = ["a", "b"]
        .iter()
        .zip(["11", "22"])
        .map(|(host, digits)| {
            let (plain, edited) = (files.capture(&format!("{host}.plain")), files.path(host));
            let secret = format!("CLIENT_RANDOM {} {}\n", digits.repeat(32), digits.repeat(48));
            fs::write(&keys, secret).unwrap();
            let mut editcap = Command::new("editcap");
            editcap.args(["-a", &format!("7:of host {host}"), "--capture-comment"]);
            run(editcap.arg(format!("file of host {host}")).args([&plain, &edited]));
            // Some versions of mergecap refuse to merge secrets.
            let mut editcap = Command::new("editcap");
            editcap.arg("--inject-secrets").arg(format!("tls,{}", keys.display()));
            let secret = files.path(&format!("{host}.secret"));
            run(editcap.args([&edited, &secret]));
            (edited, secret)
        })
        .unzip();
    let (ours_file, theirs) = (files.path("ours.pcapng"), files.path("theirs.pcapng"));
    ours(["merge"], &[&secret[0], &secret[1], Path::new("-w"), &ours_file]);
    run(Command::new("mergecap").arg("-w").arg(&theirs).args(&edited));
    assert_eq!(seen(&ours_file), seen(&theirs));
    assert_eq!(packet_comments(&ours_file), packet_comments(&theirs));
    assert_eq!(packet_comments(&ours_file).len(), 2);
    let interfaces =
        |file| tshark_fields(file, &["frame.interface_name", "frame.interface_description"]);
    assert_eq!(interfaces(&ours_file), interfaces(&theirs));
    let secrets = |file: &Path| {
        let bytes = fs::read(file).unwrap();
        bytes.windows(13).filter(|part| part == b"CLIENT_RANDOM").count()
    };
    assert_eq!(secrets(&ours_file), 2);
    // mergecap replaces the comments of the files by their names.
    let comments = about_its("Capture comment", &ours_file);
    for host in ["a", "b"] {
        assert!(comments.contains(&format!("file of host {host}")), "{comments:?}");
    }
    // Through a port, the interfaces of both hosts stay separate, although their queues have the
    // same numbers.
    let again = files.path("again.pcapng");
    ours(["capture", "-q", "-r"], &[&ours_file, Path::new("-w"), &again]);
    assert_eq!(seen(&again), seen(&theirs));
    let numbers = |file| tshark_fields(file, &["frame.interface_id"]);
    assert_eq!(numbers(&again), numbers(&ours_file));
    assert_eq!(packet_comments(&again), packet_comments(&theirs));
}
