//! Rotation: when a new file begins, and its name.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use wirelane_wire::date;

use crate::class::Class;
use crate::compression::Compression;
use crate::identity::FileId;
use crate::record::Source;

/// When a capture continues in a new file. Limits combine: the first one reached counts. 0 or
/// `None` is no limit. Each field has a setter of the same name.
///
/// * Files are named `NAME_00001_20261120213000.pcapng` for `NAME.pcapng`, as dumpcap does: a
///   number from 1 and the start time of the file, in UTC. The number has at least five digits.
/// * The time comes from packets: the time of the file's first packet, or the start of its step of
///   `max_age`. Until its first packet, the first file has the time of its creation.
/// * No existing file is opened. If a name is taken, the file gets the next free name:
///   `NAME_00001_20261120213000-1.pcapng`.
/// * Every file is complete: it begins with all headers and ends with the latest statistics.
/// * The first file begins at once, even without a packet. A later file begins only when there is a
///   packet for it, or when the previous file holds a packet and its time is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rotation {
    /// Most bytes per file, on disk. A file is never larger, unless its first packet alone is.
    /// tcpdump `-C` and dumpcap `-b filesize` both let the last packet exceed the limit. The
    /// compressed size of a packet is not known in advance, so a compressed file ends when less
    /// than 1/32 of the limit (at least 4 KiB) is left.
    pub max_bytes: Option<u64>,
    /// Nanoseconds of packet time per file, counted from the start of the capture in whole steps:
    /// file k holds the packets of `[start + k·age, start + (k+1)·age)`. The steps do not move when
    /// traffic is idle, when another limit rotates earlier, or when a file is late (tcpdump `-G`
    /// drifts, the-tcpdump-group/tcpdump#857).
    pub max_age: Option<u64>,
    /// Most packets per file.
    pub max_packets: Option<u64>,
    /// Most files to keep: before a new file, the oldest file of this capture is deleted, unless
    /// another file has taken its name. As tcpdump `-C -W` and dumpcap `-b files`.
    pub max_files: Option<u32>,
}

wirelane_wire::setters!(Rotation:
    max_bytes: Option<u64>,
    max_age: Option<u64>,
    max_packets: Option<u64>,
    max_files: Option<u32>,
);

impl Rotation {
    /// Whether there is any limit that starts a new file.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.max_bytes.is_some() || self.max_age.is_some() || self.max_packets.is_some()
    }
}

