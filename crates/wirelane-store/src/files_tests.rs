use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::process;

use rustix::fs::{CWD, FileType, mknodat};
use wirelane_pcap::Access;

use super::*;

fn store() -> (tempfile::TempDir, Directory) {
    let root = tempfile::tempdir().unwrap();
    let directory = Directory::create(&root.path().join("store"), Access::default()).unwrap();
    (root, directory)
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

#[test]
fn only_regular_files_are_opened() {
    let (root, directory) = store();
    fs::write(root.path().join("victim"), "precious").unwrap();
    let at = |name: &str| directory.path_of(name);
    fs::write(at("regular"), "x").unwrap();
    fifo(&at("fifo"));
    symlink("/dev/zero", at("zero")).unwrap();
    symlink(root.path().join("victim"), at("link")).unwrap();
    symlink(root.path().join("none"), at("dangling")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();

    assert!(directory.open_file("regular").unwrap().is_some());
    assert!(directory.open_file("none").unwrap().is_none());
    for name in ["fifo", "zero", "link", "dangling", "directory", "socket"] {
        let error = directory.open_file(name).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        assert!(directory.open_writable(name).is_err(), "{name}");
        assert!(directory.open_or_create(name).is_err(), "{name}");
        assert!(open_path(&at(name)).is_err(), "{name}");
        assert!(directory.create_file(name).unwrap().is_none(), "{name}");
    }
    assert_eq!(fs::read(root.path().join("victim")).unwrap(), b"precious");
    assert!(!root.path().join("none").exists());
}

#[test]
fn a_new_file_replaces_what_a_killed_process_left_and_follows_no_link() {
    let (root, directory) = store();
    let victim = root.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, directory.path_of("link")).unwrap();
    fs::hard_link(&victim, directory.path_of("hard")).unwrap();
    fifo(&directory.path_of("fifo"));
    fs::write(directory.path_of("old"), "half").unwrap();
    for name in ["link", "hard", "fifo", "old", "new"] {
        let mut file = directory.create_anew(name).unwrap();
        io::Write::write_all(&mut file, b"new").unwrap();
        assert_eq!(fs::read(directory.path_of(name)).unwrap(), b"new", "{name}");
    }
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn a_file_with_other_names_is_not_written_to_but_replaced() {
    let (root, directory) = store();
    let victim = root.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    fs::hard_link(&victim, directory.path_of("recorder.lock")).unwrap();
    let lock = directory.lock_recorder(Access::default()).unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert!(directory.is_recording().unwrap());
    assert!(directory.lock_recorder(Access::default()).is_err(), "there is one recorder");
    drop(lock);
    assert_eq!(fs::metadata(directory.path_of("recorder.lock")).unwrap().nlink(), 1);
    fs::hard_link(&victim, directory.path_of("segment")).unwrap();
    let error = directory.open_writable("segment").unwrap_err().to_string();
    assert!(error.contains("hard links"), "{error}");
}

/// A recorder holds the lock that its store and a copy by `cp -al` share: no process replaces it.
#[test]
fn a_linked_lock_that_is_held_is_not_replaced() {
    let (_root, directory) = store();
    let lock = directory.lock_recorder(Access::default()).unwrap();
    fs::hard_link(directory.path_of("recorder.lock"), directory.path_of("other")).unwrap();
    assert!(directory.lock_recorder(Access::default()).is_err());
    drop(lock);
    assert!(directory.lock_recorder(Access::default()).is_ok());
}

#[test]
fn planted_links_overwrite_nothing() {
    let (root, directory) = store();
    let victim = root.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, directory.path_of("recorder.lock")).unwrap();
    assert!(directory.lock_recorder(Access::default()).is_err());
    assert!(directory.is_recording().is_err());
    fs::remove_file(directory.path_of("recorder.lock")).unwrap();

    fs::remove_file(directory.path_of("wirelane.store")).unwrap();
    let part = format!("wirelane.store.{}", process::id());
    symlink(&victim, directory.path_of(&part)).unwrap();
    assert!(Directory::create(directory.path(), Access::default()).unwrap().id().is_some());
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn the_length_of_a_file_ends_at_its_first_hole() {
    let (_root, directory) = store();
    let file = directory.create_anew("file").unwrap();
    assert_eq!(len_without_holes(&file).unwrap(), 0);
    io::Write::write_all(&mut &file, &[1; 5000]).unwrap();
    assert_eq!(len_without_holes(&file).unwrap(), 5000);
    file.set_len(1 << 40).unwrap();
    assert!(len_without_holes(&file).unwrap() < 64 << 10);
}
