//! Signals and pipes: every end is clean if it can be.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::Stdio;
use std::time::Instant;

use rustix::process::Signal;
use tempfile::tempdir;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::tshark::{capinfos, check_clean};
use wirelane_testkit::{privileged, process, tools};

use super::rotation::assert_complete;
use super::*;

/// With frames for several seconds, in case a thread gets no CPU.
const SPEC: &str = "sim:2?rate=10kpps&size=imix&frames=32768";

#[test]
fn signals_end_it_cleanly() {
    let directory = tempdir().unwrap();
    let signals = [
        (Signal::INT, "int"),
        (Signal::TERM, "term"),
        (Signal::HUP, "hup"),
        (Signal::QUIT, "quit"),
        (Signal::ALARM, "alrm"),
        (Signal::XCPU, "xcpu"),
    ];
    let path = |name: &str| directory.path().join(format!("{name}.pcapng"));
    // The test itself may have started with ignored signals.
    let mut captures = signals.map(|(_, name)| {
        let mut command = Command::new("env");
        command.args([
            "--default-signal=HUP,INT,QUIT",
            WIRELANE,
            "capture",
            "-q",
            "--json",
            SPEC,
            "-w",
        ]);
        Running { child: ChildGuard::spawn(command.arg(path(name))) }
    });
    captures.iter_mut().for_each(|capture| {
        capture.wait_until_ready();
        capture.wait_for(2000);
    });
    for ((signal, name), capture) in signals.into_iter().zip(captures) {
        capture.child.signal(signal);
        let summary = summary(&capture.child.wait(PATIENCE));
        let packets = packets(path(name));
        assert_eq!(summary["totals"]["written"], packets.len());
        assert_eq!(summary["totals"]["delivered"], packets.len());
        let numbers = predicted_numbers(&stream(SPEC), &packets);
        assert!(numbers.len() > 1000 && numbers.iter().copied().eq(0..numbers.len() as u64));
        assert_complete(&path(name), 2);
    }
}

#[test]
fn what_nohup_started_goes_on_after_a_hangup() {
    let mut command = Command::new("nohup");
    command.args([WIRELANE, "capture", "-q", "--json", "sim:1?rate=10kpps"]);
    let mut capture = Running { child: ChildGuard::spawn(&mut command) };
    capture.wait_until_ready();
    capture.wait_for(100);
    capture.child.signal(Signal::HUP);
    let said = output(&mut wirelane(["stats", "--json", &capture.child.id().to_string()]));
    let before: Value = serde_json::from_str(&said.stdout).unwrap();
    capture.wait_for(number(&before["totals"]["delivered"]) + 1000);
    capture.child.signal(Signal::TERM);
    summary(&capture.child.wait(PATIENCE));
}

#[test]
fn the_summary_for_people_follows_an_interrupt() {
    let capture = ChildGuard::spawn(wirelane(["capture", SPEC]).arg("--keep-privileges"));
    let mut capture = Running { child: capture };
    capture.wait_until_ready();
    capture.child.interrupt();
    let ended = capture.child.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(ended.stdout, "");
    assert!(ended.stderr.starts_with("capturing on sim:2"), "{}", ended.stderr);
    assert!(ended.stderr.contains(" captured, 0 filtered, 0 dropped"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("leaked"), "{}", ended.stderr);
}

/// After the first signal, the command waits two seconds for a blocked reader; after the second, it
/// does not wait. Either way it prints the summary, and counts the packets that did not reach the
/// reader.
#[test]
fn a_second_interrupt_waits_for_nobody() {
    let directory = tempdir().unwrap();
    for signals in [1, 2] {
        let fifo = directory.path().join(format!("fifo{signals}"));
        process::run(Command::new("mkfifo").arg(&fifo));
        // Open, but unread until the end.
        let mut reader = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        let mut capture = Running::start(None, &["sim:1", "-w", fifo.to_str().unwrap()]);
        // More than the pipe holds.
        capture.wait_for(2000);
        capture.child.interrupt();
        let asked = Instant::now();
        if signals == 2 {
            // The kernel merges a second signal that arrives before the first is handled.
            std::thread::sleep(Duration::from_millis(300));
            capture.child.interrupt();
        }
        let ended = capture.child.wait(PATIENCE);
        let took = asked.elapsed();
        assert_refused(&ended, 1, &["fifo", "takes nothing"]);
        let summary = parse(&ended.stdout);
        let written = number(&summary["totals"]["written"]);
        assert!(written > 0 && dropped(&summary, "writer") > 0, "{summary}");
        assert_eq!(summary["totals"]["delivered"], written);
        // Two seconds of waiting, or none.
        assert!(took > Duration::from_secs(2) || signals == 2, "{took:?}");
        // The reader finds exactly the packets that the summary counts as written, in whole blocks.
        let mut bytes = vec![0; 1 << 20];
        let count = reader.read(&mut bytes).unwrap();
        let file = directory.path().join("read.pcapng");
        std::fs::write(&file, &bytes[..count]).unwrap();
        assert_eq!(packets(&file).len() as u64, written);
    }
}

#[test]
fn sigusr1_tells_how_far_it_is() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let sink = format!("file:{}", directory.path().join("y.pcapng").display());
    let capture = ["capture", SPEC, "-w", file.to_str().unwrap()];
    for (args, last) in [(&capture[..], " written"), (&["forward", SPEC, &sink], " sent")] {
        let mut running =
            Running { child: ChildGuard::spawn(wirelane(args).args(["-q", "--json"])) };
        running.wait_for(500);
        for reports in 1..3 {
            running.child.signal(Signal::USR1);
            // The kernel merges two signals that arrive at once.
            running.child.wait_until(PATIENCE, |child| child.stderr().lines().count() == reports);
        }
        running.child.signal(Signal::QUIT);
        let ended = running.child.wait(PATIENCE);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        for line in ended.stderr.lines() {
            assert!(line.starts_with("so far: ") && line.contains(last), "{line}");
            let (received, _) = line["so far: ".len()..].split_once(' ').unwrap();
            assert!(received.replace(',', "").parse::<u64>().unwrap() >= 500, "{line}");
        }
        parse(&ended.stdout);
    }
}

