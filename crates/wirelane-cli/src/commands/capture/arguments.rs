//! The options of `wirelane capture`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use wirelane::halt::Halt;
use wirelane::pcap::pcap::Resolution;
use wirelane::pcap::{Access, FileFormat, Rotation};
use wirelane::session::capture::{CaptureConfig, OutputConfig};
use wirelane::{Error, Result};
use wirelane_print::{Precision, Style};

use crate::access::AccessArgs;
use crate::args;
use crate::habits::HabitArgs;
use crate::live::{InputArgs, SessionArgs};
use crate::print::{OtherOutputs, PrintArgs};

/// Capture packets from all selected queues in parallel.
///
/// Each queue has its own socket, ring and thread. With -w, packets go to one pcapng file in order
/// of time, in which each queue is an interface; --split writes one file per queue. Without -w, a
/// terminal shows a line per packet; elsewhere they are only counted, unless an option asks for
/// lines. ^C ends the capture and prints a summary; SIGUSR1 prints the counters so far.
///
/// The host still receives every packet. The exception is an xdp: port, which takes packets away
/// from the host and first prints which ones. xdp:eth0?rx_hash=on&rx_timestamps=on stores the hash
/// and the time that the driver reports in a comment of each packet.
#[derive(Args, Clone, Debug)]
pub(crate) struct CaptureArgs {
    /// The ports to capture from, such as eth0, packet:eth0@0-3 or sim:4?rate=1Mpps, or `any` for
    /// every interface, those that come later included; then a filter, as in
    /// `wirelane capture eth0 tcp port 443`
    #[arg(value_name = "PORT")]
    pub(super) words: Vec<OsString>,
    #[command(flatten)]
    pub(super) habits: HabitArgs,
    /// Read packets from FILE instead of a port; - is standard input. All words are a filter then
    #[arg(short = 'r', long, value_name = "FILE")]
    pub(super) read: Option<PathBuf>,
    /// Write packets to FILE; - is standard output. The suffix chooses the format: .pcap, .pcapng,
    /// and .gz, .lz4 or .zst to compress
    #[arg(short = 'w', long = "write", value_name = "FILE", help_heading = "Output")]
    pub(super) write: Option<PathBuf>,
    /// Put packets of a file in order of time if they are near each other; without it, the packets
    /// of a single file keep their order
    #[arg(long, help_heading = "Output")]
    pub(super) sort: bool,
    /// Compress with gzip, lz4 or zstd, as in zstd:3,threads=2: a level from the fastest (1, the
    /// default) to the smallest (gzip 9, zstd 22), and how many threads compress. `none` does not
    /// compress
    #[arg(long, value_name = "HOW", value_parser = args::compress, requires = "write", help_heading = "Output")]
    pub(super) compress: Option<args::Compress>,
    #[command(flatten)]
    pub(super) comment: args::CommentArgs,
    /// Write one file per queue (NAME.rx0.pcapng, …); `wirelane merge` joins them
    #[arg(long, requires = "write", help_heading = "Output")]
    pub(super) split: bool,
    /// Start a new file before the current one exceeds SIZE bytes on disk (k, M, G: units of 1024).
    /// A compressed file ends when less than 1/32 of SIZE is left
    #[arg(short = 'C', long, value_name = "SIZE", value_parser = file_size, requires = "write", help_heading = "Output")]
    pub(super) rotate_size: Option<u64>,
    /// Start a new file every TIME (10s, 2m, 1h)
    #[arg(short = 'G', long, value_name = "TIME", value_parser = args::duration, requires = "write", help_heading = "Output")]
    pub(super) rotate_time: Option<Duration>,
    /// Start a new file after N packets
    #[arg(long, value_name = "N", value_parser = args::count, requires = "write", help_heading = "Output")]
    pub(super) rotate_packets: Option<u64>,
    /// When rotating, keep only the newest N files
    #[arg(short = 'W', long, value_name = "N", requires = "write", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Output")]
    pub(super) rotate_files: Option<u32>,
    /// Write each packet as soon as it is there, not once a second or when there are many
    #[arg(short = 'U', long, help_heading = "Output")]
    pub(super) packet_buffered: bool,
    #[command(flatten)]
    pub(super) access: AccessArgs,
    /// Write the counters into the file every TIME, and at the end
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "10s", help_heading = "Output")]
    pub(super) statistics_every: Duration,
    /// Buffer at most SIZE bytes between the receiving threads and the writer
    #[arg(long, value_name = "SIZE", value_parser = args::size, default_value = "256M", help_heading = "Machine")]
    pub(super) buffer: u64,
    #[command(flatten)]
    pub(super) print: PrintArgs,
    #[command(flatten)]
    pub(super) input: InputArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