/// Parses a size such as `1500`, `64k`, `10M` or `1G`: units of 1024, upper or lower case.
///
/// ```
/// assert_eq!(wirelane_pcap::parse_size("64k"), Some(65_536));
/// assert_eq!(wirelane_pcap::parse_size("1.5M"), None);
/// ```
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (text.get(..text.len() - 1)?, 10),
        b'm' | b'M' => (text.get(..text.len() - 1)?, 20),
        b'g' | b'G' => (text.get(..text.len() - 1)?, 30),
        b't' | b'T' => (text.get(..text.len() - 1)?, 40),
        _ => (text, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The file of one queue when each queue has a separate file: `NAME.rx0.pcapng`, `NAME.tx3.pcapng`,
/// `NAME.other.pcapng` for `NAME.pcapng`, and `NAME.queue1.pcapng` if only the queue number is
/// known. With the `port` of the queue: `NAME.eth0.rx0.pcapng`.
#[must_use]
pub fn split_name(path: &Path, port: Option<&str>, source: &Source) -> PathBuf {
    let queue = source.queue.map(|queue| queue.to_string()).unwrap_or_default();
    // The name of an interface in a file may contain any character.
    let plain = |c: char| if c.is_alphanumeric() || "-_.:#@".contains(c) { c } else { '-' };
    let port = port.filter(|port| !port.is_empty());
    let port: String = port.map_or_else(String::new, |port| format!(".{port}"));
    let port: String = port.chars().take(64).map(plain).collect();
    insert(path, &format!("{port}.{}{queue}", source.class.map_or("queue", Class::as_str)))
}

/// Names the files of a rotation and, if old files are deleted, keeps their names.
pub(crate) struct RotationNames {
    path: PathBuf,
    count: u64,
    max_files: Option<u32>,
    made: VecDeque<(PathBuf, Option<FileId>)>,
}

impl RotationNames {
    pub(crate) fn new(path: &Path, max_files: Option<u32>) -> Self {
        Self { path: path.into(), count: 0, max_files, made: VecDeque::new() }
    }

    /// Name of the next file, which begins at `time`.
    pub(crate) fn next(&mut self, time: u64) -> PathBuf {
        self.count += 1;
        self.current(time)
    }

    /// Name of the current file if it begins at `time`.
    pub(crate) fn current(&self, time: u64) -> PathBuf {
        insert(&self.path, &format!("_{:05}_{}", self.count, utc(time / 1_000_000_000)))
    }

    /// Records a new file.
    pub(crate) fn add(&mut self, path: &Path, id: Option<FileId>) {
        if self.max_files.is_some() {
            self.made.push_back((path.into(), id));
        }
    }

    /// Records a new name of the last file.
    pub(crate) fn rename(&mut self, path: &Path) {
        if let Some((last, _)) = self.made.back_mut() {
            *last = path.into();
        }
    }

    /// Deletes the oldest files to make room for a new one. A file that was moved, or that replaced
    /// a file of this capture, stays.
    pub(crate) fn make_room(&mut self) {
        let keep = self.max_files.unwrap_or(u32::MAX).max(1) as usize;
        while self.made.len() >= keep {
            let Some((path, id)) = self.made.pop_front() else { return };
            if FileId::named(&path) == id {
                let _ = fs::remove_file(path);
            }
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

/// The `number`th name to try if `path` is taken; the 0th is `path`.
pub(crate) fn spare(path: &Path, number: u32) -> PathBuf {
    if number == 0 { path.into() } else { insert(path, &format!("-{number}")) }
}

/// Inserts text before the suffixes of a file name: `.pcapng`, and `.gz`, `.lz4` or `.zst` after
/// it.
fn insert(path: &Path, text: &str) -> PathBuf {
    let (base, outer) = match Compression::of_path(path) {
        Some(compression) => (path.with_extension(""), compression.suffix()),
        None => (path.to_path_buf(), ""),
    };
    let mut name: OsString = base.file_stem().unwrap_or_default().into();
    name.push(text);
    if let Some(extension) = base.extension() {
        name.push(".");
        name.push(extension);
    }
    name.push(outer);
    path.with_file_name(name)
}

/// `YYYYMMDDhhmmss` of seconds since the Unix epoch, in UTC.
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date::of_day(days);
    format!("{year:04}{month:02}{day:02}{:02}{:02}{:02}", rest / 3_600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, size) in [
            ("0", Some(0)),
            ("1500", Some(1500)),
            ("64k", Some(65_536)),
            ("10M", Some(10 << 20)),
            ("2g", Some(2 << 30)),
            ("", None),
            ("k", None),
            ("-1", None),
            ("+1", None),
            ("1kB", None),
            ("1é", None),
            ("99999999999999999999", None),
            ("18446744073709551615k", None),
        ] {
            assert_eq!(parse_size(text), size, "{text:?}");
        }
    }

    #[test]
    fn names() {
        let rx = Source::new("eth0", Class::Rx, Some(0));
        let other = Source::new("eth0", Class::Other, None);
        assert_eq!(split_name(Path::new("d/a.pcapng"), None, &rx), Path::new("d/a.rx0.pcapng"));
        assert_eq!(
            split_name(Path::new("a.b.pcapng.zst"), None, &other),
            Path::new("a.b.other.pcapng.zst")
        );
        assert_eq!(split_name(Path::new("a"), None, &rx), Path::new("a.rx0"));
        assert_eq!(split_name(Path::new(".hidden"), None, &rx), Path::new(".hidden.rx0"));

        for (port, expected) in [
            ("eth0", "a.eth0.rx0.pcap.gz"),
            ("../x y", "a...-x-y.rx0.pcap.gz"),
            ("", "a.rx0.pcap.gz"),
        ] {
            assert_eq!(split_name(Path::new("a.pcap.gz"), Some(port), &rx), Path::new(expected));
        }

        let mut names = RotationNames::new(Path::new("/tmp/x.pcapng"), Some(2));
        let time = 1_795_210_200 * 1_000_000_000;
        let first = Path::new("/tmp/x_00001_20261120213000.pcapng");
        assert_eq!((names.next(time).as_path(), names.current(time).as_path()), (first, first));
        for (path, number, expected) in [
            ("d/a.pcapng", 0, "d/a.pcapng"),
            ("d/a.pcapng", 2, "d/a-2.pcapng"),
            ("a.pcap.zst", 1, "a-1.pcap.zst"),
        ] {
            assert_eq!(spare(Path::new(path), number), Path::new(expected));
        }
    }

    #[test]
    fn only_own_files_are_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut names = RotationNames::new(&path("x"), Some(1));
        for (name, is_ours) in [("own", true), ("replaced", false), ("gone", true)] {
            fs::write(path(name), "").unwrap();
            names.add(&path(name), FileId::at(&path(name)));
            if !is_ours {
                fs::write(path("other"), "").unwrap();
                fs::rename(path("other"), path(name)).unwrap();
            }
            names.make_room();
            assert_eq!(path(name).exists(), !is_ours, "{name}");
        }
    }

    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "19700101000000"),
            (951_782_400, "20000229000000"),
            (951_868_799, "20000229235959"),
            (1_709_164_800, "20240229000000"),
            (1_735_689_599, "20241231235959"),
            (4_107_542_400, "21000301000000"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
