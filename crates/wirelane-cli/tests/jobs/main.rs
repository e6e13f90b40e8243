//! Everyday jobs, each done by `wirelane` and by the usual tool at the same time: both have the
//! same packets.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "other commands need more")]
mod shared;

#[path = "../shared/peer.rs"]
mod peer;
#[path = "../shared/running.rs"]
#[allow(dead_code, reason = "other tests need more")]
mod running;

mod bridge;
mod change;
mod counters;
mod direction;
mod drops;
mod http;
mod lan;
mod offload;
mod ring;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use wirelane_testkit::{privileged, tools};

use self::lan::Lan;
use self::peer::Peer;
use self::running::Running;
use self::shared::*;

/// Whether a test that needs root and these programs must be skipped.
#[track_caller]
fn unavailable(programs: &[&str]) -> bool {
    !privileged::require() || !programs.iter().all(|program| tools::require(program))
}

/// Marks in the pings that begin and end a job, and in earlier pings that show which capture is
/// ready.
const READY: &[u8; 8] = b"are read";
const BEGIN: &[u8; 8] = b"first ok";
const LAST: &[u8; 8] = b"last one";

/// A packet without its time: its length on the wire, and its bytes. The kernel makes a separate
/// time for each socket unless a program requests one, as ping does.
type Seen = (u32, Vec<u8>);

/// The packets of a file, by time.
#[track_caller]
fn seen(file: &Path) -> Vec<Seen> {
    let mut packets = packets(file);
    packets.sort_by_key(|packet| packet.timestamp);
    packets.into_iter().map(|it| (it.original_len, it.data)).collect()
}

/// The packets from the first one that holds `first` to the last one that holds `last`, both
/// included, by content.
///
/// This leaves out packets that one program captured before the others were ready, or after they
/// had ended.
#[track_caller]
fn between(file: &Path, first: &[u8], last: &[u8]) -> Vec<Seen> {
    let mut seen = seen(file);
    let holds = |mark: &[u8], it: &Seen| it.1.windows(mark.len()).any(|bytes| bytes == mark);
    let begin = seen.iter().position(|it| holds(first, it)).expect("the first packet");
    let end = seen.iter().rposition(|it| holds(last, it)).expect("the last packet");
    seen.truncate(end + 1);
    seen.drain(..begin);
    seen.sort();
    seen
}

/// Both lists have the same packets.
#[track_caller]
fn assert_same(ours: &[Seen], theirs: &[Seen]) {
    let lengths = |packets: &[Seen]| packets.iter().map(|it| it.0).collect::<Vec<_>>();
    assert_eq!(lengths(ours), lengths(theirs));
    let other = ours.iter().zip(theirs).position(|(our, their)| our != their);
    if let Some(at) = other {
        let heads = |packets: &[Seen]| {
            let near = packets.iter().skip(at.saturating_sub(1)).take(4);
            near.map(|it| format!("{:02x?}", &it.1[..it.1.len().min(48)])).collect::<Vec<_>>()
        };
        panic!("packet {at} is another: {:#?} {:#?}", heads(ours), heads(theirs));
    }
}

/// A `wirelane capture -w FILE ARGS` and other programs that capture the same packets.
struct Both {
    ours: (Running, PathBuf),
    theirs: Vec<Peer>,
}

impl Both {
    /// Waits until all of them capture packets: `speak` sends one that holds `mark`.
    #[track_caller]
    fn ready(&mut self, mark: &[u8], speak: impl Fn()) {
        while !self.theirs.iter().all(|peer| peer.count(mark) > 0) {
            speak();
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends all of them once each has `packets` packets that hold `last`. Returns the files of
    /// Wirelane and of the others.
    #[track_caller]
    fn finish(self, last: &[u8], packets: usize) -> (PathBuf, Vec<PathBuf>) {
        let theirs = self.theirs.into_iter().map(|peer| peer.finish(last, packets)).collect();
        finish(self.ours.0);
        (self.ours.1, theirs)
    }
}

/// Ends Wirelane's capture, which must have lost nothing. Returns its summary.
#[track_caller]
fn finish(capture: Running) -> Value {
    let summary = capture.finish();
    assert_eq!(summary["totals"]["dropped"], 0, "{summary}");
    summary
}
