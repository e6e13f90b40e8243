//! Requests to a running command: its answers, permitted users, malformed requests, and missing
//! processes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use rustix::process::Signal;

use super::*;

/// The socket of a running command.
#[track_caller]
fn socket(pid: u32) -> PathBuf {
    sockets_of(pid).pop().unwrap_or_else(|| panic!("process {pid} has no socket"))
}

/// A name that the socket of a process could have.
fn name_for(pid: u32) -> PathBuf {
    format!("/tmp/wirelane-{pid}-{}.sock", std::process::id()).into()
}

/// Writes `request` unchanged. Returns the reply, which must be one line.
#[track_caller]
fn say(pid: u32, request: &[u8]) -> Value {
    let mut stream = UnixStream::connect(socket(pid)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server does not read an overlong request to its end.
    if let Err(error) = stream.write_all(request) {
        assert!(
            matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
            "{error}"
        );
    }
    // The server may have answered before it read everything.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut reply = Vec::new();
    let mut part = [0; 4096];
    while !reply.ends_with(b"\n") {
        match stream.read(&mut part) {
            Ok(n) if n > 0 => reply.extend_from_slice(&part[..n]),
            end => panic!("{end:?} after {:?}", String::from_utf8_lossy(&reply)),
        }
    }
    serde_json::from_slice(&reply).unwrap()
}

/// The statistics of a process.
#[track_caller]
fn stats(pid: u32) -> Value {
    let output = output(&mut wirelane(["stats", "--json", &pid.to_string()]));
    assert_eq!((output.status.code(), output.stderr.as_str()), (Some(0), ""), "{}", output.stdout);
    assert_eq!(output.stdout.matches('\n').count(), 1);
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn requests_that_are_none_are_refused_and_nothing_breaks() {
    let capture = Running::start(None, &["sim:2?rate=1kpps"]);
    let pid = capture.child.id();
    let long = [&b"{\"select\":{\"rx\":\""[..], &vec![b'0'; 1 << 20], b"\"}}\n"].concat();
    let line = |text: &[u8]| [text, b"\n"].concat();
    for (request, part) in [
        (b"".to_vec(), "incomplete line"),
        (b"\"statistics\"".to_vec(), "incomplete line"),
        (b"\n".to_vec(), "EOF"),
        (b"{}\n".to_vec(), "expected value"),
        (b"{\"rx\":\"0\"}\n".to_vec(), "unknown variant `rx`"),
        (b"\"no_such\"\n".to_vec(), "unknown variant `no_such`"),
        (b"{\"select\":{\"port\":0,\"x\":1}}\n".to_vec(), "unknown field `x`"),
        (
            b"{\"select\":{\"port\":7}}\n".to_vec(),
            "port 7: no such port; choose with --port: 0 is sim:2",
        ),
        (b"{\"select\":{\"rx\":\"9\"}}\n".to_vec(), "queue 9"),
        (b"{\"select\":{\"rx\":\"-\"}}\n".to_vec(), "not a queue number"),
        (b"{\"offload\":{\"gso\":\"on\"}}\n".to_vec(), "it was opened without GSO and GRO"),
        (b"\xff\xfe\n".to_vec(), "expected value"),
        (line(&vec![b'['; 60_000]), "expected value"),
        (line(&[&b"{\"select\":{\"rx\":"[..], &vec![b'['; 60_000]].concat()), "invalid type"),
        (line(&vec![0; 60_000]), "expected value"),
        (long, "a line exceeds 65536 bytes"),
        (vec![b'x'; 1 << 20], "a line exceeds 65536 bytes"),
        (b"{\"select\":{\"filter\":{\"text\":\"no such word\"}}}\n".to_vec(), "filter"),
    ] {
        let reply = say(pid, &request);
        let shown = String::from_utf8_lossy(&request[..request.len().min(60)]).into_owned();
        let error =
            reply["refused"]["error"].as_str().unwrap_or_else(|| panic!("{shown}: {reply}"));
        assert!(error.contains(part), "{shown}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    assert_eq!(capture.mask(&[]), "rx all tx all other on\n", "nothing was changed");
    assert_eq!(say(pid, b"\"identity\"\nmore\n")["done"]["command"], "capture");
    capture.finish();
}

#[test]
fn whoever_dawdles_keeps_nobody_waiting() {
    let capture = Running::start(None, &["sim:2?rate=1kpps"]);
    let pid = capture.child.id();
    let open = |_| UnixStream::connect(socket(pid)).unwrap();
    let silent: Vec<_> = (0..8).map(open).collect();
    for mut stream in &silent {
        stream.write_all(b"\"identi").unwrap();
    }
    // Silent clients have ten seconds; other clients are answered in the meantime.
    thread::scope(|scope| {
        for client in 0..4 {
            scope.spawn(move || {
                for _ in 0..5 {
                    let queues = format!("{}", client % 2);
                    let changed =
                        output(&mut wirelane(["mask", &pid.to_string(), "--rx-queues", &queues]));
                    assert!(changed.status.success(), "{}", changed.stderr);
                    assert_eq!(stats(pid)["pid"], pid);
                }
            });
        }
    });
    // Clients beyond the limit are refused at once.
    let many: Vec<_> = (0..100).map(open).collect();
    let deadline = Instant::now() + PATIENCE;
    let mut refused = BTreeSet::new();
    while refused.len() < 100 - 32 {
        assert!(Instant::now() < deadline, "{} were turned away", refused.len());
        for (number, mut stream) in many.iter().enumerate() {
            stream.set_nonblocking(true).unwrap();
            let mut reply = [0; 1024];
            if let Ok(n @ 1..) = stream.read(&mut reply) {
                let reply = String::from_utf8_lossy(&reply[..n]).into_owned();
                assert!(reply.contains("32 clients are connected already"), "{reply}");
                refused.insert(number);
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    // Open connections do not keep the process from ending.
    capture.finish();
    drop((silent, many));
}

#[test]
fn statistics_of_a_capture() {
    let capture = Running::start(None, &["sim:2?rate=20kpps&other=3", "-f", "udp"]);
    let pid = capture.child.id();
    let first = stats(pid);
    assert_eq!(
        (&first["schema"], &first["command"]),
        (&"wirelane.stats/1".into(), &"capture".into())
    );
    assert_eq!(first["pid"], pid);
    let port = &first["ports"][0];
    assert_eq!((&port["backend"], &port["selected"]["filter"]), (&"sim".into(), &"udp".into()));
    assert_eq!((&port["selected"]["rx"], &port["offload"]), (&"all".into(), &Value::Null));
    assert_eq!(port["frames"], first["frames"]);
    let frames = |key: &str| number(&first["frames"][key]);
    let places = ["free", "fill", "rx", "held", "tx", "completion"];
    assert_eq!(places.iter().map(|key| frames(key)).sum::<u64>(), frames("pool"));
    assert!(frames("pool") > 0);
    assert_eq!(first["queues"].as_array().unwrap().len(), 3);
    // Counters grow, and the summary has the last ones.
    let received = |stats: &Value| number(&stats["totals"]["received"]);
    // Every queue must have packets: otherwise it has no row below.
    let is_enough = |stats: &Value| {
        let mut queues = stats["queues"].as_array().unwrap().iter();
        received(stats) >= 100 && queues.all(|queue| number(&queue["packets"]) > 0)
    };
    let deadline = Instant::now() + PATIENCE;
    let mut then = first;
    while !is_enough(&then) {
        assert!(Instant::now() < deadline, "{then}");
        let now = stats(pid);
        assert!(received(&now) >= received(&then));
        assert!(now["elapsed_s"].as_f64() > then["elapsed_s"].as_f64());
        then = now;
    }
    let text = output(&mut wirelane(["stats", &pid.to_string()])).stdout;
    assert!(text.starts_with(&format!("process {pid}: wirelane capture ")), "{text}");
    for part in [
        "port 0: sim:2?rate=20kpps&other=3, ",
        " filter udp\n",
        "\nrx 0  ",
        "\nrx 1  ",
        "\nframes ",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    capture.mask(&["--rx-queues", "none", "--other", "off", "--no-filter"]);
    let last = stats(pid);
    assert_eq!(last["ports"][0]["selected"]["filter"], Value::Null);
    let summary = capture.finish();
    assert!(received(&summary) >= received(&last), "{summary} {last}");
    for queue in summary["queues"].as_array().unwrap() {
        assert!(number(&queue["packets"]) > 0, "{queue}");
    }
}

#[test]
fn rates_until_the_process_ends() {
    let capture = Running::start(None, &["sim:1?rate=50kpps"]);
    let pid = capture.child.id().to_string();
    let rates = || {
        let few = output(&mut wirelane(["stats", &pid, "-i", "100ms", "-c", "2", "--json"]));
        assert_eq!(few.status.code(), Some(0), "{}", few.stderr);
        let lines: Vec<Value> =
            few.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let rate = |line: &Value| {
            assert!(line["interval_s"].as_f64().unwrap() >= 0.05, "{line}");
            let rate = line["rates"]["received"][0]["delivered_per_s"].as_f64().unwrap();
            assert!(rate == 0.0 || number(&line["totals"]["delivered"]) > 0, "{line}");
            rate
        };
        <[f64; 2]>::try_from(lines.iter().map(rate).collect::<Vec<_>>()).unwrap()
    };
    // A thread that gets no CPU receives nothing for a while.
    let deadline = Instant::now() + PATIENCE;
    while !rates().iter().all(|rate| *rate > 0.0) {
        assert!(Instant::now() < deadline, "no rates");
    }
    let mut watch = ChildGuard::spawn(&mut wirelane(["stats", &pid, "-i", "50ms"]));
    watch.wait_until(PATIENCE, |watch| watch.stdout().contains("per second, of the last"));
    capture.finish();
    let ended = watch.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr, format!("process {pid} has ended\n"));
    // ^C ends it as well.
    let capture = Running::start(None, &["sim:1?rate=50kpps"]);
    let pid = capture.child.id().to_string();
    let mut watch = ChildGuard::spawn(&mut wirelane(["stats", &pid, "-i", "50ms"]));
    watch.wait_until(PATIENCE, |watch| watch.stdout().contains("per second, of the last"));
    watch.interrupt();
    assert_eq!(watch.wait(PATIENCE).status.code(), Some(0));
    capture.finish();
}

/// Every command gives the same error for a missing process.
#[test]
fn processes_that_cannot_be_asked() {
    let help = "; give the process id of a running `wirelane capture`, `record` or `forward`";
    let ask = |pid: u32, status: i32, parts: &[&str]| {
        for command in [&["mask"][..], &["offload"], &["stats"], &["stats", "-i", "1s"]] {
            let ended = output(wirelane(command).arg(pid.to_string()));
            assert_refused(&ended, status, parts);
            assert!(
                ended.stderr.starts_with(&format!("wirelane: process {pid}: ")),
                "{}",
                ended.stderr
            );
        }
    };
    ask(4_194_304, 1, &["there is no such process", help]);
    let mut other = ChildGuard::spawn(Command::new("sleep").arg("60"));
    ask(other.id(), 1, &["it does not listen for requests", help]);
    // A socket of a killed process whose number another process has now.
    let path = name_for(other.id());
    drop(UnixListener::bind(&path).unwrap());
    // A child of another test has a copy of the socket until it executes its program.
    let deadline = Instant::now() + PATIENCE;
    while UnixStream::connect(&path).is_ok() {
        assert!(Instant::now() < deadline, "somebody still listens");
        thread::sleep(Duration::from_millis(5));
    }
    // Unless a command of another test has removed it.
    let cleared = if path.exists() { "nothing listens on" } else { "does not listen" };
    ask(other.id(), 1, &[cleared, help]);
    // A socket that another process listens on, under this process's name.
    let _ = fs::remove_file(&path);
    let false_friend = UnixListener::bind(&path).unwrap();
    let this = format!("process {} of user", std::process::id());
    ask(other.id(), 1, &[&this, "listens in its place; it was not asked"]);
    drop(false_friend);
    fs::remove_file(path).unwrap();
    assert!(other.is_running());
}

/// Replies from a process that ends, or that is not Wirelane.
#[test]
fn answers_that_are_none() {
    // The test listens under its own process id.
    let path = name_for(std::process::id());
    let listener = UnixListener::bind(&path).unwrap();
    let pid = std::process::id().to_string();
    for (answer, part) in [
        (&b""[..], "it ended before it answered"),
        (b"{\"done\":", "it ended before it answered"),
        (b"{}\n", "cannot parse its answer"),
        (b"{\"done\":3}\n", "cannot parse its answer"),
        (b"{\"refused\":{\"usage\":false,\"error\":\"x\\u001b: y\"}}\n", ": x\\u{1b}: y"),
    ] {
        let asked = thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                assert!(stream.read(&mut request).unwrap() > 0);
                stream.write_all(answer).unwrap();
            });
            output(&mut wirelane(["mask", &pid]))
        });
        assert_refused(&asked, 1, &[part]);
    }
    fs::remove_file(path).unwrap();
}

/// A new process removes the sockets of killed and ended processes.
#[test]
fn what_a_killed_process_leaves() {
    let capture = Running::start(None, &["sim:1?rate=1kpps"]);
    let path = socket(capture.child.id());
    assert!(path.exists());
    capture.child.signal(Signal::KILL);
    capture.child.wait(PATIENCE);
    // Any next command removes it, even one of another test.
    let next = Running::start(None, &["sim:1?rate=1kpps"]);
    assert!(!path.exists());
    let path = socket(next.child.id());
    next.finish();
    assert!(!path.exists());
}
