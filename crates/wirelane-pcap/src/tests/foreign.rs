//! Files that Wirelane does not write itself: the other byte order, old and simple packet blocks,
//! other resolutions, several sections.

use super::*;

/// Builds blocks in big- or little-endian order, from the words of the specification.
struct Builder {
    big: bool,
    bytes: Vec<u8>,
}

impl Builder {
    fn u16(&self, value: u16) -> [u8; 2] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u32(&self, value: u32) -> [u8; 4] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn words(&self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| self.u32(*word)).collect()
    }

    fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [self.u16(code), self.u16(value.len() as u16)].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn block(&mut self, kind: u32, body: &[&[u8]]) {
        let mut body = body.concat();
        body.resize(body.len().next_multiple_of(4), 0);
        let len = self.u32(body.len() as u32 + 12);
        self.bytes.extend([self.u32(kind), len].concat());
        self.bytes.extend(body);
        self.bytes.extend(len);
    }

    fn section(&mut self) {
        let version = [self.u16(1), self.u16(0)].concat();
        self.block(0x0A0D_0D0A, &[&self.u32(0x1A2B_3C4D), &version, &[0xff; 8]]);
    }

    fn interface(&mut self, link_type: u16, snaplen: u32, options: &[Vec<u8>]) {
        let head = [self.u16(link_type), self.u16(0)].concat();
        self.block(1, &[&head, &self.u32(snaplen), &options.concat()]);
    }
}

#[test]
fn every_kind_of_block_in_both_byte_orders() {
    for big in [false, true] {
        let mut file = Builder { big, bytes: Vec::new() };
        file.section();
        let name = file.option(2, b"en7");
        let text = file.option(3, b"uplink");
        let end = file.option(0, &[]);
        file.interface(1, 5, &[name, text, end]);
        let resolution = file.option(9, &[0x80 | 10]);
        let offset =
            file.option(14, &if big { 100i64.to_be_bytes() } else { 100i64.to_le_bytes() });
        let speed = file.option(8, &if big { 7u64.to_be_bytes() } else { 7u64.to_le_bytes() });
        file.interface(113, 0, &[resolution, offset, speed]);

        // Enhanced, microseconds by default; with flags "outbound" and a comment before them.
        let comment = file.option(1, b"hello");
        let flags = file.option(2, &file.u32(0xffff_fff2));
        let head = file.words(&[0, 1, 2, 3, 60]);
        file.block(6, &[&head, b"abc\0", &comment, &flags]);
        // Simple: cut by the snap length of interface 0, padded to 8.
        let head = file.words(&[9]);
        file.block(3, &[&head, b"simpl\0\0\0"]);
        // Obsolete: interface 1, 77 drops before it; binary fractions of a second, 100 s later.
        let head = [file.u16(1), file.u16(77)].concat();
        let rest = file.words(&[0, 1536, 4, 4]);
        file.block(2, &[&head, &rest, b"old!"]);
        // Blocks to skip: name resolution, custom, one from the future.
        file.block(4, &[&[0; 4]]);
        file.block(0x0BAD, &[b"\0\0\x7f\xffwhatever"]);
        file.block(0xffff_0000, &[]);
        let words = file.words(&[0, 0, 3]);
        let start = file.option(2, &file.words(&[0, 2]));
        let drops = file.option(5, &if big { 99u64.to_be_bytes() } else { 99u64.to_le_bytes() });
        let odd = file.option(6, &[1, 2]);
        file.block(5, &[&words, &start, &odd, &drops]);
        // Another section, in the other byte order, numbers its interfaces from 0 again.
        file.big = !big;
        file.section();
        file.interface(1, 0, &[]);
        let head = file.words(&[0, 0, 1, 1, 1]);
        file.block(6, &[&head, b"x"]);

        let mut reader = PcapngReader::new(file.bytes.as_slice(), "test");
        let (records, error) =
            drain(|| reader.next_record().map(|record| record.map(|record| Owned::of(&record))));
        assert!(error.is_none(), "{error:?}");
        let expected = [
            (0, ((1 << 32) + 2) * 1000, 60, Direction::Outbound, "abc"),
            (0, 0, 9, Direction::Unknown, "simpl"),
            (1, 101_500_000_000, 4, Direction::Unknown, "old!"),
            (2, 1000, 1, Direction::Unknown, "x"),
        ];
        let expected = expected.map(|(interface, timestamp, original_len, direction, data)| {
            Owned { interface, timestamp, original_len, direction, data: data.into() }
        });
        assert_eq!(records, expected, "big-endian: {big}");

        let [first, second, third] = reader.interfaces() else { panic!("three interfaces") };
        assert_eq!((first.name.as_str(), first.description.as_str()), ("en7", "uplink"));
        assert_eq!((first.class, first.queue, first.snaplen), (None, None, 5));
        assert_eq!((second.link_type, second.speed), (113, Some(7)));
        assert_eq!(third, &Source { link_type: 1, ..Source::default() });
        let statistics: Vec<_> = reader.statistics().copied().collect();
        let expected = Statistics {
            interface: 0,
            timestamp: 3000,
            start: Some(2000),
            dropped: Some(99),
            ..Statistics::default()
        };
        assert_eq!(statistics, [expected]);
    }
}

