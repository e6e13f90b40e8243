//! Files that were damaged, cut or deleted.

use super::*;

/// A store of a few segments, and its packets.
fn store(compress: &str) -> (tempfile::TempDir, PathBuf, Vec<Packet>) {
    let directory = tempdir().unwrap();
    let store = directory.path().join("store");
    let spec = "sim:1?count=9000&size=imix";
    let options = ["--segment", "4M", "--compress", compress];
    let ended = output(wirelane(["record", "-q", spec]).arg(&store).args(options));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let (packets, _) = extract(&store, 0);
    assert_eq!(packets.len(), 9000);
    (directory, store, packets)
}

fn is_part_of(some: &[Packet], all: &[Packet]) -> bool {
    let mut all = all.iter();
    some.iter().all(|packet| all.any(|one| one == packet))
}

#[test]
fn a_flipped_bit_is_named_and_costs_one_extent() {
    for compress in ["none", "lz4", "zstd"] {
        let (_directory, store, all) = store(compress);
        let segment = &segments(&store)[0];
        let whole = fs::read(segment).unwrap();
        for place in [whole.len() / 3, whole.len() / 2] {
            let mut bytes = whole.clone();
            bytes[place] ^= 8;
            fs::write(segment, &bytes).unwrap();
            let (found, said) = extract(&store, 1);
            assert!(
                said.contains(&*segment.to_string_lossy()) && said.contains("at byte"),
                "{said}"
            );
            assert!(found.len() < all.len() && is_part_of(&found, &all));
            let report = check(&store, 1);
            assert_eq!(report["damage"].as_array().unwrap().len(), 1, "{report}");
            // The segment is unchanged.
            assert!(fs::read(segment).unwrap() == bytes);
        }
        fs::write(segment, &whole).unwrap();
        assert_eq!(extract(&store, 0).0, all);
    }
}

#[test]
fn an_index_is_made_anew() {
    let (_directory, store, all) = store("none");
    let index = index_of(&segments(&store)[0]);
    let whole = fs::read(&index).unwrap();
    let reindex = || {
        let ended = output(wirelane(["extract", "--reindex"]).arg(&store));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert!(ended.stderr.contains("made anew"), "{}", ended.stderr);
        assert!(fs::read(&index).unwrap() == whole);
    };
    fs::remove_file(&index).unwrap();
    assert_eq!(extract(&store, 0).0, all);
    reindex();
    for place in (0..whole.len()).step_by(whole.len() / 9) {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        fs::write(&index, &bytes).unwrap();
        let mut command = wirelane(["extract", "-q", "--count"]);
        let ended = output(command.arg(&store).args(["net", "198.18.0.0/15"]));
        // With or without a report, the answer is right.
        assert_eq!(ended.stdout, "9000\n", "byte {place}: {}", ended.stderr);
        reindex();
    }
}

#[test]
fn a_cut_segment_keeps_what_is_before_the_cut() {
    let (_directory, store, all) = store("none");
    let segment = &segments(&store)[0];
    let whole = fs::read(segment).unwrap();
    for len in [0, 1, 4096, 4097, whole.len() / 2, whole.len() - 4096, whole.len() - 1] {
        for has_index in [true, false] {
            fs::write(segment, &whole[..len]).unwrap();
            let index = index_of(segment);
            let kept = fs::read(&index).unwrap();
            if !has_index {
                fs::remove_file(&index).unwrap();
            }
            let directory = tempdir().unwrap();
            let file = directory.path().join("all.pcapng");
            let ended = output(wirelane(["extract", "-q", "-w"]).arg(&file).arg(&store));
            let found = packets(&file);
            assert!(is_part_of(&found, &all));
            let is_told = ended.status.code() == Some(1)
                && ended.stderr.contains(&*segment.to_string_lossy());
            assert!(is_told || found == all, "{len}: {}", ended.stderr);
            fs::write(&index, kept).unwrap();
        }
    }
}
