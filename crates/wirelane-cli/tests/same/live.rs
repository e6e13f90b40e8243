//! Interfaces × traffic × commands, compared with the file of the same packets.

use std::path::Path;
use std::process::Command as Process;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::{TempDir, tempdir};
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, output};
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::{privileged, tools};

use crate::cells::{Cells, Outcome, Told, difference};
use crate::commands::{COMMANDS, Command};
use crate::files;
use crate::forms::{FORMS, Given, NAME};
use crate::ports::{By, PORTS, Port};
use crate::shared::{PATIENCE, QUICK, WIRELANE, wirelane};
use crate::traffic::{Packet, TRAFFIC};

#[test]
fn privileged_interfaces_give_the_same_answers_as_the_file() {
    if !privileged::require() || !tools::require("tcpdump") {
        return;
    }
    let rows = TRAFFIC.iter().filter(|traffic| traffic.live);
    Cells::of_rows(rows, |traffic| of_traffic(traffic.name, &(traffic.make)())).finish();
}

/// Commands that take packets from an interface.
fn live() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(|command| command.lines[0].contains("IN"))
}

fn of_traffic(traffic: &str, packets: &[Packet]) -> Cells {
    let directory = tempdir().unwrap();
    let file = (FORMS[0].write)(packets, directory.path());
    let expected: Vec<_> = live().map(|command| files::run(command, &file, Given::File)).collect();
    let mut cells = Cells::default();
    for port in PORTS {
        let told = Told { times: false, places: port.places, order: port.times };
        for ((command, expected), outcome) in live().zip(&expected).zip(answers(port, packets)) {
            let cannot_tell = !told.places && command.name == "count by queue"
                || !port.times && command.follows_from_times();
            if cannot_tell {
                continue;
            }
            let difference = if port.refused.contains(&command.name) {
                outcome.is_ok().then(|| "is not refused".into())
            } else {
                difference(expected, &outcome, told)
            };
            cells.add([port.name, traffic, command.name], difference);
        }
    }
    cells
}

fn answers(port: &Port, packets: &[Packet]) -> Vec<Outcome> {
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, NAME, port.queues);
    let send = || {
        let queue = |packet: &Packet| packet.queue as usize % port.queues;
        packets.iter().for_each(|packet| tap.write(queue(packet), &packet.data));
    };
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    match port.by {
        By::Itself(port, options) => {
            let quick = if port.contains('?') { "" } else { QUICK };
            let words = format!("{port}{quick}{options}");
            return by_commands(&ns, &words, packets.len(), send);
        }
        By::Capture(words) => {
            let line = format!("capture -q {words} -w {}", file.display());
            let mut capture = Live::start(&ns, &line, tempdir().unwrap());
            capture.wait_until_ready();
            send();
            capture.finish(packets.len()).unwrap();
        }
        By::Tcpdump => by_tcpdump(ns.command("tcpdump"), &file, packets.len(), send),
        By::ExecTcpdump => {
            let mut command = ns.command(WIRELANE);
            Library::Stock.of(&mut command).args(["exec", "--library"]);
            command.arg(Library::Ours.file()).args(["--", "tcpdump"]);
            by_tcpdump(command, &file, packets.len(), send);
        }
    }
    live().map(|command| files::run(command, &file, Given::File)).collect()
}

/// All commands at once. They are stopped until all packets have arrived, so none can keep up by
/// chance.
fn by_commands(ns: &Namespace, port: &str, packets: usize, send: impl Fn()) -> Vec<Outcome> {
    let start = |command: &Command| {
        Live::start(ns, &command.lines[0].replace("IN", port), tempdir().unwrap())
    };
    let mut running: Vec<_> = live().map(start).collect();
    running.iter_mut().for_each(Live::wait_until_ready);
    running.iter().for_each(|live| live.signal(Signal::STOP));
    send();
    running.iter().for_each(|live| live.signal(Signal::CONT));
    let end = |(command, mut live): (&Command, Live)| {
        let mut printed = live.finish(packets)?;
        for line in &command.lines[1..] {
            printed = output(wirelane(line.split(' ')).current_dir(&live.directory)).stdout;
        }
        Ok((command.answer)(&printed, live.directory.path()))
    };
    live().zip(running).map(end).collect()
}

fn by_tcpdump(mut command: Process, file: &Path, packets: usize, send: impl Fn()) {
    command.args(["-Z", "root", "-U", "-s", "0", "-i", NAME, "-w"]).arg(file);
    let mut tcpdump = ChildGuard::spawn(&mut command);
    tcpdump.wait_until(PATIENCE, |tcpdump| tcpdump.stderr().contains("listening on"));
    send();
    let deadline = Instant::now() + GRACE;
    let count = || crate::shared::readable(file).0.len();
    while (!file.exists() || count() < packets) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
    tcpdump.interrupt();
    assert!(tcpdump.wait(PATIENCE).status.success());
}

/// Packets that have not arrived after this time are lost.
const GRACE: Duration = Duration::from_secs(20);

/// A command that runs.
pub(crate) struct Live {
    line: String,
    child: Option<ChildGuard>,
    pub(crate) directory: TempDir,
}

impl Live {
    pub(crate) fn start(ns: &Namespace, line: &str, directory: TempDir) -> Self {
        let mut command = ns.command(WIRELANE);
        command.args(line.split(' ')).current_dir(&directory);
        let child = Some(ChildGuard::spawn(&mut command));
        Self { line: line.into(), child, directory }
    }

    pub(crate) fn wait_until_ready(&mut self) {
        let child = self.child.as_mut().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while child.is_running() && delivered(child).is_none() {
            assert!(Instant::now() < deadline, "`{}` is not ready: {}", self.line, child.stderr());
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.child.iter().for_each(|child| child.signal(signal));
    }

    /// Its output so far.
    pub(crate) fn printed(&self) -> String {
        self.child.as_ref().map_or_else(String::new, ChildGuard::stdout)
    }

    /// Ends the command once it has `packets` packets; returns its output.
    pub(crate) fn finish(&mut self, packets: usize) -> Result<String, String> {
        let mut child = self.child.take().unwrap();
        if !self.line.contains(" -c ") {
            let deadline = Instant::now() + GRACE;
            let is_done = |child: &ChildGuard| delivered(child) >= Some(packets as u64);
            while child.is_running() && !is_done(&child) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(20));
            }
            child.interrupt();
        }
        let ended = child.wait(PATIENCE);
        let said = || format!("`{}` ends with {}: {}", self.line, ended.status, ended.stderr);
        if ended.status.success() { Ok(ended.stdout.clone()) } else { Err(said()) }
    }
}

/// The number of its packets, once it takes some.
fn delivered(child: &ChildGuard) -> Option<u64> {
    let said = output(&mut wirelane(["stats", "--json", &child.id().to_string()]));
    let statistics: Value = serde_json::from_str(&said.stdout).ok()?;
    statistics["totals"]["delivered"].as_u64()
}
