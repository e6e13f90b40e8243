//! "Which pages does this host request, and what are the answers?"

use std::fs;

use wirelane_testkit::tshark::check_clean;

use super::*;

const LAST_PAGE: &str = "/last-page";

/// Both clients request pages; the conversation of one is captured unchanged.
#[test]
fn privileged_http_of_one_host() {
    if unavailable(&["tcpdump", "dumpcap", "tshark", "curl", "python3"]) {
        return;
    }
    let lan = Lan::new(3);
    let [server, client, stranger] = &lan.hosts[..] else { unreachable!() };
    let pages = lan.directory.path().join("pages");
    fs::create_dir(&pages).unwrap();
    // From one packet to many that the kernel sends as one frame.
    let page = |kind: &str, size: usize| {
        let content: String = (0..size).map(|i| char::from(b'a' + (i * i % 23) as u8)).collect();
        format!("{kind}{content}")
    };
    let sizes = [10, 1400, 3000, 100_000];
    for (number, size) in sizes.iter().enumerate() {
        fs::write(pages.join(format!("{number}.html")), page("page", *size)).unwrap();
    }
    let _server = server.serve(&pages);

    let filter = format!("tcp port 80 and host {}", client.address);
    let words: Vec<&str> = filter.split(' ').collect();
    let mut both = lan.both("http", server.interface(), &words, &[&filter]);
    let (ns, interface) = server.interface();
    let dumpcap = lan.path("dumpcap.pcapng");
    both.theirs.push(Peer::dumpcap(ns, interface, &dumpcap, &["-f", &filter]));
    both.ready(b"GET /first-page", || drop(client.fetch(server.address, "/first-page")));
    client.fetch(server.address, "/begin");
    for round in 0..5 {
        for (number, size) in sizes.iter().enumerate() {
            let path = format!("/{number}.html?round={round}");
            assert!(client.fetch(server.address, &path) == page("page", *size));
            stranger.fetch(server.address, &format!("/{number}.html?stranger"));
        }
    }
    client.fetch(server.address, LAST_PAGE);
    let (ours, theirs) = both.finish(LAST_PAGE.as_bytes(), 1);

    let of = |file: &Path| between(file, b"GET /begin", LAST_PAGE.as_bytes());
    let seen = of(&ours);
    assert!(seen.len() > 5 * sizes.len() * 6, "{} packets", seen.len());
    for file in &theirs {
        assert_same(&seen, &of(file));
    }
    check_clean(&ours);
    // The requests of this client only, and each page whole.
    let rows = tshark(&ours, &["-Y", "http.request", "-T", "fields", "-e", "http.request.uri"]);
    let asked: Vec<&str> = rows.lines().skip_while(|uri| *uri != "/begin").collect();
    let rounds = (0..5).flat_map(|round| {
        (0..sizes.len()).map(move |number| format!("/{number}.html?round={round}"))
    });
    let expected = ["/begin".to_owned()].into_iter().chain(rounds).chain([LAST_PAGE.to_owned()]);
    assert_eq!(asked, expected.collect::<Vec<_>>());
    let objects = lan.directory.path().join("objects");
    tshark(&ours, &["-q", "--export-objects", &format!("http,{}", objects.display())]);
    let mut found: Vec<String> = fs::read_dir(&objects)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .filter(|text| text.starts_with("page"))
        .collect();
    let mut expected: Vec<String> =
        (0..5).flat_map(|_| sizes.iter().map(|size| page("page", *size))).collect();
    found.sort();
    expected.sort();
    assert!(found == expected, "{} pages of {}", found.len(), expected.len());
}

/// The output of tshark for the file.
#[track_caller]
fn tshark(file: &Path, args: &[&str]) -> String {
    let mut command = std::process::Command::new("tshark");
    wirelane_testkit::process::run(command.arg("-n").arg("-r").arg(file).args(args))
}