/// A job in the background may not write to a terminal with `stty tostop`. The command is not
/// stopped by an attempt.
#[test]
fn a_terminal_does_not_stop_it_in_the_background() {
    if !tools::require("script") {
        return;
    }
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let capture =
        format!("{WIRELANE} capture 'sim:1?rate=1kpps' --duration 1s -w {}", file.display());
    let job = format!("set -m; stty tostop; {capture} & wait");
    let mut script = Command::new("script");
    script.args(["-qec", &format!("sh -c \"{job}\""), "/dev/null"]);
    let ended = ChildGuard::spawn(&mut script).wait(PATIENCE);
    assert!(
        ended.stdout.contains(" captured, 0 filtered, 0 dropped"),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
    assert!(packets(&file).len() >= 500);
}

/// A pipe may be silent forever. The first signal is enough, both before the pipe's header and
/// after packets.
#[test]
fn an_interrupt_ends_waiting_for_a_silent_pipe() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let ended = output(wirelane(["capture", "-q", "sim:2?count=300", "-w"]).arg(&file));
    assert!(ended.status.success(), "{}", ended.stderr);
    for port in ["file:-", "file:FIFO"] {
        for bytes in [Vec::new(), std::fs::read(&file).unwrap()] {
            let fifo = directory.path().join("fifo");
            process::run(Command::new("mkfifo").arg(&fifo));
            let port = port.replace("FIFO", fifo.to_str().unwrap());
            let mut command = Command::new("sh");
            let input = if port == "file:-" { "< \"$2\"" } else { "" };
            let script = format!("exec \"$0\" capture -q --json \"$1\" {input}");
            command.args(["-c", &script, WIRELANE, &port]).arg(&fifo);
            let hold = || OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
            // With a pipe that has a writer, and once without one.
            let writer = (port == "file:-" || !bytes.is_empty()).then(hold);
            let mut capture = Running { child: ChildGuard::spawn(&mut command) };
            if let Some(mut writer) = writer.as_ref() {
                std::io::Write::write_all(&mut writer, &bytes).unwrap();
            }
            if bytes.is_empty() {
                // Wait for the handler: without it, the signal would end the command anyway.
                let catches = |child: &ChildGuard| {
                    let path = format!("/proc/{}/status", child.id());
                    let status = std::fs::read_to_string(path).unwrap_or_default();
                    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t"));
                    let caught = caught.and_then(|mask| u64::from_str_radix(mask, 16).ok());
                    caught.is_some_and(|mask| mask & 1 << (Signal::TERM.as_raw() - 1) != 0)
                };
                capture.child.wait_until(PATIENCE, catches);
                std::thread::sleep(Duration::from_millis(200));
            } else {
                capture.wait_until_ready();
                capture.wait_for(300);
            }
            assert!(capture.child.is_running(), "it waits for more");
            capture.child.interrupt();
            let ended = capture.child.wait(PATIENCE);
            if bytes.is_empty() {
                assert_refused(&ended, 1, &["stopped while it was silent"]);
            } else {
                let summary = summary(&ended);
                assert_eq!(summary["totals"]["delivered"], 300, "{port}");
                assert_eq!(summary["errors"], serde_json::json!([]), "{port}");
            }
            std::fs::remove_file(&fifo).unwrap();
        }
    }
}