#[test]
fn classic_pcap_in_both_byte_orders_and_resolutions() {
    for big in [false, true] {
        for (magic, nanoseconds) in [(0xA1B2_C3D4, 1000), (0xA1B2_3C4D, 1)] {
            let file = Builder { big, bytes: Vec::new() };
            // The link type carries a frame check sequence length in its upper bits.
            let mut bytes = file.words(&[magic]);
            bytes.extend([file.u16(2), file.u16(4)].concat());
            bytes.extend(file.words(&[0, 0, 262_144, 0x2400_0071]));
            bytes.extend(file.words(&[1_700_000_000, 999_999, 3, 1514]));
            bytes.extend(b"abc");
            bytes.extend(file.words(&[u32::MAX, u32::MAX, 0, 0]));

            let source = std::io::Cursor::new(bytes);
            let mut reader = CaptureReader::from_reader(source, "test").unwrap();
            assert_eq!(reader.interfaces().len(), 1);
            assert_eq!(reader.interfaces()[0].link_type, 113);
            assert_eq!(reader.interfaces()[0].fcs_len, Some(4));
            let record = reader.next_record().unwrap().unwrap();
            let time = 1_700_000_000_000_000_000 + 999_999 * nanoseconds;
            assert_eq!(
                (record.timestamp, record.original_len, record.data),
                (time, 1514, &b"abc"[..])
            );
            let record = reader.next_record().unwrap().unwrap();
            assert_eq!(record.timestamp, u64::from(u32::MAX) * (1_000_000_000 + nanoseconds));
            assert!(reader.next_record().unwrap().is_none());
            assert_eq!(reader.packets(), 2);
        }
    }
}

/// Behind the usual header of a packet: interface, EtherType, packet type, padding.
#[test]
fn modified_pcap_in_both_byte_orders() {
    for big in [false, true] {
        let file = Builder { big, bytes: Vec::new() };
        let mut bytes = file.words(&[0xA1B2_CD34]);
        bytes.extend([file.u16(2), file.u16(4)].concat());
        bytes.extend(file.words(&[0, 0, 262_144, 1]));
        for number in 0..3 {
            bytes.extend(file.words(&[number, 7, 3, 60, 2]));
            bytes.extend([&file.u16(8)[..], &[4, 0xff, number as u8, 8, 9]].concat());
        }
        for cut in 0..bytes.len() {
            let source = std::io::Cursor::new(bytes[..cut].to_vec());
            let whole = cut.saturating_sub(24) / 27;
            match CaptureReader::from_reader(source, "test") {
                Ok(mut reader) => {
                    let (packets, error) =
                        drain(|| reader.next_record().map(|r| r.map(|r| Owned::of(&r))));
                    assert_eq!((packets.len(), error.is_none()), (whole, (cut - 24) % 27 == 0));
                }
                Err(_) => assert!(cut < 24),
            }
        }
        let (packets, error) = read_pcap(&bytes);
        assert!(error.is_none(), "{error:?}");
        let expected = |number: u64| Owned {
            interface: 0,
            timestamp: number * 1_000_000_000 + 7000,
            original_len: 60,
            direction: Direction::Unknown,
            data: vec![number as u8, 8, 9],
        };
        assert_eq!(packets, (0..3).map(expected).collect::<Vec<_>>(), "big-endian: {big}");
    }
}

