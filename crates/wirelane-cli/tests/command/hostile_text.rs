//! Foreign text does not control the terminal: every printed field of a capture file lacks the
//! characters that a terminal would obey, and ends no line.

use tempfile::tempdir;
use wirelane_testkit::files::below;
use wirelane_wire::text::is_hostile;

use super::foreign::{block, option, words};
use super::*;

/// A title, a cleared screen, forged lines, colours (C0 and C1), and an order turned around.
const HOSTILE: &str = "\u{1b}]0;title\u{7}\u{1b}[2J\r\nwirelane: forged\n\u{9b}31m\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}x";

/// A file in which each text is `text`: of the section, the interface, its statistics, the packet.
fn capture_file(text: &str) -> Vec<u8> {
    let options = |codes: &[u16]| -> Vec<u8> {
        codes.iter().flat_map(|code| option(*code, text.as_bytes())).chain([0; 4]).collect()
    };
    let filter = [&[0], text.as_bytes()].concat();
    let section = [&words(&[0x1A2B_3C4D, 1, u32::MAX, u32::MAX])[..], &options(&[1, 2, 3, 4])];
    let interface = [&words(&[1, 0])[..], &option(11, &filter), &options(&[1, 2, 3, 12, 15])];
    let mut frame = wirelane_testkit::packets::udp4(1).build();
    let len = frame.len() as u32;
    frame.resize(frame.len().next_multiple_of(4), 0);
    let packet = [&words(&[0, 0, 0, len, len])[..], &frame, &options(&[1])];
    let statistics = [&words(&[0; 3])[..], &options(&[1])];
    [block(0x0A0D_0D0A, &section), block(1, &interface), block(6, &packet), block(5, &statistics)]
        .concat()
}

/// The output and the errors of each command for such a file.
fn printed(text: &str) -> Vec<(String, Output)> {
    let root = tempdir().unwrap();
    std::fs::write(root.path().join("f.pcapng"), capture_file(text)).unwrap();
    let commands = [
        "capture -r f.pcapng",
        "capture -r f.pcapng -v",
        "capture -r f.pcapng -e -XX",
        "capture file:f.pcapng -w w.pcapng",
        "capture file:f.pcapng -w j.pcapng --json",
        "count f.pcapng",
        "count f.pcapng --by queue",
        "count f.pcapng --json",
        "flows f.pcapng",
        "flows f.pcapng --json",
        "flows f.pcapng --format csv -w -",
        "flows f.pcapng --format json -w -",
        "top-talkers f.pcapng",
        "record file:f.pcapng store --keep-privileges",
        "record file:f.pcapng store2 --keep-privileges --json",
        "extract store --list",
        "extract store --list --json",
        "extract store --count",
        "extract store -w x.pcapng",
        "record --check store",
        "forward file:f.pcapng sim:1",
        "send file:f.pcapng sim:1 --top-speed",
        "convert f.pcapng c.pcapng",
        "convert f.pcapng c.pcap",
        "merge f.pcapng f.pcapng -w m.pcapng",
        "verify f.pcapng --notes",
        "verify f.pcapng --json",
    ];
    let run = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane"));
        command.current_dir(root.path()).args(line.split(' '));
        (line.to_owned(), output(&mut command))
    };
    commands.iter().map(|line| run(line)).collect()
}

#[test]
fn no_field_of_a_file_commands_the_terminal() {
    let (plain, hostile) = (printed("plain"), printed(HOSTILE));
    let mut shown = 0;
    for ((command, plain), (_, hostile)) in plain.iter().zip(&hostile) {
        for (plain, hostile) in [(&plain.stdout, &hostile.stdout), (&plain.stderr, &hostile.stderr)]
        {
            let bad = |c: char| is_hostile(c) && !matches!(c, '\n' | '\t');
            assert!(!hostile.contains(bad), "{command}: {hostile:?}");
            assert_eq!(hostile.lines().count(), plain.lines().count(), "{command}: {hostile}");
            assert!(hostile.lines().all(|line| line != "wirelane: forged"), "{command}");
            shown += usize::from(plain.contains("plain"));
        }
        assert_eq!(hostile.status, plain.status, "{command}: {}", hostile.stderr);
    }
    assert!(shown >= 5, "names are printed at all: {shown}");
}

/// The list names every source file that writes to the terminal without `output`; review a new one.
#[test]
fn every_line_passes_through_one_place() {
    let mut others: Vec<String> = Vec::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for path in below(&source) {
        let text = fs::read_to_string(&path).unwrap();
        let ways = ["println!(", "eprintln!(", " print!(", "stdout()", "stderr()"];
        let name = path.strip_prefix(&source).unwrap().to_str().unwrap().to_owned();
        if ways.iter().any(|way| text.contains(way)) && !name.contains("test") {
            others.push(name);
        }
    }
    let known = [
        // Each passes its lines through `wirelane_wire::text`.
        "commands/copying.rs",
        "commands/flows/program.rs",
        "commands/verify.rs",
        // Messages of clap about the user's own arguments.
        "lib.rs",
        // Only whether it is a terminal; a copy of the descriptor for records.
        "commands/flows/arguments.rs",
        "commands/flows/output.rs",
        "commands/flows/sinks.rs",
        "print/arguments.rs",
        // Lines of packets, by `wirelane-print`.
        "print/lines.rs",
        // The place itself.
        "output/mod.rs",
        "output/screen.rs",
    ];
    let unknown: Vec<_> = others.iter().filter(|name| !known.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "these print, too: {unknown:?}");
}
