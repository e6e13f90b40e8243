//! What is read is never written, whatever it is called and however it was opened.

use std::process::Stdio;

use super::*;

#[test]
fn an_input_is_not_destroyed() {
    let bed = Bed::new();
    let file = bed.path("b.pcapng");
    std::fs::copy(bed.path("in.pcapng"), &file).unwrap();
    let whole = std::fs::read(&file).unwrap();
    std::fs::hard_link(&file, bed.path("hard.pcapng")).unwrap();
    std::os::unix::fs::symlink(&file, bed.path("soft.pcapng")).unwrap();
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
                let stderr = String::from_utf8_lossy(&ended.stderr);
                assert_eq!(ended.status.code(), Some(2), "{args:?}: {stderr}");
                assert!(stderr.contains("it is the input file"), "{args:?}: {stderr}");
                assert!(std::fs::read(&file).unwrap() == whole, "{args:?}: the input was changed");
            }
        }
    }
}

/// Names that only come up later: those of a rotation, and of the files of queues.
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
    let ended = capture(&["--split"]);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("it is the input file"), "{}", ended.stderr);
    assert!(std::fs::read(&split).unwrap() == whole);
    // The third file of a rotation: its name holds the time at which it begins, which is that of
    // its first packet.
    let ended = capture(&["--rotate-packets", "1000"]);
    assert!(ended.status.success(), "{}", ended.stderr);
    let third = std::fs::read_dir(bed.directory.path()).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        path.file_name()?.to_str()?.starts_with("x_00003_").then_some(path)
    });
    std::fs::remove_file(third.as_ref().unwrap()).unwrap();
    std::fs::hard_link(&split, third.unwrap()).unwrap();
    let ended = capture(&["--rotate-packets", "1000"]);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("it is the input file"), "{}", ended.stderr);
    assert!(std::fs::read(&split).unwrap() == whole);
    assert_eq!(parse(&ended.stdout)["totals"]["written"], 2000);
}

/// Of files that are not read, everything is as before: they are replaced.
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
