//! Readers of pipes that block, never open the pipe, or close it early.

use std::io::Read;
use std::process::Stdio;

use rustix::process::Signal;

use super::*;

/// The way in which an endless command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Duration,
    Signal,
}

impl Bed {
    /// Commands that end by their duration, or by a signal; a merge has no duration.
    fn ends(&self, kind: Kind, file: &Path) -> Vec<(End, Vec<String>)> {
        let mut ends = vec![(End::Signal, self.endless(kind, file))];
        if kind != Kind::Merge {
            let second = words(&["--duration", "1s"]);
            ends.push((End::Duration, [self.endless(kind, file), second].concat()));
        }
        ends
    }

    /// Ends the running command.
    #[track_caller]
    fn end_by(&self, end: End, child: ChildGuard) -> Output {
        if end == End::Signal {
            child.signal(Signal::TERM);
            return self.end(child);
        }
        child.wait(self.bound + Duration::from_secs(1))
    }
}

/// Reads a full pipe and closes it: it holds whole blocks with all packets that were written.
#[track_caller]
fn assert_read(kind: Kind, ended: &Output, mut reader: File, bed: &Bed) {
    let written = written(kind, ended).unwrap();
    let mut bytes = vec![0; 1 << 20];
    let count = reader.read(&mut bytes).unwrap();
    let file = bed.path("read.pcapng");
    std::fs::write(&file, &bytes[..count]).unwrap();
    assert_eq!(packets(&file).len() as u64, written, "{kind:?}: {}", ended.stderr);
    assert!(written > 0, "{kind:?}");
}

#[test]
fn a_reader_takes_nothing() {
    let mut bed = Bed::new();
    for kind in KINDS {
        for position in 0..2 {
            bed.renew_pipe();
            let fifo = bed.path(&format!("{kind:?}{position}"));
            run(Command::new("mkfifo").arg(&fifo));
            let Some((end, args)) = bed.ends(kind, &fifo).into_iter().nth(position) else {
                continue;
            };
            let reader = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
            let mut child = ChildGuard::spawn(&mut wirelane(args));
            let is_full = |_: &ChildGuard| rustix::io::ioctl_fionread(&reader).unwrap() > 20_000;
            child.wait_until(PATIENCE, is_full);
            let ended = bed.end_by(end, child);
            assert_told(kind, &ended, &["takes nothing"]);
            assert_read(kind, &ended, reader, &bed);
        }
    }
}

/// The same on standard output, where the summary cannot be read: the error names the number of
/// packets.
#[test]
fn a_reader_of_standard_output_takes_nothing() {
    let bed = Bed::new();
    for kind in KINDS {
        for (end, args) in bed.ends(kind, Path::new("-")) {
            let args = args.iter().filter(|arg| *arg != "--json");
            let mut child = Command::new("timeout")
                // If it hangs, kill it.
                .args(["--signal=KILL", "120", WIRELANE])
                .args(args)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut reader = child.stdout.take().unwrap();
            let deadline = Instant::now() + PATIENCE;
            while rustix::io::ioctl_fionread(&reader).unwrap() < 20_000 {
                assert!(Instant::now() < deadline, "{kind:?} writes nothing");
                std::thread::sleep(Duration::from_millis(5));
            }
            let asked = Instant::now();
            if end == End::Signal {
                // timeout(1) forwards the signal to its child.
                let pid = rustix::process::Pid::from_child(&child);
                rustix::process::kill_process(pid, Signal::TERM).unwrap();
            }
            let status = child.wait().unwrap();
            assert!(asked.elapsed() < bed.bound + Duration::from_secs(1), "{kind:?} {end:?}");
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            assert_eq!(status.code(), Some(1), "{kind:?} {end:?}: {stderr}");
            assert!(stderr.contains("takes nothing"), "{kind:?}: {stderr}");
            let (before, _) = stderr.split_once(" packets are safely in the file").unwrap();
            let safe: usize = before.rsplit(' ').next().unwrap().parse().unwrap();
            let (mut bytes, file) = (Vec::new(), bed.path("read.pcapng"));
            reader.read_to_end(&mut bytes).unwrap();
            std::fs::write(&file, bytes).unwrap();
            assert_eq!(packets(&file).len(), safe, "{kind:?}");
        }
    }
}

#[test]
fn nobody_comes_to_read() {
    let bed = Bed::new();
    for kind in KINDS {
        for position in 0..2 {
            let fifo = bed.path(&format!("{kind:?}{position}"));
            run(Command::new("mkfifo").arg(&fifo));
            let Some((end, args)) = bed.ends(kind, &fifo).into_iter().nth(position) else {
                continue;
            };
            // A merge of files alone: it waits only for the reader.
            let args = if kind == Kind::Merge { bed.finite(kind, &fifo) } else { args };
            let mut child = ChildGuard::spawn(&mut wirelane(args));
            child.wait_until(PATIENCE, |child| catches(child, Signal::TERM));
            let ended = bed.end_by(end, child);
            assert_told(kind, &ended, &["before anything read from it"]);
            assert_eq!(ended.stdout, "", "it has not begun");
        }
    }
}

/// Whether it has a handler: without one, the signal would end it anyway.
fn catches(child: &ChildGuard, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    let status = status.unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask, 16).ok());
    caught.is_some_and(|mask| mask & 1 << (signal.as_raw() - 1) != 0)
}

/// A reader that reads a little and closes is a clean end.
#[test]
fn a_reader_goes_away() {
    let bed = Bed::new();
    for kind in KINDS {
        let fifo = bed.path(&format!("{kind:?}"));
        run(Command::new("mkfifo").arg(&fifo));
        let child = ChildGuard::spawn(&mut wirelane(bed.endless(kind, &fifo)));
        let mut some = [0; 10_000];
        File::open(&fifo).unwrap().read_exact(&mut some).unwrap();
        let ended = bed.end(child);
        assert_eq!(ended.status.code(), Some(0), "{kind:?}: {}", ended.stderr);
        assert!(written(kind, &ended).unwrap() > 0);
    }
}

/// A slow reader gets all packets, however long it takes: the command has no reason to end early.
#[test]
fn a_slow_reader_gets_everything() {
    let bed = Bed::new();
    for kind in KINDS {
        let fifo = bed.path(&format!("{kind:?}"));
        run(Command::new("mkfifo").arg(&fifo));
        let input = format!("file:{}", bed.path("in.pcapng").display());
        let args = match kind {
            Kind::Merge => bed.merge(&["in.pcapng"], &fifo),
            _ => from(&input, kind, &fifo),
        };
        let child = ChildGuard::spawn(&mut wirelane(args));
        let mut reader = File::open(&fifo).unwrap();
        let (mut bytes, mut part) = (Vec::new(), vec![0; 100_000]);
        // Longer than any time limit for blocked readers.
        std::thread::sleep(Duration::from_millis(2500));
        loop {
            let count = reader.read(&mut part).unwrap();
            bytes.extend_from_slice(&part[..count]);
            if count == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let ended = bed.end(child);
        assert_eq!(ended.status.code(), Some(0), "{kind:?}: {}", ended.stderr);
        let file = bed.path(&format!("{kind:?}.pcapng"));
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(assert_written(kind, &ended, &file), Some(5000));
    }
}