#[test]
fn after_a_kill_what_was_flushed_is_readable() {
    let directory = tempdir().unwrap();
    let captures: Vec<_> = ["a.pcapng", "b.pcap", "c.pcapng.gz", "d.pcapng.lz4", "x.pcapng.zst"]
        .into_iter()
        .map(|name| {
            let file = directory.path().join(name);
            let capture = Running::spawn(None, &[SPEC, "-w", file.to_str().unwrap()]);
            (file, capture)
        })
        .collect();
    // Kill all before reading any file: later writes would only make files longer.
    let kill = |(file, mut capture): (PathBuf, Running)| {
        let enough = |_: &ChildGuard| file.metadata().is_ok_and(|metadata| metadata.len() > 50_000);
        capture.child.wait_until(PATIENCE, enough);
        capture.child.signal(Signal::KILL);
        let ended = capture.child.wait(PATIENCE);
        assert_eq!(ended.status.code(), None);
        file
    };
    let files: Vec<_> = captures.into_iter().map(kill).collect();
    for file in files {
        let (stream, (packets, damage)) = (stream(SPEC), readable(&file));
        assert!(packets.len() > 100 && is_in_order(&packets));
        let numbers = packets.iter().map(|packet| stream.number(&packet.data).unwrap());
        assert!(numbers.eq(0..packets.len() as u64), "{}", file.display());
        if let Some(damage) = damage {
            // The kernel may stop in the middle of a write() of a killed process
            // (generic_perform_write): then only the last block is cut.
            assert!(matches!(damage, CaptureError::Truncated { .. }), "{damage}");
            continue;
        }
        // Wireshark 4.0 reads only the first frame of such a file.
        let suffix = file.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
        let program = [("lz4", "lz4"), ("zst", "zstd")].into_iter().find(|it| it.0 == suffix);
        let mut file = file;
        if let Some((_, program)) = program {
            if !tools::require(program) {
                continue;
            }
            let plain = file.with_extension("");
            let output = Command::new(program).args(["-dqc"]).arg(&file).output().unwrap();
            assert!(output.status.success());
            std::fs::write(&plain, output.stdout).unwrap();
            file = plain;
        }
        if tools::require("tshark") {
            assert_eq!(check_clean(&file), packets.len() as u64);
            assert_eq!(capinfos(&file).packets, packets.len() as u64);
        }
    }
}

/// A few packets per second fill no buffer, but still reach the file.
#[test]
fn what_comes_slowly_is_flushed_by_time() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let spec = "sim:2?rate=20pps";
    let mut capture = Running::spawn(None, &[spec, "-w", file.to_str().unwrap()]);
    let some = |_: &ChildGuard| file.metadata().is_ok_and(|metadata| metadata.len() > 3_000);
    capture.child.wait_until(PATIENCE, some);
    capture.child.signal(Signal::KILL);
    capture.child.wait(PATIENCE);
    let numbers = predicted_numbers(&stream(spec), &readable(&file).0);
    assert!(numbers.len() > 15 && numbers.iter().copied().eq(0..numbers.len() as u64));
}

/// The interface is promiscuous while the capture runs, however the capture ends.
#[test]
fn privileged_promiscuous_mode_ends_with_the_capture() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let _tap = MultiQueueTap::new(&ns, "wl-prom", 2);
    let promiscuity = || {
        let text = ns.run("ip", ["-d", "-j", "link", "show", "dev", "wl-prom"]);
        let links: Value = serde_json::from_str(&text).unwrap();
        number(&links[0]["promiscuity"])
    };
    let port = format!("packet:wl-prom{QUICK}");
    assert_eq!(promiscuity(), 0);
    let plain = Running::start(Some(&ns), &[&port, "-p"]);
    assert_eq!(promiscuity(), 0, "-p is for not");
    plain.finish();
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let capture = Running::start(Some(&ns), &[&port]);
        assert_eq!(promiscuity(), 1);
        capture.child.signal(signal);
        let ended = capture.child.wait(PATIENCE);
        assert_eq!(ended.status.success(), signal != Signal::KILL);
        assert_eq!(promiscuity(), 0, "after {signal:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_a_clean_end() {
    for args in [&["sim:2"][..], &["sim:2", "--single"], &["sim:2?rate=200kpps"]] {
        let mut capture = wirelane(["capture", "-q", "-w", "-"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let head = Command::new("head")
            .args(["-c", "100"])
            .stdin(capture.stdout.take().unwrap())
            .output()
            .unwrap();
        assert_eq!(head.stdout.len(), 100);
        assert_eq!(head.stdout[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
        let deadline = Instant::now() + PATIENCE;
        while capture.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                capture.kill().unwrap();
                panic!("{args:?} goes on without a reader");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let ended = capture.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{args:?}");
    }
}

/// The same through a FIFO, so that standard output has the summary: packets that did not reach the
/// reader are counted.
#[test]
fn a_reader_that_goes_away_leaves_balanced_counters() {
    let directory = tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    process::run(Command::new("mkfifo").arg(&fifo));
    let capture = Running::spawn(None, &["sim:2?rate=50kpps", "-w", fifo.to_str().unwrap()]);
    let mut some = [0; 10_000];
    File::open(&fifo).unwrap().read_exact(&mut some).unwrap();
    let ended = capture.child.wait(PATIENCE);
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    let summary = parse(&ended.stdout);
    assert!(dropped(&summary, "writer") > 0, "{summary}");
    assert_eq!(summary["totals"]["written"], summary["totals"]["delivered"]);
}

/// Neither the first byte nor the summary can be written.
#[test]
fn output_that_cannot_be_written() {
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    for args in [&["-w", "-"][..], &["--json"]] {
        let ended = wirelane(["capture", "-q", "sim:1?count=10"])
            .args(args)
            .stdout(full())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let stderr = process::unfolded(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains("standard output: ") && stderr.contains("ENOSPC"), "{stderr}");
    }
}
