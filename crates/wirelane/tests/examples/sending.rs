//! Programs that make packets: `generator`.

use std::process::Command;

use wirelane_testkit::process::output;

use crate::{example, printed};

#[test]
fn generator_sends_described_packets_at_their_rate() {
    let text = printed("generator", &["sim:2", "ipv4 dst=10.0.0.0/24 udp dst=53", "1kpps", "1"]);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("1000 packets sent"));
    assert!(lines.next().is_some_and(|line| line.starts_with("rate error ")), "{text}");
}

#[test]
fn generator_explains_wrong_arguments() {
    let cases: [(&[&str], &str); 3] = [
        (&["sim:1"], "are needed"),
        (&["sim:1", "ipx", "1kpps", "1"], "ipx"),
        (&["sim:1", "ipv4 udp", "80%", "1"], "unknown speed"),
    ];
    for (args, words) in cases {
        let ended = output(Command::new(example("generator")).args(args));
        assert_eq!(ended.status.code(), Some(1), "{args:?}");
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}
