//! Writing, rotating and merging files, and full disks.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use super::*;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn rotating(directory: &Path, rotation: Rotation) -> CaptureWriter {
    let path = directory.join("a.pcapng");
    let options = WriterOptions { rotation, ..WriterOptions::of_path(&path) };
    CaptureWriter::create(&path, &sources(), options, START).unwrap()
}

/// Seconds since the start of the packets in each file; also checks that each file is complete.
fn seconds(directory: &Path) -> Vec<Vec<u64>> {
    let read = |path: PathBuf| {
        let mut reader = CaptureReader::open(&path).unwrap();
        assert_eq!(reader.interfaces(), sources());
        let mut seconds = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            seconds.push((record.timestamp - START) / SECOND);
        }
        assert_eq!(reader.statistics(), [counters(1)], "{path:?} ends with statistics");
        seconds
    };
    files(directory).into_iter().map(read).collect()
}

#[test]
fn what_is_open_is_written_whatever_the_name() {
    let directory = tempfile::tempdir().unwrap();
    let (path, name) = (directory.path().join("a"), Path::new("none/name"));
    let open = Some(std::sync::Arc::new(File::create(&path).unwrap()));
    let options = WriterOptions { open, ..WriterOptions::of_path(name) };
    let mut writer = CaptureWriter::create(name, &sources(), options, START).unwrap();
    writer.write(&Owned::new(0, START + SECOND, &[0; 60]).record()).unwrap();
    assert_eq!(writer.finish(&[counters(1)]).unwrap().packets, 1);
    assert_eq!(seconds(directory.path()), [[1]]);
}

#[test]
fn rotation_by_time_keeps_its_grid() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer =
        rotating(directory.path(), Rotation { max_age: Some(10 * SECOND), ..Rotation::default() });
    writer.write_statistics(&[counters(1)]);
    for second in [1, 9, 10, 19, 47, 48] {
        writer.write(&Owned::new(0, START + second * SECOND, &[0; 60]).record()).unwrap();
    }
    // A late packet goes into the current file. Then time advances without packets: one more file
    // instead of one per step.
    writer.write(&Owned::new(0, START + 38 * SECOND, &[0; 60]).record()).unwrap();
    writer.advance(START + 49 * SECOND).unwrap();
    writer.advance(START + 61 * SECOND).unwrap();
    writer.advance(START + 95 * SECOND).unwrap();
    writer.write(&Owned::new(0, START + 99 * SECOND, &[0; 60]).record()).unwrap();
    writer.write(&Owned::new(0, START + 100 * SECOND, &[0; 60]).record()).unwrap();
    let written = writer.finish(&[counters(1)]).unwrap();
    assert_eq!((written.files, written.packets), (5, 9));
    let expected: [&[u64]; 5] = [&[1, 9], &[10, 19], &[47, 48, 38], &[99], &[100]];
    assert_eq!(seconds(directory.path()), expected);
    let names: Vec<_> = files(directory.path());
    assert!(names[0].ends_with("a_00001_20231114221320.pcapng"), "{names:?}");
    assert!(names[2].ends_with("a_00003_20231114221400.pcapng"), "begins on the grid: {names:?}");
}

#[test]
fn rotation_by_count_and_ring() {
    let directory = tempfile::tempdir().unwrap();
    let rotation = Rotation { max_packets: Some(2), max_files: Some(3), ..Rotation::default() };
    let mut writer = rotating(directory.path(), rotation);
    writer.write_statistics(&[counters(1)]);
    for second in 0..11 {
        writer.write(&Owned::new(0, START + second * SECOND, &[0; 60]).record()).unwrap();
        assert!(files(directory.path()).len() <= 3);
    }
    let written = writer.finish(&[counters(1)]).unwrap();
    assert_eq!((written.files, written.packets), (6, 11));
    let expected: [&[u64]; 3] = [&[6, 7], &[8, 9], &[10]];
    assert_eq!(seconds(directory.path()), expected);
}

