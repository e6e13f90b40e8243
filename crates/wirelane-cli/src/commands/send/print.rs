//! Shows the first packets without sending them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use wirelane::Result;
use wirelane::halt::Halt;
use wirelane_gen::ThreadShare;

use super::arguments::SendArgs;
use super::content::SendContent;
use crate::output;

/// Prints the first `count` packets in hex, and as tshark reads them.
///
/// # Errors
/// There is nothing to send, or standard output cannot be written.
pub(super) fn run(args: &SendArgs, count: u64, halt: &Halt) -> Result<()> {
    let mut args = args.clone();
    // Without a port, the first argument is a file.
    if args.files.is_empty() && args.packet.is_empty() && args.flows.is_none() {
        args.files.extend(args.target.take().map(PathBuf::from));
    }
    // The speed of which `--rate` takes a share, because there is no link.
    let mut content = SendContent::open(&args, Some(LINK), 1, halt)?;
    let mut source = content.source(ThreadShare::ALL)?;
    let mut capture = file_header();
    let mut printed = 0;
    while printed < count && !halt.is_asked() {
        let Some(next) = source.next()? else { break };
        let mut packet = vec![0; next.len];
        source.write(&mut packet, next.at);
        printed += 1;
        output::print(&page(printed, next.at, &packet))?;
        add(&mut capture, next.at, &packet);
    }
    if let Some(text) = dissected(capture) {
        output::print(&text)?;
    }
    content.notes().iter().for_each(output::note);
    Ok(())
}

const LINK: u64 = 10_000_000_000;

/// One packet for people.
fn page(number: u64, at: u64, packet: &[u8]) -> String {
    let seconds = at as f64 / 1e9;
    let mut page = format!("packet {number}: {} bytes, at {seconds:.9} s\n", packet.len());
    for (row, bytes) in packet.chunks(16).enumerate() {
        let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(page, "  {:04x}  {}", row * 16, hex.join(" "));
    }
    page
}

/// A pcap file with nanoseconds, Ethernet.
fn file_header() -> Vec<u8> {
    let words: [u32; 6] = [0xA1B2_3C4D, 4 << 16 | 2, 0, 0, 262_144, 1];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn add(capture: &mut Vec<u8>, at: u64, packet: &[u8]) {
    let len = packet.len() as u32;
    for word in [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, len, len] {
        capture.extend_from_slice(&word.to_le_bytes());
    }
    capture.extend_from_slice(packet);
}

/// The packets as tshark reads them, a line for each; `None` without tshark.
fn dissected(capture: Vec<u8>) -> Option<String> {
    let mut child = Command::new("tshark")
        .args(["-n", "-r", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut input = child.stdin.take()?;
    // tshark may end early: the error is then of no use.
    let writer = thread::spawn(move || drop(input.write_all(&capture)));
    let output = child.wait_with_output().ok()?;
    let _ = writer.join();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text).filter(|text| !text.is_empty())
}
