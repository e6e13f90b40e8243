//! Checks our files with tshark, capinfos and the compressors.

use std::process::{Command, Stdio};

use super::*;

/// Runs a program and gives its standard output. `None`, said aloud, if it is not installed; then
/// `WIRELANE_REQUIRE_TOOLS=1` makes it a failure.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            let required = std::env::var("WIRELANE_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
            assert!(!required, "{program} is required: {error}");
            let _ = writeln!(std::io::stderr(), "SKIPPED: {program} is not installed");
            return None;
        }
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    let complaint =
        errors.lines().find(|line| !line.contains("Running as user") && !line.is_empty());
    assert_eq!(complaint, None, "{program} {arguments:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

use std::io::Write;

/// An Ethernet frame of an experimental type, so that no dissector objects to its content.
fn frame(size: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.resize(size.max(14), 0x2a);
    frame
}

fn sample() -> Vec<Owned> {
    let sizes = [14, 60, 61, 62, 63, 64, 1514, 9014, 262_144];
    let record = |(index, size): (usize, usize)| Owned {
        direction: [Direction::Unknown, Direction::Inbound, Direction::Outbound][index / 3],
        original_len: size as u32 + 10,
        ..Owned::new(
            index as u32 % 3,
            1_700_000_000_000_000_000 + index as u64 * 1_000_000_007,
            &frame(size),
        )
    };
    sizes.into_iter().enumerate().map(record).collect()
}

#[test]
fn tshark_agrees() {
    let directory = tempfile::tempdir().unwrap();
    let records = sample();
    for suffix in ["pcapng", "pcapng.gz", "pcap", "pcap.gz"] {
        let path = directory.path().join("a").with_extension(suffix);
        let name = path.to_str().unwrap();
        write(&path, &records);
        let fields = ["frame.time_epoch", "frame.cap_len", "frame.len", "frame.interface_id"];
        let mut arguments = vec!["-r", name, "-T", "fields"];
        for field in fields.iter().chain(&["frame.interface_name", "frame.interface_description"]) {
            arguments.extend(["-e", field]);
        }
        arguments.extend(["-e", "frame.packet_flags_direction"]);
        let Some(text) = run("tshark", &arguments) else { return };
        let expected: Vec<_> = records
            .iter()
            .map(|record| {
                let (seconds, rest) =
                    (record.timestamp / 1_000_000_000, record.timestamp % 1_000_000_000);
                let sizes = format!("{}\t{}", record.data.len(), record.original_len);
                let source = &sources()[record.interface as usize];
                let direction = match record.direction {
                    Direction::Unknown => "",
                    Direction::Inbound => "0x00000001",
                    Direction::Outbound => "0x00000002",
                };
                let interface = if suffix.starts_with("pcapng") {
                    format!(
                        "{}\t{}\t{}\t{direction}",
                        record.interface,
                        source.name,
                        source.describe()
                    )
                } else {
                    "\t\t\t".into()
                };
                format!("{seconds}.{rest:09}\t{sizes}\t{interface}")
            })
            .collect();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines, expected, "{suffix}");
    }
}

#[test]
fn capinfos_agrees() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng");
    write(&path, &sample());
    let Some(text) = run("capinfos", &["-M", path.to_str().unwrap()]) else { return };
    for line in [
        "Number of packets:   9",
        "Number of interfaces in file: 3",
        "Name = eth0",
        "Description = rx queue 3",
        "Description = other",
        "Hardware = sim",
        "Operating system = Linux 6.18",
        "Speed = 25000000000",
        "Filter string = udp port 53",
        "Time resolution = 0x09",
        "Time precision = nanoseconds (9)",
        "Number of stat entries = 1",
        "Number of stat entries = 0",
        "Capture application: wirelane 0.1.0",
    ] {
        assert!(text.contains(line), "no {line:?} in:\n{text}");
    }
}

#[test]
fn reads_what_tshark_and_editcap_write() {
    let directory = tempfile::tempdir().unwrap();
    let original = directory.path().join("a.pcapng");
    let records = sample();
    write(&original, &records);
    for (format, unit) in [("pcapng", 1), ("pcap", 1000), ("nsecpcap", 1)] {
        let copy = directory.path().join(format);
        let arguments = ["-F", format, original.to_str().unwrap(), copy.to_str().unwrap()];
        if run("editcap", &arguments).is_none() {
            return;
        }
        let (read, error) = read_all(&copy);
        assert!(error.is_none(), "{format}: {error:?}");
        let short =
            |record: &Owned| (record.timestamp / unit, record.original_len, record.data.clone());
        assert!(read.iter().map(short).eq(records.iter().map(short)), "{format}");
    }
}

#[test]
fn the_compressors_agree() {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("a.pcapng");
    // Enough for several compressed chunks.
    let records: Vec<_> = (0..300).flat_map(|_| sample().into_iter().skip(5).take(3)).collect();
    write(&plain, &records);
    let content = std::fs::read(&plain).unwrap();
    assert!(content.len() > 3_000_000);
    for (program, suffix) in [("gzip", "pcapng.gz"), ("lz4", "pcapng.lz4"), ("zstd", "pcapng.zst")]
    {
        let ours = plain.with_extension(suffix);
        let compression = Compression::of_path(&ours).unwrap();
        let (first, last) = (*compression.levels().start(), *compression.levels().end());
        for (level, threads) in [(first, 1), (first, 4), (last.min(6), 2), (last, 3)] {
            write_as(&ours, &records, CompressionOptions { compression, level, threads });
            if run(program, &["-t", "-q", ours.to_str().unwrap()]).is_none() {
                return;
            }
            let unpackers = [program, if program == "zstd" { "pzstd" } else { program }];
            for unpacker in unpackers {
                let output = Command::new(unpacker).args(["-d", "-c"]).arg(&ours).output().unwrap();
                assert!(output.stdout == content, "{unpacker}: other bytes, level {level}");
            }
            assert_eq!(read_all(&ours).0.len(), records.len());
            // Of the others, Wireshark 4.0 knows files of one frame only.
            if program == "gzip" {
                let Some(text) = run("capinfos", &["-M", "-c", ours.to_str().unwrap()]) else {
                    return;
                };
                assert!(text.contains(&format!("packets:   {}", records.len())), "{text}");
            }
        }

        // And the other way round: what the program compresses, and two of its files in a row.
        let theirs = Command::new(program).args(["-c", "-q"]).arg(&plain).output().unwrap().stdout;
        let twice = directory.path().join("twice");
        std::fs::write(&twice, [theirs.as_slice(), &theirs].concat()).unwrap();
        let (read, error) = read_all(&twice);
        assert!(error.is_none(), "{program}: {error:?}");
        assert_eq!(read.len(), 2 * records.len());
        assert_eq!(read[..records.len()], records);
    }
}
