//! The options of printing. The letters are tcpdump's.

use std::io::{IsTerminal, stdout};

use clap::{ArgAction, Args};
use wirelane::{Error, Result};
use wirelane_print::{Dump, Precision, Style, Time};

/// What is printed of packets, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct PrintArgs {
    /// Print a line per packet, with -w too. Without -w, so does a terminal, -r, and each of the
    /// options below
    #[arg(long, help_heading = "Print")]
    print: bool,
    /// Print no time (-t), seconds since 1970 (-tt), since the packet before (-ttt), the date and
    /// time (-tttt), or seconds since the first packet (-ttttt)
    #[arg(short = 't', action = ArgAction::Count, help_heading = "Print")]
    time: u8,
    /// Print the time since the first packet, as -ttttt
    #[arg(long, conflicts_with = "time", help_heading = "Print")]
    relative: bool,
    /// Print times in microseconds (the default) or nanoseconds; with micro, .pcap files have
    /// microseconds, too
    #[arg(long, value_name = "micro|nano", value_parser = precision, help_heading = "Print")]
    time_stamp_precision: Option<Precision>,
    /// As --time-stamp-precision nano
    #[arg(long, conflicts_with = "time_stamp_precision", help_heading = "Print")]
    nano: bool,
    /// As --time-stamp-precision micro
    #[arg(long, conflicts_with_all = ["time_stamp_precision", "nano"], hide = true)]
    micro: bool,
    /// Print the number of each packet
    #[arg(short = '#', long = "number", help_heading = "Print")]
    numbered: bool,
    /// Print the link header, too
    #[arg(short = 'e', help_heading = "Print")]
    link: bool,
    /// Print the sequence numbers of TCP as they are, not since the connection began
    #[arg(short = 'S', long = "absolute-tcp-sequence-numbers", help_heading = "Print")]
    absolute: bool,
    /// Print more of headers (-v, -vv), and more in the summary
    #[arg(short = 'v', long, action = ArgAction::Count, help_heading = "Print")]
    pub(crate) verbose: u8,
    /// Print the bytes of packets as text (-AA: with the link header)
    #[arg(short = 'A', action = ArgAction::Count, help_heading = "Print")]
    ascii: u8,
    /// Print the bytes as numbers (-xx: with the link header)
    #[arg(short = 'x', action = ArgAction::Count, help_heading = "Print")]
    hex: u8,
    /// Print the bytes as numbers and text (-XX: with the link header)
    #[arg(short = 'X', action = ArgAction::Count, help_heading = "Print")]
    both: u8,
    /// Print addresses as numbers: they always are
    #[arg(short = 'n', action = ArgAction::Count, help_heading = "Print")]
    numbers: u8,
    /// Print each packet as soon as it is there: it always is
    #[arg(short = 'l', long, help_heading = "Print")]
    line_buffered: bool,
}

/// The other outputs of packets.
#[derive(Clone, Copy)]
pub(crate) struct OtherOutputs {
    /// Whether packets are written, and whether to standard output.
    pub(crate) writes: bool,
    pub(crate) to_stdout: bool,
    /// Whether standard output gets the summary.
    pub(crate) json: bool,
    /// Whether packets are read from a file.
    pub(crate) reads: bool,
}

impl PrintArgs {
    /// How packets are printed; `None` if they are not.
    ///
    /// # Errors
    /// Standard output takes something else.
    pub(crate) fn style(&self, output: OtherOutputs) -> Result<Option<Style>> {
        let OtherOutputs { writes, to_stdout, json, reads } = output;
        let taken = match (json, to_stdout) {
            (true, _) => Some("standard output already takes the summary of --json"),
            (_, true) => Some("standard output already takes the packets of -w -"),
            _ => None,
        };
        let is_asked = self.print || !writes && self.says_how();
        if let Some(taken) = taken.filter(|_| is_asked) {
            return Err(Error::usage("--print", taken).help("leave one of them out"));
        }
        let is_meant = is_asked || !writes && !json && (reads || stdout().is_terminal());
        Ok(is_meant.then(|| self.as_style()))
    }

    /// Whether a user sees each line at once: on a terminal, or with `-l`.
    pub(crate) fn is_watched(&self) -> bool {
        self.line_buffered || stdout().is_terminal()
    }

