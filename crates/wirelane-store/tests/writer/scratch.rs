//! A directory for a store, and its content.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};
use tempfile::TempDir;
use wirelane_pcap::{CaptureReader, Class, Direction, Record, Source};
use wirelane_store::{Directory, EXTENT_ALIGNMENT, Index, SegmentName};
use wirelane_testkit::tools;

/// The location of a store.
pub(crate) enum Scratch {
    Directory(TempDir),
    /// A private mount, which ends with this descriptor.
    Mount {
        path: PathBuf,
        _mount: OwnedFd,
    },
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(tools::find(program).unwrap()).args(args).output().unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A packet as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) interface: u32,
    pub(crate) timestamp: u64,
    pub(crate) original_len: u32,
    pub(crate) data: Vec<u8>,
}

impl Scratch {
    /// On the disk of temporary files.
    pub(crate) fn on_disk() -> Self {
        Self::Directory(tempfile::tempdir().unwrap())
    }

    /// In a tmpfs.
    pub(crate) fn in_memory() -> Self {
        Self::Directory(tempfile::tempdir_in("/dev/shm").unwrap())
    }

    /// In a private tmpfs of this size. Needs privileges.
    pub(crate) fn small(mebibytes: u64) -> Self {
        Self::mount("tmpfs", &[("size", &format!("{mebibytes}m"))])
    }

    /// In a file system of this size that cannot reserve blocks for a file. Needs privileges,
    /// `losetup` and `mkfs.ext4`.
    pub(crate) fn without_reservation(mebibytes: u64) -> Self {
        let memory = Self::in_memory();
        let file = memory.path().join("disk");
        std::fs::File::create(&file).unwrap().set_len(mebibytes << 20).unwrap();
        let file = file.to_str().unwrap();
        run(
            "mkfs.ext4",
            &["-q", "-F", "-m", "0", "-b", "4096", "-O", "^has_journal,^extent,^64bit", file],
        );
        let device = run("losetup", &["--find", "--show", file]);
        let scratch = Self::mount("ext4", &[("source", device.trim())]);
        // The loop device ends with the mount.
        run("losetup", &["--detach", device.trim()]);
        scratch
    }

    fn mount(kind: &str, options: &[(&str, &str)]) -> Self {
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
        for (key, value) in options {
            fsconfig_set_string(&context, *key, *value).unwrap();
        }
        fsconfig_create(&context).unwrap();
        let (flags, attributes) = (FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
        let mount = fsmount(&context, flags, attributes).unwrap();
        let path = format!("/proc/self/fd/{}", mount.as_raw_fd()).into();
        Self::Mount { path, _mount: mount }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Directory(directory) => directory.path(),
            Self::Mount { path, .. } => path,
        }
    }

    pub(crate) fn directory(&self) -> Directory {
        Directory::open(self.path()).unwrap()
    }

    /// Its segments by lane, in the order of their numbers.
    pub(crate) fn segments(&self) -> BTreeMap<u32, Vec<SegmentName>> {
        let mut lanes = BTreeMap::<u32, Vec<SegmentName>>::new();
        for entry in self.directory().segments().unwrap() {
            lanes.entry(entry.name.lane).or_default().push(entry.name);
        }
        lanes
    }

    pub(crate) fn path_of(&self, name: &SegmentName) -> PathBuf {
        self.path().join(name.file_name())
    }

    /// Packets of a lane, from the segments as files.
    pub(crate) fn packets(&self, lane: u32) -> Vec<Read> {
        let segments = self.segments().remove(&lane).unwrap_or_default();
        segments.iter().flat_map(|name| read(&self.path_of(name))).collect()
    }

    /// Every segment is finished and undamaged, has an index of its extents, and has their times in
    /// its name.
    pub(crate) fn is_sound(&self) {
        for name in self.segments().into_values().flatten() {
            let path = self.path_of(&name);
            let packets = read(&path);
            let times = packets.iter().map(|packet| packet.timestamp);
            if let Some(times) = times.clone().min().zip(times.max()) {
                assert_eq!(name.times, Some(times), "{path:?}");
            }
            let len = std::fs::metadata(&path).unwrap().len();
            assert_eq!(len % EXTENT_ALIGNMENT as u64, 0);
            let index = Index::open(&self.path().join(name.index_name())).unwrap();
            let extents = index.extents();
            let sum: u64 = extents.iter().map(|extent| u64::from(extent.header.packets)).sum();
            assert_eq!(sum, packets.len() as u64);
            let last = extents.last().unwrap();
            let end = last.offset + last.header.extent_len(name.is_compressed()) as u64;
            assert_eq!(end, len, "{path:?}");
        }
    }
}

/// All packets of a file.
pub(crate) fn read(path: &Path) -> Vec<Read> {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut packets = Vec::new();
    while let Some(Record { interface, timestamp, original_len, data, .. }) =
        reader.next_record().unwrap()
    {
        packets.push(Read { interface, timestamp, original_len, data: data.to_vec() });
    }
    packets
}

pub(crate) fn sources() -> [Source; 2] {
    [Source::new("eth0", Class::Rx, Some(0)), Source::new("eth0", Class::Tx, Some(0))]
}

/// Packet number `number`: its length, content and time follow from that.
pub(crate) fn packet(number: u64) -> Read {
    let seed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let len = 60 + (seed >> 40) as usize % 1400;
    let mut data = vec![0; len];
    for (at, byte) in data.iter_mut().enumerate().skip(12) {
        *byte = (seed >> (at % 8)) as u8 ^ at as u8;
    }
    data[12..14].copy_from_slice(&[0x08, 0x00]);
    let timestamp = 1_700_000_000_000_000_000 + number * 1000;
    Read { interface: (number % 2) as u32, timestamp, original_len: len as u32 + 4, data }
}

impl Read {
    pub(crate) fn record(&self) -> Record<'_> {
        Record {
            interface: self.interface,
            timestamp: self.timestamp,
            original_len: self.original_len,
            direction: Direction::Unknown,
            data: &self.data,
        }
    }
}