impl CaptureArgs {
    /// How packets are printed; `None` if they are not.
    ///
    /// # Errors
    /// Standard output already has another use.
    pub(super) fn style(&self) -> Result<Option<Style>> {
        self.print.style(OtherOutputs {
            writes: self.write.is_some(),
            to_stdout: self.write.as_deref().is_some_and(|path| path.as_os_str() == "-"),
            json: self.session.json,
            reads: self.read.is_some(),
        })
    }

    /// Whether the output is pcap, whose header holds its only link type.
    pub(super) fn writes_pcap(&self) -> bool {
        let format = self.write.as_deref().map(FileFormat::of_path);
        matches!(format, Some(FileFormat::Pcap(_)))
    }

    /// How to capture.
    ///
    /// # Errors
    /// Options contradict each other.
    pub(super) fn config(&self, access: Access, halt: &Halt) -> Result<CaptureConfig> {
        let rotation = Rotation::default()
            .max_bytes(self.rotate_size)
            .max_age(self.rotate_time.map(|time| time.as_nanos() as u64))
            .max_packets(self.rotate_packets)
            .max_files(self.rotate_files);
        if let Some((option, _)) = self.access.given().find(|(_, is_given)| *is_given)
            && self.write.is_none()
        {
            return Err(Error::usage(option, "nothing is written").help("add -w FILE"));
        }
        if rotation.max_files.is_some() && !rotation.is_active() {
            return Err(
                Error::usage("-W", "it needs a rotation").help("add -C, -G or --rotate-packets")
            );
        }
        if rotation.max_age.is_some() && self.write.as_deref().is_some_and(has_date) {
            return Err(Error::usage(
                "-w",
                "names with a date in them, such as %Y, are not filled in",
            )
            .help("write -w NAME.pcapng: each file gets its number and time"));
        }
        if rotation.is_active() && self.write.as_deref().is_some_and(|path| path.as_os_str() == "-")
        {
            return Err(Error::usage("-w -", "standard output cannot be rotated")
                .help("give a file name, or leave -C, -G and --rotate-packets out"));
        }
        let output = |path: &PathBuf| -> Result<OutputConfig> {
            let options = args::writer(path, self.compress)?;
            let format = match (options.format, self.print.precision()) {
                (FileFormat::Pcap(_), Some(Precision::Micro)) => {
                    FileFormat::Pcap(Resolution::Microseconds)
                }
                (format, _) => format,
            };
            let options = options.format(format).rotation(rotation).access(access);
            Ok(OutputConfig::new(path).options(options).split(self.split))
        };
        let output = self.write.as_ref().map(output).transpose()?;
        Ok(CaptureConfig::default()
            .output(output)
            .halt(halt.clone())
            .single(self.input.single)
            .placement(self.input.placement(&self.session)?)
            .packets(self.session.count)
            .buffer(usize::try_from(self.buffer).unwrap_or(usize::MAX))
            .statistics_every(self.statistics_every)
            .sort(self.sort)
            .prompt(self.packet_buffered))
    }
}

/// A file size in bytes. Refuses a small number without a unit: tcpdump and dumpcap use other
/// units.
fn file_size(text: &str) -> Result<u64, String> {
    let size = args::size(text)?;
    if size < 4096 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "write {text}M or {text}k: a plain number is in bytes, where tcpdump's is in MB and \
             dumpcap's in kB"
        ));
    }
    Ok(size)
}

/// Whether tcpdump would put the time into this name, as strftime(3) does.
fn has_date(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_field =
        |(at, _): (usize, &str)| name.as_bytes().get(at + 1).is_some_and(u8::is_ascii_alphabetic);
    name.match_indices('%').any(is_field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_files_have_a_unit_if_they_are_small() {
        assert_eq!(
            (file_size("100M"), file_size("1k"), file_size("4096")),
            (Ok(100 << 20), Ok(1024), Ok(4096))
        );
        for text in ["1", "100", "0100", "4095"] {
            assert!(file_size(text).unwrap_err().contains(&format!("write {text}M")), "{text}");
        }
        assert!(file_size("0").is_err() && file_size("x").is_err());
    }

    #[test]
    fn dates_in_names_are_those_of_strftime() {
        for (path, expected) in [
            ("x_%Y-%m-%d.pcap", true),
            ("%s", true),
            ("d/%H.pcap", true),
            ("%Y/x.pcap", false),
            ("100%.pcap", false),
            ("x.pcap", false),
            ("%", false),
        ] {
            assert_eq!(has_date(Path::new(path)), expected, "{path}");
        }
    }
}