    /// Whether any option says how to print.
    fn says_how(&self) -> bool {
        let counts = [self.time, self.verbose, self.ascii, self.hex, self.both, self.numbers];
        let switches = [self.relative, self.numbered, self.link, self.absolute, self.line_buffered];
        counts.iter().any(|count| *count > 0)
            || switches.contains(&true)
            || self.precision().is_some()
    }

    fn as_style(&self) -> Style {
        let time = match self.time {
            0 if self.relative => Time::Relative,
            0 => Time::OfDay,
            1 => Time::None,
            2 => Time::Epoch,
            3 => Time::Delta,
            4 => Time::Date,
            _ => Time::Relative,
        };
        let dump = match (self.both, self.hex, self.ascii) {
            (0, 0, 0) => Dump::None,
            (0, 0, count) => Dump::Ascii { link: count > 1 },
            (0, count, _) => Dump::Hex { link: count > 1 },
            (count, _, _) => Dump::Both { link: count > 1 },
        };
        Style {
            time,
            precision: self.precision().unwrap_or_default(),
            numbered: self.numbered,
            absolute: self.absolute,
            link: self.link,
            verbose: self.verbose,
            dump,
        }
    }

    /// The precision of times, if an option sets it.
    pub(crate) fn precision(&self) -> Option<Precision> {
        match (self.nano, self.micro) {
            (true, _) => Some(Precision::Nano),
            (_, true) => Some(Precision::Micro),
            _ => self.time_stamp_precision,
        }
    }
}

/// `micro` or `nano`.
fn precision(text: &str) -> Result<Precision, String> {
    match text {
        "micro" => Ok(Precision::Micro),
        "nano" => Ok(Precision::Nano),
        _ => Err("write micro or nano".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        print: PrintArgs,
    }

    const NOTHING: OtherOutputs =
        OtherOutputs { writes: false, to_stdout: false, json: false, reads: false };

    fn style(args: &str, output: OtherOutputs) -> Result<Option<Style>> {
        let words = ["x"].into_iter().chain(args.split_whitespace());
        Line::try_parse_from(words).unwrap().print.style(output)
    }

    #[test]
    fn letters_are_those_of_tcpdump() {
        let of = |args| style(args, NOTHING).unwrap().unwrap();
        for (args, time) in [
            ("-n", Time::OfDay),
            ("-t", Time::None),
            ("-tt", Time::Epoch),
            ("-ttt", Time::Delta),
            ("-tttt", Time::Date),
            ("-ttttt", Time::Relative),
            ("--relative", Time::Relative),
        ] {
            assert_eq!(of(args).time, time, "{args}");
        }
        for (args, dump) in [
            ("-l", Dump::None),
            ("-A", Dump::Ascii { link: false }),
            ("-AA", Dump::Ascii { link: true }),
            ("-x", Dump::Hex { link: false }),
            ("-xx -A", Dump::Hex { link: true }),
            ("-X", Dump::Both { link: false }),
            ("-XX -x", Dump::Both { link: true }),
        ] {
            assert_eq!(of(args).dump, dump, "{args}");
        }
        let numbered = of("-#S --micro");
        assert!(numbered.numbered && numbered.absolute && numbered.precision == Precision::Micro);
        let all = of("-nnevvtXX --time-stamp-precision nano");
        assert_eq!((all.link, all.verbose, all.precision), (true, 2, Precision::Nano));
        assert!(Line::try_parse_from(["x", "-t", "--relative"]).is_err());
    }

    #[test]
    fn packets_are_printed_where_somebody_looks() {
        let (written, read) =
            (OtherOutputs { writes: true, ..NOTHING }, OtherOutputs { reads: true, ..NOTHING });
        for (args, output, is_printed) in [
            ("-n", NOTHING, true),
            ("--print", NOTHING, true),
            ("", read, true),
            ("", OtherOutputs { json: true, ..read }, false),
            ("-nve", written, false),
            ("--print", written, true),
            ("-n", OtherOutputs { json: true, ..written }, false),
        ] {
            assert_eq!(style(args, output).unwrap().is_some(), is_printed, "{args}");
        }
        for (args, output, word) in [
            ("-n", OtherOutputs { json: true, ..NOTHING }, "--json"),
            ("--print", OtherOutputs { to_stdout: true, ..written }, "-w -"),
        ] {
            let error = style(args, output).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
