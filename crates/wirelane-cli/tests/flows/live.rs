//! Flows of real programs, while they talk.

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::process::ChildGuard;
use wirelane_testkit::tools;
use wirelane_testkit::veth::VethPair;

use crate::shared::PATIENCE;
use crate::{oracle, start};

/// The kernel chooses the queues of both directions.
#[test]
fn privileged_flows_of_an_http_server_are_those_of_the_oracle() {
    if !privileged::require() || !["tshark", "curl", "python3"].into_iter().all(tools::require) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page");
    std::fs::write(&page, vec![b'x'; 300_000]).unwrap();
    let (client, server) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&client, &server, 4, 1500);
    let file = directory.path().join("all.pcapng");
    let port = pair.b.interface.as_str();
    let start = |args: &[&str], ready: &str| start(&server, args, ready);
    let write = ["capture", port, "-w", file.to_str().unwrap(), "--keep-privileges", "tcp"];
    let capture = start(&write, "capturing on");
    let flows =
        start(&["flows", port, "--format", "json", "--idle-timeout", "60s", "tcp"], "flows of");
    let python = ["-m", "http.server", "8000", "--bind", "0.0.0.0", "-d"];
    let mut serve = server.command("python3");
    let mut serving = ChildGuard::spawn(serve.args(python).arg(directory.path()));
    serving.wait_until(PATIENCE, |child| child.stdout().contains("Serving") || listens(&server));
    let url = format!("http://{}:8000/page", pair.b.address);
    for _ in 0..20 {
        let fetched = client.run("curl", ["-s", "-o", "/dev/null", "-w", "%{size_download}", &url]);
        assert_eq!(fetched, "300000");
    }
    // A closed flow is exported before its timeout.
    let mut flows = flows;
    let closed = |child: &ChildGuard| child.stdout().matches("\"ended\"").count() >= 20;
    flows.wait_until(PATIENCE, closed);
    flows.interrupt();
    let ended = flows.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains(" 0 dropped"), "{}", ended.stderr);
    capture.interrupt();
    assert_eq!(capture.wait(PATIENCE).status.code(), Some(0));
    let ours: Vec<_> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Each socket has its own reading of the clock.
    assert!(oracle::compare_with(&ours, &file, 60, 300, false) >= 20, "{}", ended.stdout);
}

/// Whether the server accepts connections.
fn listens(server: &Namespace) -> bool {
    server.run("ss", ["-tln"]).contains(":8000")
}