#[test]
fn rotation_by_size_never_exceeds_it() {
    let directory = tempfile::tempdir().unwrap();
    let limit = 10_000;
    let mut writer =
        rotating(directory.path(), Rotation { max_bytes: Some(limit), ..Rotation::default() });
    for index in 0..200 {
        let size = if index == 100 { 20_000 } else { 1 + index as usize * 7 };
        writer.write(&Owned::new(0, START + index, &vec![0; size]).record()).unwrap();
        writer.write_statistics(&[counters(0), counters(1), counters(2)]);
    }
    let written = writer.finish(&[counters(0), counters(1), counters(2)]).unwrap();
    let sizes: Vec<_> =
        files(directory.path()).iter().map(|path| path.metadata().unwrap().len()).collect();
    assert_eq!(written.files, sizes.len() as u64);
    assert_eq!(
        sizes.iter().filter(|size| **size > limit).count(),
        1,
        "only the large packet: {sizes:?}"
    );
    let count: usize = files(directory.path()).iter().map(|path| read_all(path).0.len()).sum();
    assert_eq!(count, 200);
    let path = Path::new("-");
    let rotation = Rotation { max_bytes: Some(1), ..Rotation::default() };
    let options = WriterOptions { rotation, ..WriterOptions::of_path(path) };
    let error = CaptureWriter::create(path, &[], options, 0).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "standard output: standard output cannot be rotated; give a file name"
    );
}

#[test]
fn flushed_packets_are_readable_while_the_file_is_open() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a.pcapng", "a.pcapng.gz", "a.pcapng.lz4", "a.pcapng.zst", "a.pcap"] {
        let path = directory.path().join(name);
        let options = WriterOptions::of_path(&path);
        let mut writer = CaptureWriter::create(&path, &sources(), options, 0).unwrap();
        writer.write(&Owned::new(0, 1, &[0; 60]).record()).unwrap();
        writer.flush_if_older(5 * SECOND).unwrap();
        writer.flush_if_older(6 * SECOND - 1).unwrap();
        assert_eq!(path.metadata().unwrap().len(), 0);
        writer.flush_if_older(6 * SECOND).unwrap();
        assert_eq!(read_all(&path).0.len(), 1, "{name}");
        assert_eq!(writer.written().packets, 1);
        for _ in 0..12_000 {
            writer.write(&Owned::new(0, 2, &[0; 1500]).record()).unwrap();
        }
        // The file after a SIGKILL at this point: whole chunks, and a clean end.
        let (records, error) = read_all(&path);
        assert!(error.is_none(), "{name}: {error:?}");
        assert_eq!(records.len() as u64, writer.written().packets);
        // Two of four chunks may be pending for compression: zstd chunks have 4 MiB.
        assert!(records.len() > 5400, "{name}: {}", records.len());
        // They are written without further packets.
        while writer.written().packets < 10_900 {
            writer.flush_if_older(7 * SECOND).unwrap();
            std::thread::yield_now();
        }
        assert_eq!(read_all(&path).0.len() as u64, writer.written().packets);
        drop(writer);
        assert_eq!(read_all(&path).0.len(), 12_001, "dropping flushes");
    }
}

