//! Values that several commands take.

use std::path::Path;
use std::time::Duration;

use clap::{ArgAction, Args};
use wirelane::internal::memory;
use wirelane::pcap::{Compression, CompressionOptions, Section, WriterOptions, parse_size};
use wirelane::{Error, QueueSet, Result};

/// Which packets to select: the three masks of a capture handle.
#[derive(Args, Clone, Debug)]
pub(crate) struct Masks {
    /// RX queues to select: all, none, or a list such as 0,2-3
    #[arg(long, value_name = "QUEUES", default_value = "all")]
    pub(crate) rx_queues: QueueSet,
    /// TX queues to select (packets that the host sends): all, none, or a list
    #[arg(long, value_name = "QUEUES", default_value = "all")]
    pub(crate) tx_queues: QueueSet,
    /// Whether to select packets tied to no queue
    #[arg(long, value_name = "on|off", value_parser = switch, default_value = "on", action = ArgAction::Set)]
    pub(crate) other: bool,
}

/// A number above 0, as in `1000`, `10k`, `5M` (units of 1000).
///
/// # Errors
/// The text is no such value; the message says what to write.
pub fn count(text: &str) -> Result<u64, String> {
    wirelane::internal::port::parse_number(text)
        .filter(|count| *count > 0)
        .ok_or_else(|| "write a number above 0, such as 1000, 10k or 5M".into())
}

/// A time, as in `10s`, `500ms`, `2m`, `1h`, `7d`; a plain number is seconds.
///
/// # Errors
/// The text is no such value; the message says what to write.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => f64::NAN,
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = if plain { digits.parse().unwrap_or(f64::NAN) * unit } else { f64::NAN };
    // A year is longer than any capture, and far from any overflow.
    if seconds > 0.0 && seconds < 366.0 * 86_400.0 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("write a time above 0 and below a year, such as 10s, 500ms, 2m or 1h".into())
    }
}

/// What a capture file says of itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct CommentArgs {
    /// Write TEXT into the file, as a comment of the whole file (pcapng); may be repeated
    #[arg(long, alias = "capture-comment", value_name = "TEXT", value_parser = comment, help_heading = "Output")]
    comment: Vec<String>,
}

impl CommentArgs {
    /// Adds the comments to `section`.
    pub(crate) fn add_to(&self, section: &mut Section) {
        self.comment.iter().for_each(|text| section.add_comment(text));
    }
}

/// A comment, as the format can hold it.
fn comment(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("write some text".into()),
        1..=0xffff => Ok(text.to_owned()),
        len => Err(format!("it has {len} bytes, and a comment of a file 65535 at most")),
    }
}

/// `on` or `off`.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("write on or off".into()),
    }
}

/// Bytes, as in `1500`, `64k`, `10M`, `1G` (units of 1024).
///
/// # Errors
/// The text is no such value; the message says what to write.
pub fn size(text: &str) -> Result<u64, String> {
    parse_size(text)
        .filter(|size| *size > 0)
        .ok_or_else(|| "write a number of bytes above 0, such as 1500, 64k, 10M or 1G".into())
}

/// As [`size`], for a ring. A small number without a unit was probably meant in another unit.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    let size = size(text)?;
    if size < 4096 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("write {text}M or {text}k: a plain number is in bytes"));
    }
    Ok(size)
}

/// A size in bytes that `option` asks for in memory.
///
/// # Errors
/// It is more than this machine can address.
pub(crate) fn address_space(option: &'static str, bytes: Option<u64>) -> Result<Option<usize>> {
    let size = bytes.map(usize::try_from).transpose();
    size.map_err(|_| Error::usage(option, "more than this machine can address"))
}

/// The value of `--compress`: `zstd`, `gzip:6`, `zstd:3,threads=2`, `none`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compress(Option<CompressionOptions>);

impl Compress {
    /// `None` for no compression.
    pub(crate) fn options(self) -> Option<CompressionOptions> {
        self.0
    }
}

/// As [`CompressionOptions::parse`].
pub(crate) fn compress(text: &str) -> Result<Compress> {
    Ok(Compress(CompressionOptions::parse(text)?))
}

/// Options for writing `path`, compressed as `compress` says, or else as the suffix says.
///
/// # Errors
/// They contradict each other.
pub(crate) fn writer(path: &Path, compress: Option<Compress>) -> Result<WriterOptions> {
    let options = WriterOptions::of_path(path).room(memory::for_writers);
    let Some(Compress(compression)) = compress else { return Ok(options) };
    if let Some(named) = Compression::of_path(path)
        && compression.is_none_or(|asked| asked.compression != named)
    {
        let cause = format!("the suffix {} of the file means {}", named.suffix(), named.name());
        return Err(Error::usage("--compress", cause).help("rename the file, or leave it out"));
    }
    Ok(options.compression(compression))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, milliseconds) in
            [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("3", 3_000), ("1d", 86_400_000)]
        {
            assert_eq!(duration(text).unwrap().as_millis(), milliseconds, "{text}");
        }
        for text in ["", "s", "-1s", "1w", "1e9s", "0", "inf", "NaN", "400h50000000m", "é"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_counts_are_above_zero() {
        assert_eq!((size("64k"), count("64k")), (Ok(65_536), Ok(64_000)));
        assert!(size("0").is_err() && count("0").is_err());
        assert_eq!((memory("10M"), memory("65536")), (Ok(10 << 20), Ok(65_536)));
        assert!(memory("10").unwrap_err().starts_with("write 10M or 10k"));
    }

    #[test]
    fn compression_agrees_with_the_suffix() {
        let of = |path, text| writer(Path::new(path), Some(compress(text).unwrap()));
        for (path, text, level) in [
            ("a.pcapng.zst", "zstd:19", Some(19)),
            ("a.pcap", "gzip:6", Some(6)),
            ("-", "lz4", Some(1)),
            ("a.pcap", "none", None),
        ] {
            let found = of(path, text).unwrap().compression.map(|found| found.level);
            assert_eq!(found, level, "{path} {text}");
        }
        for text in ["zstd", "none"] {
            let error = of("a.gz", text).unwrap_err().to_string();
            assert!(error.contains("the suffix .gz of the file means gzip"), "{error}");
        }
        assert!(compress("xz").is_err());
        assert_eq!(writer(Path::new("a.lz4"), None).unwrap().compression.unwrap().level, 1);
    }
}
