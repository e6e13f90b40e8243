//! Arguments of replaying files.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use wirelane::halt::Halt;
use wirelane::wire::MacAddr;
use wirelane::{Error, Result};
use wirelane_gen::Rate;
use wirelane_send::replay::{ReplayConfig, ReplayTiming, Speed, TruncatedPackets};

use super::rewrite::RewriteArgs;
use crate::args;

/// How files are replayed.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Replay")]
pub(crate) struct ReplayArgs {
    /// Send FACTOR times as fast as the file: 2x, 0.5x, 3/2x or 200%
    #[arg(long, value_name = "FACTOR")]
    speed: Option<Speed>,
    /// Send the files N times, with 0 without end
    #[arg(long = "loop", value_name = "N")]
    loops: Option<u64>,
    /// Time from the last packet of a loop to the first of the next, such as 10ms, instead of the
    /// mean gap of the loop
    #[arg(long, value_name = "TIME", value_parser = gap)]
    loop_gap: Option<Duration>,
    /// Longest time between two packets, such as 1s: longer gaps of the file are shortened to it
    #[arg(long, value_name = "TIME", value_parser = gap)]
    max_gap: Option<Duration>,
    /// What to do with packets that a snap length has cut: send them with zeros at their end and
    /// new checksums (pad, the default), leave them out (skip), or send them short (send)
    #[arg(long, value_name = "HOW")]
    cut: Option<TruncatedPackets>,
    /// Ethernet header for packets that have none, such as those of raw IP or of the interface
    /// "any"
    #[arg(long, value_name = "DESTINATION,SOURCE", value_parser = header)]
    ethernet: Option<(MacAddr, MacAddr)>,
    /// Compute all checksums anew, as for packets captured before their sender's card completed
    /// them
    #[arg(long)]
    fix_checksums: bool,
    /// Load files of up to SIZE into memory, and read longer ones while they are sent [default: 1G,
    /// and at most a quarter of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = args::size)]
    load: Option<u64>,
}

impl ReplayArgs {
    /// The name of the first of these options that was given: without files, it means nothing.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let names = [
            (self.speed.is_some(), "--speed"),
            (self.loops.is_some(), "--loop"),
            (self.loop_gap.is_some(), "--loop-gap"),
            (self.max_gap.is_some(), "--max-gap"),
            (self.cut.is_some(), "--cut"),
            (self.ethernet.is_some(), "--ethernet"),
            (self.fix_checksums, "--fix-checksums"),
            (self.load.is_some(), "--load"),
        ];
        names.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }

    /// How `files` are replayed. `rate` replaces their own timing; `link` is the speed of the port
    /// in bits per second, if it is known.
    ///
    /// # Errors
    /// The arguments contradict each other.
    pub(crate) fn config(
        &self,
        files: Vec<PathBuf>,
        rate: Option<Rate>,
        link: Option<u64>,
        rewrite: &RewriteArgs,
        halt: &Halt,
    ) -> Result<ReplayConfig> {
        let timing = match (rate, self.speed) {
            (Some(_), Some(_)) => {
                return Err(Error::usage("--speed", "a rate replaces the timing of the file")
                    .help("leave out --speed, or --rate and --top-speed"));
            }
            (Some(Rate::Max), None) => ReplayTiming::Top,
            (Some(rate), None) => ReplayTiming::Rate { rate, link },
            (None, speed) => ReplayTiming::File(speed.unwrap_or(Speed::ORIGINAL)),
        };
        let nanoseconds = |time: Option<Duration>| {
            time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        Ok(ReplayConfig::new(files)
            .timing(timing)
            .loops(self.loops.unwrap_or(1))
            .loop_gap(nanoseconds(self.loop_gap))
            .max_gap(nanoseconds(self.max_gap))
            .cut(self.cut.unwrap_or_default())
            .header(self.ethernet)
            .fix_checksums(self.fix_checksums)
            .rewrite(rewrite.rewrite()?)
            .memory(self.load)
            .halt(halt.clone()))
    }
}

/// A time between packets: a number and a unit. 0 is allowed.
fn gap(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number and a unit, such as 0s, 100us, 10ms or 1s".to_owned();
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (number, unit) = units
        .into_iter()
        .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)))
        .ok_or_else(wrong)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse::<u64>().ok().filter(|_| is_number).ok_or_else(wrong)?;
    number.checked_mul(unit).map(Duration::from_nanos).ok_or_else(wrong)
}

/// Two MAC addresses.
fn header(text: &str) -> Result<(MacAddr, MacAddr), String> {
    let addresses =
        text.split_once(',').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    addresses.ok_or_else(|| "write DESTINATION,SOURCE: 02:00:00:00:00:02,02:00:00:00:00:01".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_units() {
        assert_eq!(gap("0s"), Ok(Duration::ZERO));
        assert_eq!(gap("15us"), Ok(Duration::from_micros(15)));
        for wrong in ["", "1", "s", "-1s", "1.5s", "99999999999999999999s", "9999999999999s"] {
            assert!(gap(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rate_replaces_the_timing() {
        let args = ReplayArgs { speed: "2x".parse().ok(), ..ReplayArgs::default() };
        let config = |rate| {
            args.config(vec!["x".into()], rate, None, &RewriteArgs::default(), &Halt::default())
        };
        assert!(config(Some(Rate::Max)).is_err());
        assert_eq!(config(None).map(|it| it.timing).ok(), Speed::new(2, 1).map(ReplayTiming::File));
        assert_eq!(args.given(), Some("--speed"));
    }
}
