//! The compressions of capture files: their names, suffixes and levels, and parsing a user's
//! choice.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::Path;

use crate::error::CaptureError;

/// Suffixes of compressions that Wirelane does not write: other contents under such a name would
/// surprise.
const FOREIGN: [&str; 14] =
    ["7z", "Z", "br", "bz2", "bzip2", "lz", "lzh", "lzma", "lzo", "rar", "sz", "xz", "z", "zip"];

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// gzip (RFC 1952): everything reads it.
    Gzip,
    /// lz4 frames: the fastest, and the largest files.
    Lz4,
    /// zstd (RFC 8878): nearly as fast as lz4, and smaller than gzip.
    Zstd,
}

impl Compression {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Gzip, Self::Lz4, Self::Zstd];

    /// The compression for the suffix of a path: `.gz`, `.lz4` or `.zst`.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        let suffix = path.extension()?.to_str()?;
        Self::ALL.into_iter().find(|one| one.suffix().strip_prefix('.') == Some(suffix))
    }

    /// Whether a path has the suffix of a compression that Wirelane does not write.
    pub(crate) fn is_foreign(path: &Path) -> bool {
        path.extension().and_then(OsStr::to_str).is_some_and(|suffix| FOREIGN.contains(&suffix))
    }

    /// Suffix of file names, with its dot.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Gzip => ".gz",
            Self::Lz4 => ".lz4",
            Self::Zstd => ".zst",
        }
    }

    /// The name of its program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// Levels from the fastest to the smallest, numbered as in its program.
    #[must_use]
    pub fn levels(self) -> RangeInclusive<u8> {
        match self {
            Self::Gzip => 1..=9,
            Self::Lz4 => 1..=1,
            Self::Zstd => 1..=22,
        }
    }

    /// Bytes of a chunk that becomes a frame, before compression. Each frame begins with an empty
    /// window: gzip and lz4 look back 64 KiB at most, and lose little; zstd looks back 512 KiB and
    /// more. With frames of 1 MiB, similar packets take a quarter more space than with `zstd -1` in
    /// one frame (IMIX of `sim:`), and with these chunks a twentieth more.
    pub(crate) const fn chunk(self) -> usize {
        match self {
            Self::Gzip | Self::Lz4 => 1 << 20,
            Self::Zstd => 4 << 20,
        }
    }

    /// Recognizes the compression by the first bytes of a file.
    pub(crate) fn of_magic(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x04, 0x22, 0x4d, 0x18, ..] => Some(Self::Lz4),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            // A skippable frame (RFC 8878 section 3.1.2), with which all files of pzstd begin: it
            // states the length of the next frame. Skippable frames of lz4 look the same, but no
            // program begins a file with one.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// How to compress a file. [`CompressionOptions::fastest`] creates one; `level` and `threads` have
/// setters of the same name.
///
/// ```
/// use wirelane_pcap::{Compression, CompressionOptions};
///
/// let options = CompressionOptions::parse("zstd:3,threads=2").unwrap().unwrap();
/// assert_eq!((options.compression, options.level, options.threads), (Compression::Zstd, 3, 2));
/// assert_eq!(CompressionOptions::parse("none").unwrap(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompressionOptions {
    /// The compression.
    pub compression: Compression,
    /// One of [`Compression::levels`].
    pub level: u8,
    /// Number of compressing threads, at least 1.
    pub threads: u8,
}

wirelane_wire::setters!(CompressionOptions: ; level: u8, threads: u8);

impl CompressionOptions {
    /// Most threads for one file.
    pub const MAX_THREADS: u8 = 64;

    /// The fastest level, on one thread.
    #[must_use]
    pub fn fastest(compression: Compression) -> Self {
        Self { compression, level: *compression.levels().start(), threads: 1 }
    }