#[test]
fn a_closed_pipe_is_its_own_outcome() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo.pcapng");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || {
            let mut start = [0; 100];
            File::open(path).unwrap().read_exact(&mut start).unwrap();
            start
        })
    };
    let options = WriterOptions::of_path(&path);
    let mut writer = CaptureWriter::create(&path, &sources(), options, 0).unwrap();
    writer.flush().unwrap();
    assert_eq!(reader.join().unwrap()[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    writer.write(&Owned::new(0, 1, &[0; 60]).record()).unwrap();
    let error = writer.finish(&[]).unwrap_err();
    assert!(error.is_broken_pipe());
    assert!(error.to_string().ends_with("the reader closed the pipe after 0 packets"), "{error}");
}

#[test]
fn dev_full_names_the_cause() {
    let options = WriterOptions::of_path(Path::new("/dev/full"));
    let mut writer = CaptureWriter::create("/dev/full", &sources(), options, 0).unwrap();
    let error = loop {
        if let Err(error) = writer.write(&Owned::new(0, 1, &[0; 1500]).record()) {
            break error;
        }
    };
    assert_eq!(error.errno(), Some(rustix::io::Errno::NOSPC.raw_os_error()));
    assert_eq!(
        error.to_string(),
        "/dev/full: cannot write: No space left on device (ENOSPC); 0 packets are safely in the \
         file; free space, or rotate with -C and -W"
    );
    for _ in 0..1000 {
        let _ = writer.write(&Owned::new(0, 1, &[0; 1500]).record());
    }
    assert_eq!(writer.written().packets, 0);
    let error = writer.finish(&[]).unwrap_err();
    assert!(
        error.to_string().contains("an earlier write failed"),
        "nothing more is tried: {error}"
    );
}

/// A file under the name of another compression would surprise its users.
#[test]
fn suffixes_of_other_compressions_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a.pcapng.xz", "a.bz2", "a.br"] {
        let path = directory.path().join(name);
        let options = WriterOptions::of_path(&path);
        let error = CaptureWriter::create(&path, &[], options, 0).map(|_| ()).unwrap_err();
        let text = "this suffix means a compression that is not written; \
                    end the name with .gz, .lz4 or .zst, or with none of them";
        assert_eq!(error.to_string(), format!("{}: {text}", path.display()));
        assert!(!path.exists());
    }
}

#[test]
fn suffixes_of_other_formats_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a.snoop", "a.erf.gz"] {
        let path = directory.path().join(name);
        let options = WriterOptions::of_path(&path);
        let error = CaptureWriter::create(&path, &[], options, 0).map(|_| ()).unwrap_err();
        let text = "this suffix means a format that is not written; end the name with .pcapng or \
                    .pcap";
        assert_eq!(error.to_string(), format!("{}: {text}", path.display()));
        assert!(!path.exists());
    }
    let pcap = FileFormat::of_path(Path::new("a.pcap"));
    assert_eq!(FileFormat::of_path(Path::new("a.cap.zst")), pcap);
}

/// With any number of compressing threads, rotated files are complete, within their limits, and
/// hold everything in order.
#[test]
fn rotation_with_threads_that_compress() {
    for compression in Compression::ALL {
        for threads in [1, 3] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("x.pcapng");
            let compression =
                CompressionOptions { threads, ..CompressionOptions::fastest(compression) };
            let rotation = Rotation { max_packets: Some(1500), ..Rotation::default() };
            let options = WriterOptions {
                compression: Some(compression),
                rotation,
                ..WriterOptions::of_path(&path)
            };
            let mut writer = CaptureWriter::create(&path, &sources(), options, 0).unwrap();
            for number in 0..4000 {
                writer.write(&Owned::new(0, number, &[number as u8; 1400]).record()).unwrap();
            }
            let written = writer.finish(&[counters(0)]).unwrap();
            let mut files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
            files.sort_by_key(|file| file.as_ref().unwrap().path());
            let (mut bytes, mut times) = (0, Vec::new());
            for file in files {
                let path = file.unwrap().path();
                bytes += path.metadata().unwrap().len();
                let (records, error) = read_all(&path);
                assert!(error.is_none() && records.len() <= 1500, "{error:?}");
                times.extend(records.iter().map(|record| record.timestamp));
            }
            assert_eq!(written, Written { files: 3, packets: 4000, bytes });
            assert!(times.into_iter().eq(0..4000));
        }
    }
}