/// Statistics may name an interface that is described later or nowhere: the packets count.
#[test]
fn statistics_of_unknown_interfaces_are_skipped_and_counted() {
    for big in [false, true] {
        let mut file = Builder { big, bytes: Vec::new() };
        file.section();
        let received = |file: &Builder, count: u64| {
            file.option(4, &if big { count.to_be_bytes() } else { count.to_le_bytes() })
        };
        file.block(5, &[&file.words(&[0, 0, 9]), &received(&file, 1)]);
        file.interface(1, 0, &[]);
        file.block(6, &[&file.words(&[0, 0, 5, 1, 1]), b"a"]);
        file.block(5, &[&file.words(&[7, 0, 9]), &received(&file, 2)]);
        file.block(6, &[&file.words(&[0, 0, 6, 1, 1]), b"b"]);
        file.block(5, &[&file.words(&[0, 0, 9]), &received(&file, 3)]);
        // A section begins without interfaces.
        file.section();
        file.block(5, &[&file.words(&[0, 0, 9]), &received(&file, 4)]);
        let mut reader =
            CaptureReader::from_reader(std::io::Cursor::new(file.bytes), "test").unwrap();
        let (packets, error) = drain(|| reader.next_record().map(|r| r.map(|r| Owned::of(&r))));
        assert!(error.is_none(), "{error:?}");
        assert_eq!(packets.len(), 2);
        assert_eq!(reader.lost().statistics, 3);
        let known: Vec<_> = reader.statistics().iter().map(|one| one.received).collect();
        assert_eq!(known, [Some(3)]);
    }
}

/// The length of the frame check sequence in a packet's flags overrides that length of its
/// interface.
#[test]
fn the_frame_check_sequence_is_that_of_the_packet() {
    for big in [false, true] {
        let mut file = Builder { big, bytes: Vec::new() };
        file.section();
        file.interface(1, 0, &[]);
        file.interface(1, 0, &[file.option(13, &[2])]);
        for interface in [0, 1] {
            for flags in [None, Some(1), Some(1 | 4 << 5)] {
                let flags = flags.map(|flags: u32| file.option(2, &file.u32(flags)));
                let head = file.words(&[interface, 0, 5, 1, 1]);
                file.block(6, &[&head, b"a\0\0\0", &flags.unwrap_or_default()]);
            }
        }
        let mut reader =
            CaptureReader::from_reader(std::io::Cursor::new(file.bytes), "test").unwrap();
        let mut found = Vec::new();
        while reader.advance().unwrap() {
            found.push((reader.fcs_len(), reader.current().direction));
        }
        use Direction::{Inbound, Unknown};
        let expected = [(None, Unknown), (None, Inbound), (Some(4), Inbound), (Some(2), Unknown)];
        let expected = expected.into_iter().chain([(Some(2), Inbound), (Some(4), Inbound)]);
        assert_eq!(found, expected.collect::<Vec<_>>(), "big-endian: {big}");
    }
}

#[test]
fn blocks_larger_than_the_buffer_and_reads_of_one_byte() {
    /// Gives one byte at a time, and an interruption before each.
    struct Trickle<'a>(&'a [u8], bool);
    impl std::io::Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let take = self.0.len().min(buffer.len()).min(1);
            let (now, later) = self.0.split_at(take);
            buffer[..take].copy_from_slice(now);
            self.0 = later;
            Ok(take)
        }
    }
    let mut file = Builder { big: cfg!(target_endian = "big"), bytes: Vec::new() };
    file.section();
    file.interface(1, 0, &[]);
    file.block(0x0BAD, &[&vec![7; 700_000]]);
    let head = file.words(&[0, 0, 1, 300_000, 300_000]);
    file.block(6, &[&head, &vec![9; 300_000]]);
    let mut reader = PcapngReader::new(Trickle(&file.bytes, false), "test");
    let record = reader.next_record().unwrap().unwrap();
    assert_eq!((record.data.len(), record.data[299_999]), (300_000, 9));
    assert!(reader.next_record().unwrap().is_none());

    // The writer truncates it to the length that every program reads.
    let mut copy = Vec::new();
    pcapng::packet(&mut copy, &Owned::new(0, 0, &vec![1; 300_000]).record());
    assert_eq!(copy.len(), 256 * 1024 + 32);
}

/// An IPv6 packet behind the header of BSD's loopback interface, in the order of a file.
fn loopback(file: &Builder) -> Vec<u8> {
    let mut packet = file.u32(10).to_vec();
    packet.extend([0x60, 0, 0, 0, 0, 0, 59, 64]);
    packet.resize(44, 1);
    packet
}

