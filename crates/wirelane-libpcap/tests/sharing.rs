//! Programs that share an interface: each packet reaches one of them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use wirelane_testkit::libpcap::Library;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, run};
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::{c, packets, privileged, tools};

const PATIENCE: Duration = Duration::from_secs(60);
const QUEUES: u64 = 4;

/// Processes that capture, each on a device and with options.
struct Programs {
    processes: Vec<ChildGuard>,
}

impl Programs {
    /// Starts `program` for each device, options and filter, and waits until all capture.
    fn start(ns: &Namespace, program: &Path, handles: &[[&str; 3]]) -> Self {
        let start = |[device, options, filter]: &[&str; 3]| {
            let mut command = ns.command(program);
            Library::Ours.of(&mut command).arg(device).env("WIRELANE_PCAP", options);
            if !filter.is_empty() {
                command.arg(filter);
            }
            ChildGuard::spawn(&mut command)
        };
        let mut processes: Vec<_> = handles.iter().map(start).collect();
        for process in &mut processes {
            process.wait_until(PATIENCE, |process| process.stdout().starts_with("ready\n"));
        }
        Self { processes }
    }

    /// The sequence numbers of each process, once they have `count` together, which is all.
    fn finish(mut self, count: usize) -> Vec<Vec<u64>> {
        let lines = |process: &ChildGuard| process.stdout().lines().count().saturating_sub(1);
        let (first, others) = self.processes.split_at_mut(1);
        first[0].wait_until(PATIENCE, |first| {
            lines(first) + others.iter().map(lines).sum::<usize>() >= count
        });
        let mut got = Vec::new();
        let mut received = 0;
        for process in &self.processes {
            process.interrupt();
        }
        for process in self.processes {
            let output = process.wait(PATIENCE);
            assert!(output.status.success(), "{}", output.stderr);
            let mut numbers = Vec::new();
            for line in output.stdout.lines().skip(1) {
                if let Some(counts) = line.strip_prefix("end -2: ") {
                    let (all, dropped) = counts.split_once(" received, ").unwrap();
                    assert_eq!(dropped, "0 dropped");
                    received += all.parse::<usize>().unwrap();
                    continue;
                }
                numbers.push(packets::sequence(&unhex(line)).unwrap());
            }
            got.push(numbers);
        }
        // Packets that arrived after the last check are counted, too.
        assert_eq!(received, count);
        got
    }
}

fn unhex(line: &str) -> Vec<u8> {
    let digits: Vec<_> = line.chars().map(|digit| digit.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn all(got: &[Vec<u64>]) -> Vec<u64> {
    let mut all = got.concat();
    all.sort_unstable();
    all
}

/// Each test compiles its own copy, because tests run in parallel.
fn program(name: &str) -> PathBuf {
    compiled("tests/sharing.c", name)
}

fn compiled(source: &str, name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    c::compile("gcc", &program, [source.as_os_str(), "-lpcap".as_ref()]);
    program
}

/// Writes a packet for each number, with the queue and the flow that the number selects.
fn write(tap: &MultiQueueTap, numbers: impl IntoIterator<Item = u64>) {
    for n in numbers {
        tap.write((n % QUEUES) as usize, &packets::udp4(n).flow((n % 40) as u16).build());
    }
}

#[test]
fn privileged_four_processes_share_by_flow() {
    if !privileged::require() || !tools::require("gcc") {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-pflow", QUEUES as usize);
    let handle = ["wl-pflow", "share=flow:7", ""];
    let programs = Programs::start(&ns, &program("share-flow"), &[handle; 4]);
    write(&tap, 0..400);
    let got = programs.finish(400);
    assert_eq!(all(&got), (0..400).collect::<Vec<_>>());
    let mut owners = BTreeMap::new();
    for (process, numbers) in got.iter().enumerate() {
        for n in numbers {
            assert_eq!(*owners.entry(n % 40).or_insert(process), process, "a flow stays together");
        }
        assert!(numbers.is_sorted());
    }
    assert!(got.iter().filter(|numbers| !numbers.is_empty()).count() > 1, "{got:?}");
}

#[test]
fn privileged_four_processes_share_by_queue() {
    if !privileged::require() || !tools::require("gcc") {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-pqueue", QUEUES as usize);
    let handle = ["wl-pqueue", "share=queue", ""];
    let programs = Programs::start(&ns, &program("share-queue"), &[handle; 4]);
    write(&tap, 0..400);
    let mut got = programs.finish(400);
    // The first program has queue 0.
    got.sort();
    for (queue, numbers) in (0..).zip(got) {
        assert_eq!(numbers, (0..400).filter(|n| n % QUEUES == queue).collect::<Vec<_>>());
    }
}

#[test]
fn privileged_four_processes_have_a_queue_each() {
    if !privileged::require() || !tools::require("gcc") {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-peach", QUEUES as usize);
    let handles = [
        ["wirelane:packet:wl-peach@0", "", ""],
        ["wirelane:wl-peach@1", "", ""],
        ["wl-peach", "queues=2", ""],
        ["wl-peach", "ring=1M,queues=3,retire=5ms", ""],
    ];
    let programs = Programs::start(&ns, &program("share-each"), &handles);
    write(&tap, 0..400);
    for (queue, numbers) in (0..).zip(programs.finish(400)) {
        assert_eq!(numbers, (0..400).filter(|n| n % QUEUES == queue).collect::<Vec<_>>());
    }
}

/// Each program filters its own share; a program that does not share gets every packet.
#[test]
fn privileged_filters_are_each_programs_own() {
    if !privileged::require() || !tools::require("gcc") {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-pfilt", QUEUES as usize);
    let handles = [
        ["wl-pfilt", "share=queue", "udp"],
        ["wl-pfilt", "share=queue", "tcp"],
        ["wl-pfilt", "", "udp"],
    ];
    let programs = Programs::start(&ns, &program("share-filter"), &handles);
    write(&tap, 0..40);
    let got = programs.finish(60);
    assert!(got[1].is_empty());
    // Two of the four queues.
    assert_eq!(got[0].len(), 20);
    assert_eq!(got[2], (0..40).collect::<Vec<_>>());
}

/// The example: a handle and a thread for each queue.
#[test]
fn one_process_has_a_thread_for_each_queue() {
    if !tools::require("gcc") {
        return;
    }
    let program = compiled("examples/queues.c", "queues");
    let devices = [0, 1, 2, 3].map(|queue| format!("wirelane:sim:4@{queue}?count=4000&flows=64"));
    let counted = run(Library::Ours.of(&mut Command::new(program)).args(&devices));
    let counts = counted.lines().zip(&devices).map(|(line, device)| {
        let counts = line.strip_prefix(device.as_str()).unwrap();
        let (packets, dropped) = counts.split_once(" packets, ").unwrap();
        assert_eq!(dropped, "0 dropped");
        packets.trim_start_matches(": ").parse::<u64>().unwrap()
    });
    let counts: Vec<_> = counts.collect();
    assert_eq!(counts.len(), 4, "{counted}");
    assert_eq!(counts.iter().sum::<u64>(), 4000, "{counted}");
    assert!(counts.iter().all(|count| *count > 0), "{counted}");
}