/// A full disk leaves a readable file, and the error counts its packets.
#[test]
fn privileged_a_full_disk_leaves_a_readable_file() {
    if !wirelane_testkit::privileged::require() {
        return;
    }
    let result = std::thread::spawn(|| {
        // A mount namespace of this thread's own: the mount vanishes with the thread.
        use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
        use rustix::thread::{UnshareFlags, unshare_unsafe};
        // SAFETY: the flag makes only this thread's mounts and working directory its own; no
        // descriptor table that other threads use is split.
        #[allow(unsafe_code)]
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let options = c"size=1m";
        mount("tmpfs", directory.path(), "tmpfs", MountFlags::empty(), options).unwrap();
        for name in ["a.pcapng", "a.pcap", "a.pcapng.gz", "a.pcapng.lz4", "a.pcapng.zst"] {
            fill(&directory.path().join(name));
        }
        rustix::mount::unmount(directory.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    });
    result.join().unwrap();
}

fn fill(path: &Path) {
    let mut random = 1u64;
    let mut writer =
        CaptureWriter::create(path, &sources(), WriterOptions::of_path(path), 0).unwrap();
    let mut count = 0;
    let error = loop {
        // Sizes and bytes that do not compress.
        let data: Vec<u8> = (0..1000 + count % 500)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 56) as u8
            })
            .collect();
        count += 1;
        assert!(count < 10_000, "the disk does not fill");
        if let Err(error) = writer.write(&Owned::new(0, count as u64, &data).record()) {
            break error;
        }
    };
    let CaptureError::Write { packets, .. } = &error else { panic!("{error}") };
    assert!(error.to_string().contains("No space left on device (ENOSPC)"), "{error}");
    assert_eq!(writer.written().packets, *packets);
    assert_eq!(writer.written().bytes, path.metadata().unwrap().len());
    let (records, damage) = read_all(path);
    if *packets > 0 {
        assert!(damage.is_none(), "{path:?}: {damage:?}");
    }
    assert_eq!(records.len() as u64, *packets, "{path:?}");
    if path.extension().unwrap() != "gz" && path.extension().unwrap() != "zst" {
        assert!(*packets > 700, "{path:?}: {packets} packets on 1 MiB");
    }
    fs::remove_file(path).unwrap();
}

#[test]
fn merge_is_exact() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let record = |interface, time, byte| Owned::new(interface, time, &[byte; 3]);
    write(&at("a.pcapng"), &[record(0, 10, 1), record(2, 30, 2), record(1, 30, 3)]);
    write(
        &at("b.pcapng.gz"),
        &[record(0, 10, 4), record(1, 29, 5), record(1, 27, 6), record(1, 31, 7)],
    );
    write(&at("c.pcap"), &[record(0, 5, 8), record(0, 40, 9)]);
    // Cut inside its last packet.
    write(&at("d.pcapng"), &[record(0, 1, 10)]);
    let mut cut = fs::read(at("d.pcapng")).unwrap();
    let mut block = Vec::new();
    pcapng::packet(&mut block, &record(0, 2, 11).record());
    cut.extend_from_slice(&block[..20]);
    fs::write(at("d.pcapng"), cut).unwrap();

    let inputs = ["a.pcapng", "b.pcapng.gz", "c.pcap", "d.pcapng"].map(at);
    let report = merge_files(&inputs, &at("out.pcapng.zst"), &MergeControl::default()).unwrap();
    let (records, error) = read_all(&at("out.pcapng.zst"));
    assert!(error.is_none(), "{error:?}");
    let bytes: Vec<_> = records.iter().map(|record| record.data[0]).collect();
    // 1 before 4 at time 10 by the order of inputs; 6 stays behind 5, out of order; 2 before 3 as
    // in their file.
    assert_eq!(bytes, [10, 8, 1, 4, 5, 6, 2, 3, 7, 9]);
    let interfaces: Vec<_> = records.iter().map(|record| record.interface).collect();
    assert_eq!(interfaces, [7, 6, 0, 3, 4, 4, 2, 1, 4, 6]);
    assert_eq!((report.written.packets, report.out_of_order), (10, 1));
    let inputs: Vec<_> =
        report.inputs.iter().map(|i| (i.packets, i.interfaces, i.out_of_order)).collect();
    assert_eq!(inputs, [(3, 3, 0), (4, 3, 1), (2, 1, 0), (1, 3, 0)]);
    assert!(report.inputs[0].damage.is_none());
    assert!(matches!(report.inputs[3].damage, Some(CaptureError::Truncated { packets: 1, .. })));

    let reader = {
        let mut reader = CaptureReader::open(at("out.pcapng.zst")).unwrap();
        while reader.next_record().unwrap().is_some() {}
        reader
    };
    let expected: Vec<_> = [
        &sources()[..],
        &sources(),
        &[Source { link_type: 1, snaplen: 262_144, ..Source::default() }],
    ]
    .concat();
    let mut expected = expected;
    expected[6].snaplen = reader.interfaces()[6].snaplen;
    expected.extend(sources());
    assert_eq!(reader.interfaces(), expected);
    assert_eq!(reader.statistics(), [0, 2, 3, 5, 7, 9].map(counters));

    let error =
        merge_files(&[at("a.pcapng")], &at("a.pcapng"), &MergeControl::default()).unwrap_err();
    assert!(error.to_string().ends_with("it is the input file; write to another file"));
    assert_eq!(read_all(&at("a.pcapng")).0.len(), 3, "the input was not touched");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Files that are in order themselves merge into what a stable sort of them all gives.
    #[test]
    fn merge_equals_a_sort(times in proptest::collection::vec(proptest::collection::vec(1..60u64, 0..30), 1..6)) {
        let directory = tempfile::tempdir().unwrap();
        let mut all = Vec::new();
        let mut inputs = Vec::new();
        for (input, mut times) in times.into_iter().enumerate() {
            times.sort_unstable();
            let number = |(index, time): (usize, u64)| {
                Owned::new(index as u32 % 3, time, &[input as u8, index as u8])
            };
            let records: Vec<_> = times.into_iter().enumerate().map(number).collect();
            inputs.push(directory.path().join(format!("{input}.pcapng")));
            write(&inputs[input], &records);
            let renumber = |record: &Owned| Owned {
                interface: record.interface + 3 * input as u32,
                ..record.clone()
            };
            all.extend(records.iter().map(renumber));
        }
        all.sort_by_key(|record| record.timestamp);
        let output = directory.path().join("out.pcapng");
        let report = merge_files(&inputs, &output, &MergeControl::default()).unwrap();
        let (records, error) = read_all(&output);
        prop_assert!(error.is_none());
        prop_assert_eq!(report.out_of_order, 0);
        prop_assert_eq!(report.written.packets, all.len() as u64);
        prop_assert_eq!(records, all);
    }
}

