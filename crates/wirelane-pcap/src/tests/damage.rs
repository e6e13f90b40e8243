//! Damaged files: cut anywhere, changed anywhere, or claiming impossible lengths.

use super::*;
use crate::{pcap, pcapng};

/// A small pcapng file, and where each of its blocks ends with the packets up to there.
fn small_pcapng() -> (Vec<u8>, Vec<(usize, usize)>) {
    let mut file = Vec::new();
    let mut ends = vec![(0, 0)];
    pcapng::section_header(
        &mut file,
        &Section { application: "test".into(), ..Section::default() },
    );
    ends.push((file.len(), 0));
    for source in sources() {
        pcapng::interface(&mut file, &source);
        ends.push((file.len(), 0));
    }
    for (count, size) in [0, 1, 2, 3, 4, 61].into_iter().enumerate() {
        let mut record = Owned::new(count as u32 % 3, 1_000 + count as u64, &vec![0x5a; size]);
        record.direction = if size == 3 { Direction::Outbound } else { Direction::Unknown };
        pcapng::packet(&mut file, &record.record());
        ends.push((file.len(), count + 1));
    }
    pcapng::statistics(&mut file, &counters(1));
    ends.push((file.len(), 6));
    (file, ends)
}

fn small_pcap() -> (Vec<u8>, Vec<(usize, usize)>) {
    let mut file = Vec::new();
    pcap::file_header(&mut file, Resolution::Nanoseconds, &Source::new("", Class::Rx, None));
    let mut ends = vec![(file.len(), 0)];
    for (count, size) in [0, 1, 60, 3].into_iter().enumerate() {
        let record = Owned::new(0, 1_000 + count as u64, &vec![0x5a; size]);
        pcap::packet(&mut file, Resolution::Nanoseconds, &record.record());
        ends.push((file.len(), count + 1));
    }
    (file, ends)
}

#[test]
fn cut_anywhere_keeps_the_whole_packets_before() {
    type Read = fn(&[u8]) -> (Vec<Owned>, Option<CaptureError>);
    let cases: [(_, Read); 2] = [(small_pcapng(), read_pcapng), (small_pcap(), read_pcap)];
    for ((file, ends), read) in cases {
        let (all, error) = read(&file);
        assert!(error.is_none(), "{error:?}");
        for cut in 0..file.len() {
            let (records, error) = read(&file[..cut]);
            let (end, whole) = *ends.iter().rev().find(|(end, _)| *end <= cut).unwrap_or(&(0, 0));
            assert_eq!(records, all[..whole], "cut at {cut}");
            match error {
                None => assert_eq!(end, cut, "a cut inside a block was not reported"),
                Some(CaptureError::Truncated { offset, packets, .. }) => {
                    assert_eq!((offset, packets), (end as u64, whole as u64), "cut at {cut}");
                }
                Some(other) => panic!("cut at {cut}: {other}"),
            }
        }
    }
}

/// Gives `step` bytes, then nothing, and so on.
struct Trickle {
    bytes: std::io::Cursor<Vec<u8>>,
    step: usize,
    is_dry: bool,
}

impl std::io::Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.is_dry = !self.is_dry;
        if self.is_dry {
            return Err(std::io::ErrorKind::WouldBlock.into());
        }
        let len = self.step.min(buffer.len());
        self.bytes.read(&mut buffer[..len])
    }
}

#[test]
fn what_has_come_whole_is_read_before_the_rest_comes() {
    for ((file, ends), is_pcap) in [(small_pcapng(), false), (small_pcap(), true)] {
        let all = if is_pcap { read_pcap(&file).0 } else { read_pcapng(&file).0 };
        for step in 1..=file.len() {
            let bytes = std::io::Cursor::new(file.clone());
            let source = Trickle { bytes, step, is_dry: false };
            let mut reader: Box<dyn FnMut() -> Result<Option<Owned>, CaptureError>> = if is_pcap {
                let mut reader = PcapReader::new(source, "test");
                Box::new(move || reader.next_record().map(|record| record.map(|r| Owned::of(&r))))
            } else {
                let mut reader = PcapngReader::new(source, "test");
                Box::new(move || reader.next_record().map(|record| record.map(|r| Owned::of(&r))))
            };
            let (mut records, mut given) = (Vec::new(), 0);
            loop {
                match reader() {
                    Ok(Some(record)) => records.push(record),
                    Ok(None) => break,
                    Err(error) => {
                        assert!(error.is_would_block(), "{error}");
                        assert!(error.to_string().contains("no data yet"), "{error}");
                        // All that is whole in what was given, and nothing twice.
                        let whole =
                            ends.iter().rev().find(|(end, _)| *end <= given).map(|(_, n)| *n);
                        assert_eq!(
                            records.len(),
                            whole.unwrap_or(0),
                            "{given} bytes, {step} a time"
                        );
                        given += step;
                    }
                }
            }
            assert_eq!(records, all, "{step} bytes a time");
        }
    }
}