/// Read and written data is in the order of this machine, also link headers in host order.
#[test]
fn link_headers_come_in_the_order_of_this_machine() {
    let native = Builder { big: cfg!(target_endian = "big"), bytes: Vec::new() };
    let expected = loopback(&native);
    let mut all = Builder { big: false, bytes: Vec::new() };
    for big in [false, true] {
        let file = Builder { big, bytes: Vec::new() };
        let mut bytes = file.words(&[0xA1B2_C3D4]);
        bytes.extend([file.u16(2), file.u16(4)].concat());
        bytes.extend(file.words(&[0, 0, 262_144, 0]));
        for _ in 0..3 {
            bytes.extend(file.words(&[1, 2, 44, 44]));
            bytes.extend(loopback(&file));
        }
        let (packets, error) = read_pcap(&bytes);
        assert!(error.is_none() && packets.len() == 3);
        assert!(packets.iter().all(|packet| packet.data == expected), "big-endian: {big}");

        all.big = big;
        all.section();
        all.interface(0, 0, &[]);
        all.interface(1, 0, &[]);
        let packet = loopback(&all);
        for interface in [0, 1] {
            let head = all.words(&[interface, 0, 1, 44, 44]);
            all.block(6, &[&head, &packet]);
        }
        all.block(3, &[&all.words(&[44]), &packet]);
        let head = [all.u16(0).to_vec(), all.u16(0).to_vec(), all.words(&[0, 1, 44, 44])].concat();
        all.block(2, &[&head, &packet]);
    }
    let (packets, error) = read_pcapng(&all.bytes);
    assert!(error.is_none() && packets.len() == 8, "{error:?}");
    for packet in packets {
        // Of Ethernet, nothing is in host order.
        let file = Builder { big: packet.interface == 3, bytes: Vec::new() };
        let is_ethernet = packet.interface % 2 == 1;
        let expected = if is_ethernet { loopback(&file) } else { expected.clone() };
        assert_eq!(packet.data, expected, "{}", packet.interface);
    }
}

/// A frame that a zstd program may skip, of `len` bytes. Those of pzstd have four: the length of
/// the next frame.
fn skippable(kind: u8, len: usize) -> Vec<u8> {
    let head = [[0x50 | kind, 0x2a, 0x4d, 0x18], (len as u32).to_le_bytes()].concat();
    [head, vec![0x5a; len]].concat()
}

#[test]
fn zstd_files_with_frames_to_skip() {
    let mut file = Builder { big: false, bytes: Vec::new() };
    file.section();
    file.interface(1, 0, &[]);
    for number in 0..100 {
        let head = file.words(&[0, 0, number, 60, 60]);
        file.block(6, &[&head, &[number as u8; 60]]);
    }
    let frame = |bytes: &[u8]| compressed(Compression::Zstd, bytes);
    let read = |bytes: Vec<u8>| {
        let mut reader = CaptureReader::from_reader(std::io::Cursor::new(bytes), "test").unwrap();
        assert_eq!(reader.compression(), Some(Compression::Zstd));
        drain(|| reader.next_record().map(|record| record.map(|record| Owned::of(&record))))
    };
    // As pzstd writes it: one before each frame. Then of every other kind and size, anywhere.
    let parts: Vec<_> = file.bytes.chunks(1000).map(frame).collect();
    let pzstd: Vec<_> = parts.iter().flat_map(|part| [skippable(0, 4), part.clone()]).collect();
    let mixed = |(number, part): (usize, &Vec<u8>)| {
        let sizes = [0, 1, 300_000, 4];
        [skippable(number as u8, sizes[number % 4]), skippable(15, 0), part.clone()].concat()
    };
    let mixed: Vec<_> = parts.iter().enumerate().map(mixed).collect();
    for bytes in [pzstd.concat(), mixed.concat(), [mixed.concat(), skippable(7, 9)].concat()] {
        let (packets, error) = read(bytes);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(packets.len(), 100);
    }
    // Cut inside of the last one: everything before is there, and it is said.
    let mut cut = [pzstd.concat(), skippable(0, 100)].concat();
    for _ in 0..107 {
        cut.pop();
        let (packets, error) = read(cut.clone());
        assert_eq!(packets.len(), 100);
        assert!(matches!(error, Some(CaptureError::Truncated { .. })), "{error:?}");
    }
    let nothing = CaptureReader::from_reader(std::io::Cursor::new(skippable(3, 40)), "test");
    assert!(matches!(nothing.map(|_| ()), Err(CaptureError::Unrecognized { .. })));
}

