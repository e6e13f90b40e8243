//! The same queries to stenographer: the packets of the store are sent to stenotype, which records
//! them with the times of their arrival. Then its server is queried.
//!
//! A time in its queries selects whole files, so it finds more packets than the others for a part
//! of the time.
//!
//! The Debian package makes the certificates. The server starts its own recorder: a script that
//! waits takes its place, because no more packets are recorded.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use wirelane::error::{Error, Result};
use wirelane::frame::Batch;
use wirelane::port::OpenOptions;
use wirelane_os::clock;

use super::bed::RecordCable;
use super::traffic::RecordTraffic;
use crate::job::Job;
use crate::peers::process::RunningProgram;
use crate::peers::recorders::{RECORDERS, RecordTask, STENOTYPE};
use crate::peers::{find, missing};
use crate::suites::bed;

/// The server and its client.
pub(super) const STENOGRAPHER: &str = "stenographer";
const CURL: &str = "curl";
const CERTIFICATES: &str = "/etc/stenographer/certs";
const PORT: u16 = 21_234;
/// Packets per second to stenotype, which writes an index entry for every one.
const RATE: f64 = 400_000.0;
const LIMIT: Duration = Duration::from_secs(60);

/// Packets that stenotype has recorded, and the time of recording.
pub(super) struct StenoRecording {
    folder: PathBuf,
    begin: u64,
    end: u64,
}

impl StenoRecording {
    /// Sends packets 0 to `packets` through the cable, and lets stenotype record them in `folder`.
    pub(super) fn write(
        cable: &RecordCable<'_>,
        folder: &Path,
        packets: u64,
        job: &mut Job<'_>,
    ) -> Result<Self> {
        for program in [STENOGRAPHER, CURL] {
            path_of(program)?;
        }
        let steno = RECORDERS.iter().find(|one| one.name == STENOTYPE);
        let steno = steno.ok_or_else(|| Error::failed(STENOTYPE, "is missing"))?;
        let failed = |error| Error::io(folder.display().to_string(), "mkdir", error);
        steno.prepare(folder).map_err(failed)?;
        let recording = RecordTask {
            own: cable.bed.own,
            source: cable.far().interface(),
            folder,
            is_super: false,
            index: true,
            compress: None,
        };
        let mut command = steno.command(&recording)?;
        let mut running =
            RunningProgram::start(&mut command, cable.bed.recorders(), Some(cable.far()))?;
        running.wait_for(steno.ready, LIMIT, job.stop)?;
        let begin = clock::realtime_ns();
        feed(cable, packets, job.stop)?;
        let end = clock::realtime_ns();
        thread::sleep(steno.drain);
        // The last index is written at the end, which takes at most as long as the packets took.
        let limit = LIMIT / 4 + Duration::from_nanos(end - begin);
        let output = cable.end_with_packets(running, limit)?;
        let counts = steno.counts(&output.stdout, &output.stderr);
        let lost = counts.map_or(packets, |counts| counts.dropped);
        if lost > 0 {
            let reason = format!("it lost {lost} of {packets} packets of the store to be queried");
            job.skip(STENOTYPE, reason);
        }
        Ok(Self { folder: folder.to_owned(), begin, end })
    }