    /// Parses `zstd`, `zstd:3`, `gzip:6,threads=2`, `lz4` or `none`. The default level is the
    /// fastest.
    ///
    /// # Errors
    /// [`CaptureError::Invalid`], with the valid values.
    pub fn parse(text: &str) -> Result<Option<Self>, CaptureError> {
        let mut parts = text.split(',');
        let head = parts.next().unwrap_or_default();
        let (name, level) = head.split_once(':').map_or((head, None), |(a, b)| (a, Some(b)));
        if text == "none" {
            return Ok(None);
        }
        let Some(compression) = Compression::ALL.into_iter().find(|one| one.name() == name) else {
            let what = format!("unknown compression {name:?}");
            return Err(invalid(what, "give gzip, lz4, zstd or none"));
        };
        let mut options = Self::fastest(compression);
        if let Some(level) = level {
            let levels = compression.levels();
            options.level =
                number(level).filter(|level| levels.contains(level)).ok_or_else(|| {
                    let (low, high) = (levels.start(), levels.end());
                    let help = format!("give one from {low} to {high}");
                    invalid(format!("{name} has no level {level:?}"), help)
                })?;
        }
        for part in parts {
            let Some(("threads", count)) = part.split_once('=') else {
                return Err(invalid(format!("unknown option {part:?}"), "there is threads=N"));
            };
            let allowed = 1..=Self::MAX_THREADS;
            options.threads =
                number(count).filter(|count| allowed.contains(count)).ok_or_else(|| {
                    let help = format!("give a number from 1 to {}", Self::MAX_THREADS);
                    invalid(format!("{count:?} threads"), help)
                })?;
        }
        Ok(Some(options))
    }
}

fn invalid(what: String, help: impl Into<Cow<'static, str>>) -> CaptureError {
    CaptureError::Invalid { name: "compression", what, help: help.into() }
}

/// Parses decimal digits without a sign or spaces.
fn number(text: &str) -> Option<u8> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let of =
            |compression, level, threads| Some(CompressionOptions { compression, level, threads });
        for (text, expected) in [
            ("none", None),
            ("gzip", of(Compression::Gzip, 1, 1)),
            ("gzip:9", of(Compression::Gzip, 9, 1)),
            ("lz4", of(Compression::Lz4, 1, 1)),
            ("lz4,threads=64", of(Compression::Lz4, 1, 64)),
            ("zstd:22", of(Compression::Zstd, 22, 1)),
            ("zstd:3,threads=2", of(Compression::Zstd, 3, 2)),
        ] {
            assert_eq!(CompressionOptions::parse(text).unwrap(), expected, "{text}");
        }
        for (text, error) in [
            ("", "unknown compression \"\"; give gzip, lz4, zstd or none"),
            ("xz", "unknown compression \"xz\"; give gzip, lz4, zstd or none"),
            ("none:1", "unknown compression \"none\"; give gzip, lz4, zstd or none"),
            ("none,threads=2", "unknown compression \"none\"; give gzip, lz4, zstd or none"),
            ("gzip:0", "gzip has no level \"0\"; give one from 1 to 9"),
            ("zstd:+3", "zstd has no level \"+3\"; give one from 1 to 22"),
            ("zstd:", "zstd has no level \"\"; give one from 1 to 22"),
            ("zstd:300", "zstd has no level \"300\"; give one from 1 to 22"),
            ("zstd,", "unknown option \"\"; there is threads=N"),
            ("zstd,level=3", "unknown option \"level=3\"; there is threads=N"),
            ("zstd,threads=0", "\"0\" threads; give a number from 1 to 64"),
            ("zstd,threads=65", "\"65\" threads; give a number from 1 to 64"),
        ] {
            let found = CompressionOptions::parse(text).unwrap_err().to_string();
            assert_eq!(found, format!("compression: {error}"));
        }
    }

    #[test]
    fn suffixes() {
        for one in Compression::ALL {
            let path = format!("a.b/c.pcapng{}", one.suffix());
            assert_eq!(Compression::of_path(Path::new(&path)), Some(one));
            assert!(!Compression::is_foreign(Path::new(&path)));
        }
        for plain in ["a", "a.pcap", ".gz", "-", "a.gz/b", "a.1", "a.cap"] {
            assert_eq!(Compression::of_path(Path::new(plain)), None, "{plain}");
            assert!(!Compression::is_foreign(Path::new(plain)), "{plain}");
        }
        for foreign in ["a.xz", "a.pcapng.bz2", "a.pcap.br", "a.zip"] {
            assert!(Compression::is_foreign(Path::new(foreign)), "{foreign}");
        }
    }
}
