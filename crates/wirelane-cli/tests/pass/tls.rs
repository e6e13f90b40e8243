//! TLS secrets stay with the packets that they decrypt.

use std::fs;

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;

use super::running::Running;
use super::*;

/// The page that clients request. It cannot be read without the secrets.
const PAGE: &str = "/a-page-that-nobody-sees";

#[test]
fn privileged_tshark_decrypts_what_went_through_every_command() {
    let needed = ["openssl", "curl"];
    if !privileged::require() || !has_wireshark() || !needed.into_iter().all(tools::require) {
        return;
    }
    let files = Files::new();
    let text = |name: &str| files.path(name).to_str().unwrap().to_owned();
    let ns = Namespace::new();
    ns.run("ip", ["link", "set", "lo", "up"]);
    let certificate =
        ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-keyout"];
    ns.run("openssl", [&certificate[..], &[&text("key"), "-out", &text("certificate")]].concat());
    let server = [
        "s_server",
        "-www",
        "-accept",
        "443",
        "-key",
        &text("key"),
        "-cert",
        &text("certificate"),
        "-keylogfile",
        &text("secrets"),
    ]
    .map(str::to_owned);
    let mut server = ns.spawn("openssl", &server);
    server.wait_until(PATIENCE, |server| server.stdout().contains("ACCEPT"));
    let capture =
        Running::start(Some(&ns), &["lo", "-Qout", "tcp", "port", "443", "-w", &text("x.pcapng")]);
    for version in ["--tlsv1.3", "--tls-max=1.2"] {
        let options = version.split('=').collect::<Vec<_>>();
        let url = format!("https://127.0.0.1{PAGE}");
        ns.run("curl", [&["-sk", "-o", &text("page")][..], &options, &[&url]].concat());
    }
    capture.finish();
    drop(server);
    let pages = |file: &Path| {
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-Y", "http.request", "-T", "fields", "-e", "http.request.uri", "-r"]);
        run(tshark.arg(file)).lines().filter(|uri| *uri == PAGE).count()
    };
    let (x, y) = (files.path("x.pcapng"), files.path("y.pcapng"));
    let mut editcap = Command::new("editcap");
    editcap.arg("--inject-secrets").arg(format!("tls,{}", text("secrets")));
    run(editcap.args([&x, &y]));
    assert_eq!((pages(&x), pages(&y)), (0, 2));
    let out = files.path("z.pcapng");
    let file = |name: &str| format!("file:{}", text(name));
    for words in [
        vec!["convert".to_owned(), text("y.pcapng"), text("z.pcapng")],
        vec!["merge".to_owned(), text("y.pcapng"), "-w".to_owned(), text("z.pcapng")],
        vec![
            "capture".to_owned(),
            "-r".to_owned(),
            text("y.pcapng"),
            "-w".to_owned(),
            text("z.pcapng"),
        ],
        vec!["forward".to_owned(), file("y.pcapng"), file("z.pcapng")],
    ] {
        let ended = output(&mut wirelane(&words));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert_eq!(pages(&out), 2, "{words:?}");
        fs::remove_file(&out).unwrap();
    }
    // A rotation by number of packets: every file has its secrets. Each handshake is in one of
    // them.
    let rotated = ["capture", "-q", "--rotate-packets", "1000", "-r"];
    ours(rotated, &[&y, Path::new("-w"), &files.path("r.pcapng")]);
    let found = fs::read_dir(files.0.path()).unwrap().map(|one| one.unwrap().path());
    let found = found.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("r_"));
    assert_eq!(found.map(|path| pages(&path)).sum::<usize>(), 2);
}
