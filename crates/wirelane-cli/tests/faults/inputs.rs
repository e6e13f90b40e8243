//! An input is never overwritten, under any of its names.

use std::process::Stdio;

use wirelane_testkit::process::unfolded;

use super::*;

/// A copy of the input under a name, a hard link and a symbolic link. Returns its path and content.
fn with_names(bed: &Bed, [name, hard, soft]: [&str; 3]) -> (PathBuf, Vec<u8>) {
    let file = bed.path(name);
    std::fs::copy(bed.path("in.pcapng"), &file).unwrap();
    std::fs::hard_link(&file, bed.path(hard)).unwrap();
    std::os::unix::fs::symlink(&file, bed.path(soft)).unwrap();
    let whole = std::fs::read(&file).unwrap();
    (file, whole)
}

#[test]
fn an_input_is_not_destroyed() {
    let bed = Bed::new();
    let (file, whole) = with_names(&bed, ["b.pcapng", "hard.pcapng", "soft.pcapng"]);
    let reads = ["-", "/dev/stdin", "/proc/self/fd/0", "b.pcapng", "hard.pcapng", "soft.pcapng"];
    let writes = ["b.pcapng", "hard.pcapng", "soft.pcapng", "/dev/stdin", "/dev/fd/0", "-"];
    for read in reads {
        for write in writes {
            let port = format!("file:{read}");
            let sink = format!("file:{write}");
            let all = [
                vec!["merge", read, "-w", write],
                vec!["merge", "small.pcapng", read, "-w", write],
                vec!["capture", "-q", &port, "-w", write],
                vec!["forward", "-q", &port, &sink],
            ];
            for args in all {
                let open = || OpenOptions::new().read(true).append(true).open(&file).unwrap();
                let ended = wirelane(&args)
                    .current_dir(bed.directory.path())
                    .stdin(open())
                    .stdout(if write == "-" { open().into() } else { Stdio::null() })
                    .output()
                    .unwrap();
                let stderr = unfolded(&ended.stderr);
                assert_eq!(ended.status.code(), Some(2), "{args:?}: {stderr}");
                assert!(stderr.contains("it is the input file"), "{args:?}: {stderr}");
                assert!(std::fs::read(&file).unwrap() == whole, "{args:?}: the input was changed");
            }
        }
    }
}

/// Generated names: names of a rotation, and of the files of queues.
#[test]
fn an_input_is_not_destroyed_by_a_name_made_up() {
    let bed = Bed::new();
    let whole = std::fs::read(bed.path("in.pcapng")).unwrap();
    let split = bed.path("x.rx1.pcapng");
    std::fs::copy(bed.path("in.pcapng"), &split).unwrap();
    let port = format!("file:{}", split.display());
    let capture = |args: &[&str]| {
        let mut command = wirelane(["capture", "-q", "--json", &port, "-w"]);
        output(command.arg(bed.path("x.pcapng")).args(args))
    };
    // Files with generated names are new.
    let ended = capture(&["--split"]);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(std::fs::read(&split).unwrap() == whole);
    assert!(bed.path("x.rx1-1.pcapng").exists());
    // The third file of a rotation: its name holds the time of its first packet.
    let ended = capture(&["--rotate-packets", "1000"]);
    assert!(ended.status.success(), "{}", ended.stderr);
    let third = std::fs::read_dir(bed.directory.path()).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        path.file_name()?.to_str()?.starts_with("x_00003_").then_some(path)
    });
    let third = third.unwrap();
    std::fs::remove_file(&third).unwrap();
    std::fs::hard_link(&split, &third).unwrap();
    let ended = capture(&["--rotate-packets", "1000"]);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(std::fs::read(&split).unwrap() == whole && std::fs::read(&third).unwrap() == whole);
    assert_eq!(parse(&ended.stdout)["totals"]["written"], 5000);
}

/// Files that are no input are replaced.
#[test]
fn other_files_are_replaced() {
    let bed = Bed::new();
    for kind in KINDS {
        let file = bed.path(&format!("{kind:?}.pcapng"));
        std::fs::write(&file, vec![7; 50_000_000]).unwrap();
        let ended = bed.run(&wirelane(bed.finite(kind, &file)));
        assert!(assert_written(kind, &ended, &file).unwrap() > 0, "{kind:?}");
    }
}