#[test]
fn gzip_headers_with_everything_in_them() {
    use flate2::{Compression as Level, GzBuilder};
    let mut file = Builder { big: false, bytes: Vec::new() };
    file.section();
    file.interface(1, 0, &[]);
    let head = file.words(&[0, 0, 1, 60, 60]);
    file.block(6, &[&head, &[7; 60]]);
    let member = |builder: GzBuilder, bytes: &[u8]| {
        let mut encoder = builder.write(Vec::new(), Level::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let odd = GzBuilder::new()
        .extra(vec![1; 65_535])
        .filename(vec![0xff; 9999])
        .comment("trace")
        .mtime(u32::MAX)
        .operating_system(77);
    let (first, rest) = file.bytes.split_at(50);
    let parts = [
        member(GzBuilder::new(), b""),
        member(odd, first),
        member(GzBuilder::new(), b""),
        member(GzBuilder::new().extra(vec![]), rest),
        member(GzBuilder::new().filename("end"), b""),
    ];
    let mut reader =
        CaptureReader::from_reader(std::io::Cursor::new(parts.concat()), "test").unwrap();
    assert!(reader.advance().unwrap());
    assert_eq!(reader.current().data, [7; 60]);
    assert!(!reader.advance().unwrap());
}

/// Times before 1970 and after 2554 do not change without a word, and the packets stay.
#[test]
fn times_that_cannot_be_kept_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut file = Builder { big: false, bytes: Vec::new() };
    file.section();
    let seconds = file.option(9, &[0]);
    let before = file.option(14, &(-1_000_000_i64).to_le_bytes());
    let picoseconds = file.option(9, &[12]);
    file.interface(1, 0, &[seconds, before]);
    file.interface(1, 0, &[picoseconds]);
    file.interface(1, 0, &[]);
    // 999,999 s and 1,000,000 s less a million; 1.5 ns; the end of 64 bits of microseconds.
    for (interface, high, low) in
        [(0, 0, 999_999), (0, 0, 1_000_000), (1, 0, 1500), (2, u32::MAX, u32::MAX), (2, 0, 5)]
    {
        let head = file.words(&[interface, high, low, 60, 60]);
        file.block(6, &[&head, &[7; 60]]);
    }
    file.block(3, &[&file.words(&[60]), &[7; 60]]);
    std::fs::write(path("x"), &file.bytes).unwrap();

    let odd = OddTimes { early: 1, late: 1, finer: 1, missing: 1 };
    let mut reader = CaptureReader::open(path("x")).unwrap();
    let mut times = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        times.push(record.timestamp);
    }
    assert_eq!(times, [0, 0, 1, u64::MAX, 5000, 0]);
    assert_eq!(reader.odd_times(), odd);
    assert_eq!(odd.notes().len(), 4);
    assert_eq!(OddTimes::default().notes(), [""; 0]);
    let report = merge_files(&[path("x")], &path("y"), &MergeControl::default()).unwrap();
    assert_eq!((report.inputs[0].odd_times, report.written.packets), (odd, 6));
    let (copies, error) = read_all(&path("y"));
    assert!(error.is_none());
    assert!(copies.iter().map(|packet| packet.timestamp).eq(times));
    assert_eq!(CaptureReader::open(path("y")).unwrap().odd_times(), OddTimes::default());
}

/// A time of statistics that cannot be kept is none.
#[test]
fn statistics_have_no_time_rather_than_another_one() {
    let mut file = Builder { big: false, bytes: Vec::new() };
    file.section();
    let before = file.option(14, &(-1_i64).to_le_bytes());
    file.interface(1, 0, &[before]);
    let start = file.option(2, &file.words(&[0, 999_999]));
    let end = file.option(3, &file.words(&[0, 1_000_001]));
    file.block(5, &[&file.words(&[0, 0, 0]), &start, &end]);
    let mut reader = PcapngReader::new(file.bytes.as_slice(), "test");
    assert!(!reader.advance().unwrap());
    let statistics: Vec<_> = reader.statistics().copied().collect();
    assert_eq!((statistics[0].start, statistics[0].end), (None, Some(1000)));
}

/// The length of the frame check sequence is kept: a reader without it would take it for data.
#[test]
fn the_length_of_a_frame_check_sequence_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    for (suffix, len, expected) in [
        ("pcapng", None, None),
        ("pcapng", Some(0), Some(0)),
        ("pcapng", Some(3), Some(3)),
        ("pcap", None, None),
        ("pcap", Some(0), Some(0)),
        ("pcap", Some(4), Some(4)),
        // Half a word of 16 bits cannot be said there.
        ("pcap", Some(3), None),
    ] {
        let path = directory.path().join("a").with_extension(suffix);
        let source = Source { fcs_len: len, ..Source::new("eth0", Class::Rx, Some(0)) };
        let options = WriterOptions::of_path(&path);
        CaptureWriter::create(&path, &[source], options, 0).unwrap().finish(&[]).unwrap();
        let reader = CaptureReader::open(&path).unwrap();
        assert_eq!(reader.interfaces()[0].fcs_len, expected, "{suffix} {len:?}");
        assert_eq!(reader.interfaces()[0].link_type, LINK_TYPE_ETHERNET);
    }
}
