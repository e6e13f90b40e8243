//! The examples: short, without warnings, and correct.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::process::{ChildGuard, output, run};
use wirelane_testkit::veth::VethPair;

use crate::program::{BUILDS, Program, package};

const PATIENCE: Duration = Duration::from_secs(30);

/// Runs an example of every build.
#[track_caller]
fn each(example: &str, mut check: impl FnMut(&Program)) {
    for (compiler, flags) in BUILDS {
        if let Some(program) = Program::new(compiler, flags, &format!("examples/{example}.c")) {
            check(&program);
        }
    }
}

/// The sum of the packets of lines such as `rx 0: 2462 packets, 157568 bytes`.
fn sum(text: &str) -> u64 {
    let lines = text.lines().filter(|line| line.contains(" packets, "));
    let words = lines.filter_map(|line| line.split(": ").nth(1)?.split(' ').next());
    words.filter_map(|word| word.parse::<u64>().ok()).sum()
}

#[test]
fn each_is_shorter_than_100_lines() {
    for example in ["count", "rxdrop", "forward"] {
        let path = package().join(format!("examples/{example}.c"));
        let lines = std::fs::read_to_string(path).unwrap().lines().count();
        assert!(lines < 100, "{example}.c has {lines} lines");
    }
}

#[test]
fn count_counts_every_packet() {
    each("count", |program| {
        let counted = run(&mut program.command(["sim:4?count=20000"]));
        assert_eq!(sum(&counted), 20_000, "{counted}");
        assert!(counted.contains("longest packet: 64 bytes"), "{counted}");
        // The filter is a program, because compiling an expression needs libpcap.
        let nothing = run(&mut program.command(["sim:2?count=1000", "1,6 0 0 0"]));
        assert_eq!(sum(&nothing), 0, "{nothing}");
    });
}

#[test]
fn errors_are_told() {
    each("count", |program| {
        let failed = output(&mut program.command(["sim:4?nonsense=1"]));
        assert_eq!(failed.status.code(), Some(1));
        assert!(failed.stderr.starts_with("count: ") && failed.stderr.contains("nonsense"));
    });
}

#[test]
fn rxdrop_drops_every_packet() {
    each("rxdrop", |program| {
        let said = run(&mut program.command(["sim:3?count=30000"]));
        assert!(said.contains(" 30000 in all"), "{said}");
    });
}

#[test]
fn forward_forwards_every_packet() {
    each("forward", |program| {
        let said = run(&mut program.command(["sim:3?count=20000", "sim:2?count=10000&verify=on"]));
        assert_eq!(said, "30000 packets\n");
    });
}

#[test]
fn privileged_count_counts_exactly_until_it_is_interrupted() {
    if !privileged::require() {
        return;
    }
    let [near, far] = [(); 2].map(|()| Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let sink = far.inside(|| UdpSocket::bind((pair.b.address, 0)).unwrap());
    let socket = near.inside(|| UdpSocket::bind((pair.a.address, 0)).unwrap());
    each("count", |program| {
        let port = format!("packet:{}", pair.b.interface);
        let filter = format!("udp dst port {}", sink.local_addr().unwrap().port());
        let mut count = far.spawn(program.path(), [&port, &filter]);
        count.wait_until(PATIENCE, |it| it.stderr().contains("counting on packet:"));
        for _ in 0..500 {
            socket.send_to(&[0; 100], sink.local_addr().unwrap()).unwrap();
        }
        count.interrupt();
        let output = count.wait(PATIENCE);
        assert!(output.status.success(), "{}", output.stderr);
        assert_eq!(sum(&output.stdout), 500, "{}", output.stdout);
        assert!(output.stdout.contains("longest packet: 142 bytes"), "{}", output.stdout);
    });
}

#[test]
fn privileged_forward_carries_a_connection() {
    if !privileged::require() {
        return;
    }
    let [left, middle, right] = [(); 3].map(|()| Namespace::new());
    let near = VethPair::new(&left, &middle, 2, 1500);
    let far = VethPair::new(&middle, &right, 1, 1500);
    for (ns, end, address) in [(&left, &near.a, "10.99.0.1/24"), (&right, &far.b, "10.99.0.2/24")] {
        ns.run("ip", ["address", "flush", "dev", &end.interface]);
        ns.run("ip", ["address", "add", address, "dev", &end.interface]);
    }
    for end in [&near.b, &far.a] {
        middle.run("ip", ["address", "flush", "dev", &end.interface]);
    }
    let sent: Vec<u8> =
        (0..4_u32 << 20).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    each("forward", |program| {
        let ports = [&near.b, &far.a].map(|end| format!("packet:{}", end.interface));
        let forward: ChildGuard = middle.spawn(program.path(), &ports);
        let listener = right.inside(|| TcpListener::bind(("10.99.0.2", 0)).unwrap());
        let there = listener.local_addr().unwrap();
        let reader = thread::spawn(move || {
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        let mut stream = left.inside(|| TcpStream::connect_timeout(&there, PATIENCE).unwrap());
        stream.write_all(&sent).unwrap();
        drop(stream);
        assert!(reader.join().unwrap() == sent, "what arrived is something else");
        forward.interrupt();
        let output = forward.wait(PATIENCE);
        assert!(output.status.success(), "{}", output.stderr);
        assert!(output.stdout.ends_with(" packets\n"), "{}", output.stdout);
    });
}