    /// Starts the server.
    pub(super) fn serve(&self, stop: &AtomicBool) -> Result<RunningProgram> {
        let failed = |error| Error::io(self.folder.display().to_string(), "write", error);
        let idle = self.folder.join("idle");
        let script = "#!/bin/sh\nwhile kill -0 $PPID; do sleep 1; done\n";
        fs::write(&idle, script).map_err(failed)?;
        fs::set_permissions(&idle, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        let config = serde_json::json!({
            "Threads": [{
                "PacketsDirectory": self.folder.join("PKT0"),
                "IndexDirectory": self.folder.join("IDX0"),
                "MaxDirectoryFiles": 30_000,
                "DiskFreePercentage": 1,
            }],
            "StenotypePath": idle,
            "Interface": "lo",
            "Port": PORT,
            "Host": "127.0.0.1",
            "Flags": [],
            "CertPath": CERTIFICATES,
        });
        let file = self.folder.join("config");
        fs::write(&file, config.to_string()).map_err(failed)?;
        let mut command = Command::new(path_of(STENOGRAPHER)?);
        // Its temporary directory is removed with the folder.
        command.env("TMPDIR", &self.folder);
        command.arg("-config").arg(&file).args(["-syslog=false", "-v", "2"]);
        let cpus = bed::cpus();
        let mut running = RunningProgram::start(&mut command, &cpus, None)?;
        running.wait_for("Starting stenotype", LIMIT, stop)?;
        // It looks for files after it starts.
        thread::sleep(Duration::from_secs(2));
        Ok(running)
    }

    /// The query for an expression of Wirelane. `window` is a part of the time, as shares of the
    /// whole.
    pub(super) fn query(&self, expression: &str, window: Option<[f64; 2]>) -> String {
        let mut text = format!("({expression})");
        for protocol in ["tcp", "udp"] {
            text = text.replace(&format!("{protocol} port"), &format!("{protocol} and port"));
        }
        if let Some([from, to]) = window {
            let at = |share: f64| {
                let time = self.begin + ((self.end - self.begin) as f64 * share) as u64;
                humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(time))
            };
            text.push_str(&format!(" and after {} and before {}", at(from), at(to)));
        }
        text
    }

    /// The command that sends the query to the server, as stenoread does, and writes the answer to
    /// `out`.
    pub(super) fn ask(&self, query: &str, out: &Path) -> Result<Command> {
        let mut command = Command::new(path_of(CURL)?);
        command.args(["--silent", "--show-error", "--fail", "--max-time", "890"]);
        for (option, name) in [
            ("--cert", "client_cert.pem"),
            ("--key", "client_key.pem"),
            ("--cacert", "ca_cert.pem"),
        ] {
            command.arg(option).arg(Path::new(CERTIFICATES).join(name));
        }
        command.arg("-o").arg(out).args(["-d", query]);
        command.arg(format!("https://127.0.0.1:{PORT}/query"));
        Ok(command)
    }

    /// The directories of recorded files, to remove them from the page cache.
    pub(super) fn folders(&self) -> [PathBuf; 2] {
        ["PKT0", "IDX0"].map(|name| self.folder.join(name))
    }
}

/// The path of a program.
fn path_of(program: &'static str) -> Result<PathBuf> {
    find(program).ok_or_else(|| Error::failed(program, missing(program)))
}

/// Sends packets through a packet socket, at [`RATE`].
fn feed(cable: &RecordCable<'_>, packets: u64, stop: &AtomicBool) -> Result<()> {
    let nobody = || Error::failed(STENOTYPE, "nothing of ours sends to it");
    let near = cable.near().ok_or_else(nobody)?;
    let interface = near.interface();
    let options = OpenOptions::default().receive(false).transmit(true);
    let mut port = bed::open(Some(near), &format!("packet:{interface}").parse()?, &options)?;
    let ends = port.tx()?;
    port.start()?;
    let none = || Error::failed(interface, "has no queue to send from");
    let mut tx = ends.into_iter().next().ok_or_else(none)?;
    let (mut traffic, mut batch) = (RecordTraffic::new(), Batch::default());
    let (mut made, begin) = (0, Instant::now());
    while (made < packets || !batch.is_empty()) && !stop.load(Ordering::Relaxed) {
        if made as f64 > RATE * begin.elapsed().as_secs_f64() {
            thread::sleep(Duration::from_millis(1));
        }
        let kept = batch.len();
        let room = batch.room().min(usize::try_from(packets - made).unwrap_or(usize::MAX));
        tx.allocate(&mut batch, room);
        for frame in batch.iter_mut().skip(kept) {
            // Cannot fail: the frames of the port are longer than the packets.
            let _ = frame.fill(traffic.packet(made));
            made += 1;
        }
        let sent = tx.transmit(&mut batch);
        tx.flush()?;
        if sent == 0 {
            tx.wait(Duration::from_millis(1))?;
        }
    }
    tx.drain(Duration::from_secs(1))?;
    port.control().stop();
    Ok(())
}