#[test]
fn cut_compressed_files_keep_whole_packets() {
    let (file, _) = small_pcapng();
    let (all, _) = read_pcapng(&file);
    for compression in Compression::ALL {
        let whole = [compressed(compression, &file[..300]), compressed(compression, &file[300..])];
        let whole = whole.concat();
        for cut in 0..=whole.len() {
            let source = std::io::Cursor::new(whole[..cut].to_vec());
            let (records, error) = match CaptureReader::from_reader(source, "test") {
                Ok(mut reader) => {
                    drain(|| reader.next_record().map(|record| record.map(|r| Owned::of(&r))))
                }
                Err(error) => (Vec::new(), Some(error)),
            };
            assert!(all.starts_with(&records), "{compression:?} cut at {cut}");
            assert_eq!(
                error.is_none(),
                cut == whole.len(),
                "{compression:?} cut at {cut}: {error:?}"
            );
            if cut == whole.len() {
                assert_eq!(records, all);
            }
        }
    }
}

#[test]
fn flipped_bytes_do_no_harm() {
    for (file, _) in [small_pcapng(), small_pcap()] {
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut damaged = file.clone();
                damaged[at] ^= 1 << bit;
                let _ = read_pcapng(&damaged);
                let _ = read_pcap(&damaged);
                let _ = CaptureReader::from_reader(std::io::Cursor::new(damaged), "test");
            }
        }
    }
}

#[test]
fn flipped_bytes_in_compressed_files_do_no_harm() {
    let (file, _) = small_pcapng();
    for compression in Compression::ALL {
        let whole = compressed(compression, &file);
        for at in 0..whole.len() {
            for value in [1, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= value;
                let source = std::io::Cursor::new(damaged);
                if let Ok(mut reader) = CaptureReader::from_reader(source, "test") {
                    while let Ok(Some(_)) = reader.next_record() {}
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_do_no_harm(
        noise in proptest::collection::vec(any::<u8>(), 0..400),
        head in 0..7usize,
        at in 0..700usize,
    ) {
        let heads: [&[u8]; 5] = [
            &small_pcapng().0,
            &small_pcap().0,
            b"\x1f\x8b\x08\0",
            b"\x28\xb5\x2f\xfd",
            b"\x04\x22\x4d\x18\x64\x70\xb9",
        ];
        let mut file = heads.get(head).copied().unwrap_or_default().to_vec();
        file.splice(at.min(file.len()).., noise);
        let _ = read_pcapng(&file);
        let _ = read_pcap(&file);
        if let Ok(mut reader) = CaptureReader::from_reader(std::io::Cursor::new(file), "test") {
            while let Ok(Some(_)) = reader.next_record() {}
        }
    }
}

#[test]
fn hostile_lengths_are_refused() {
    let (file, ends) = small_pcapng();
    let first_packet = ends[4].0;
    for (field, value, expected) in [
        (4, 0, "impossible block length"),
        (4, 8, "impossible block length"),
        (4, 33, "impossible block length"),
        (4, 0x7fff_fffc, "block longer than 16 MiB"),
        (4, 0xffff_fffc, "block longer than 16 MiB"),
        (4, 36, "the two lengths of a block differ"),
        (8, 3, "a block names an interface that was not described"),
        (8, u32::MAX, "a block names an interface that was not described"),
        (20, 1, "packet longer than its block"),
        (20, u32::MAX, "packet longer than its block"),
    ] {
        let mut damaged = file.clone();
        damaged[first_packet + field..][..4].copy_from_slice(&value.to_ne_bytes());
        match read_pcapng(&damaged) {
            (records, Some(CaptureError::Malformed { offset, what, .. })) => {
                assert_eq!((records.len(), offset, what), (0, first_packet as u64, expected));
            }
            other => panic!("{field} = {value}: {other:?}"),
        }
    }
    let (mut file, ends) = small_pcap();
    let last = ends[3].0;
    file[last + 8..][..4].copy_from_slice(&(256 * 1024u32 + 1).to_ne_bytes());
    let (records, error) = read_pcap(&file);
    assert_eq!(records.len(), 3);
    assert!(error.unwrap().to_string().contains("packet longer than 256 KiB"));
}

#[test]
fn what_is_no_capture_says_so() {
    let open = |bytes: &[u8]| {
        let opened = CaptureReader::from_reader(std::io::Cursor::new(bytes.to_vec()), "x");
        opened.map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(
        open(b"#!/bin/sh\n"),
        "x: not a capture file: it begins with the bytes 23 21 2f 62; \
         give a pcap or pcapng file, plain, gzip, lz4 or zstd"
    );
    assert!(open(b"").contains("it is empty"));
    assert!(open(b"\x0a\x0d").contains("it begins with the bytes 0a 0d"));
    assert!(open(&0xA1B2_CD34u32.to_be_bytes()).contains("cut short"));
    assert!(open(b"\x1f\x8b\x08\0not deflate data").starts_with("x: damaged at byte 0"));

    let error = CaptureReader::open("/nonexistent/a.pcapng").map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/nonexistent/a.pcapng: cannot open: No such file or directory (ENOENT); check the path"
    );
    let error = CaptureReader::open("/tmp").map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/tmp: cannot read at byte 0: Is a directory (EISDIR); name a file in it"
    );
}