/// Commands that replay, convert or make flows of their input leave the file unchanged, under each
/// of its names.
#[test]
fn an_input_is_not_destroyed_by_what_is_made_of_it() {
    let bed = Bed::new();
    let (file, whole) = with_names(&bed, ["a.csv", "hard.csv", "soft.csv"]);
    for write in ["a.csv", "hard.csv", "soft.csv", "/proc/self/fd/0"] {
        let sink = format!("file:{write}");
        let mut all = vec![
            vec!["send", "-q", "--top-speed", &sink, "a.csv"],
            vec!["send", "-q", "--top-speed", &sink, "small.pcapng", "hard.csv"],
            vec!["send", "-q", &sink, "--flows", "a.csv"],
            vec!["convert", "a.csv", write],
            vec!["capture", "-q", "-r", "a.csv", "-w", write],
        ];
        if write.ends_with(".csv") {
            all.push(vec!["flows", "-q", "-r", "a.csv", "-w", write]);
        }
        for args in all {
            let mut command = wirelane(&args);
            command.current_dir(bed.directory.path()).stdin(File::open(&file).unwrap());
            let ended = command.output().unwrap();
            let stderr = unfolded(&ended.stderr);
            assert_eq!(ended.status.code(), Some(2), "{args:?}: {stderr}");
            assert!(stderr.contains("it is the input file"), "{args:?}: {stderr}");
            assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
            assert!(std::fs::read(&file).unwrap() == whole, "{args:?}: the input was changed");
        }
    }
}

/// A command without a readable input leaves the output unchanged.
#[test]
fn an_output_stays_as_it_is_without_an_input() {
    let bed = Bed::new();
    let file = bed.path("old.csv");
    std::fs::write(&file, "precious").unwrap();
    let sink = format!("file:{}", file.display());
    let (missing, wrong) = (bed.path("none.pcap"), bed.path("wrong.pcap"));
    std::fs::write(&wrong, "this is no capture file, but it is long enough").unwrap();
    for input in [&missing, &wrong].map(|path| path.to_str().unwrap()) {
        let output = file.to_str().unwrap();
        for (args, status) in [
            (vec!["send", "-q", &sink, input], 1),
            (vec!["send", "-q", &sink, "--flows", input], 1),
            (vec!["send", "-q", "--engine", "kernel", &sink, "--packet", "udp"], 2),
            (vec!["convert", input, output], 1),
            (vec!["merge", input, "-w", output], 1),
            (vec!["capture", "-q", "-r", input, "-w", output], 1),
            (vec!["forward", "-q", &format!("file:{input}"), &sink], 1),
            (vec!["flows", "-q", "-r", input, "-w", output], 1),
        ] {
            let ended = bed.run(&wirelane(&args));
            assert_eq!(ended.status.code(), Some(status), "{args:?}: {}", ended.stderr);
            assert_eq!(std::fs::read(&file).unwrap(), b"precious", "{args:?}");
        }
    }
}

/// An answer must not replace a segment of the store.
#[test]
fn a_store_is_not_destroyed_by_answers() {
    let bed = Bed::new();
    let store = bed.path("store");
    let recorded = output(wirelane(["record", "-q", "sim:1?count=1000"]).arg(&store));
    assert!(recorded.status.success(), "{}", recorded.stderr);
    let segment = std::fs::read_dir(&store).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        path.to_str()?.ends_with(".pcapng").then_some(path)
    });
    let segment = segment.unwrap();
    let whole = std::fs::read(&segment).unwrap();
    for name in ["x.csv", "x.pcapng"] {
        std::os::unix::fs::symlink(&segment, bed.path(name)).unwrap();
    }
    let store = store.to_str().unwrap();
    for args in [["flows", "-w", "x.csv", store], ["extract", "-w", "x.pcapng", store]] {
        let ended = output(wirelane(args).current_dir(bed.directory.path()));
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("it is the input file"), "{args:?}: {}", ended.stderr);
        assert!(std::fs::read(&segment).unwrap() == whole, "{args:?}");
    }
}