/// 32 bits of seconds end in 2106: later packets are refused, and earlier packets are in the file.
#[test]
fn classic_pcap_refuses_times_that_it_cannot_hold() {
    let directory = tempfile::tempdir().unwrap();
    let last = (1 << 32) * SECOND - 1;
    for suffix in ["pcap", "pcap.gz"] {
        let path = directory.path().join("a").with_extension(suffix);
        let options = WriterOptions::of_path(&path);
        let mut writer = CaptureWriter::create(&path, &sources(), options, 0).unwrap();
        writer.write(&Owned::new(0, 0, &[0; 60]).record()).unwrap();
        writer.write(&Owned::new(0, last, &[0; 60]).record()).unwrap();
        let error = writer.write(&Owned::new(0, last + 1, &[0; 60]).record()).unwrap_err();
        assert!(matches!(error, CaptureError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("2106") && error.to_string().contains("pcapng"));
        assert_eq!(writer.written().packets, 2);
        drop(writer);
        let (packets, error) = read_all(&path);
        assert!(error.is_none());
        assert!(packets.iter().map(|packet| packet.timestamp).eq([0, last]));
    }
}

/// The last steps before the end of 64 bits are steps like others, and behind it there is none.
#[test]
fn rotation_by_time_ends_with_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer =
        rotating(directory.path(), Rotation { max_age: Some(10 * SECOND), ..Rotation::default() });
    for time in [START, u64::MAX - 20 * SECOND, u64::MAX - 1, u64::MAX, u64::MAX, u64::MAX] {
        writer.advance(time).unwrap();
        writer.write(&Owned::new(0, time, &[0; 60]).record()).unwrap();
    }
    let written = writer.finish(&[]).unwrap();
    assert_eq!((written.files, written.packets), (3, 6));
}
