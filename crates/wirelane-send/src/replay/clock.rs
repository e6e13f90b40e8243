//! Departure times in exact integers: the place of a packet in the schedule, and its due time.

use wirelane::{Error, Result};
use wirelane_gen::Rate;

use super::config::{ReplayTiming, Speed};

/// A timestamp that is earlier by more than this, in nanoseconds, means that the clock was set; by
/// less, that packets are out of order. A file that begins within this time after the previous one
/// continues it.
const STEP: u64 = 1_000_000_000;

/// Measures the place of each packet: in nanoseconds of the file, or in the unit of a rate.
#[derive(Clone, Debug)]
pub(super) struct PositionMeter {
    unit: Unit,
    /// The place of the next packet, or with [`Unit::Time`] of the previous packet.
    position: u64,
    time: FileTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Time,
    Packets,
    Bits,
    /// [`Unit::Bits`] plus the overhead of a frame on the wire.
    WireBits,
    Nothing,
}

/// Counts of irregular timestamps in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeFaults {
    /// Packets with an earlier timestamp than a previous one. They leave together with their
    /// predecessor, in file order.
    pub backwards: u64,
    /// Timestamps that are earlier by more than a second, as when a clock is set. Gaps continue
    /// from the new time.
    pub set_back: u64,
    /// Packets without a timestamp. They leave together with their predecessor.
    pub missing: u64,
}

#[derive(Clone, Debug, Default)]
struct FileTime {
    max_gap: Option<u64>,
    loop_gap: Option<u64>,
    /// The latest timestamp so far.
    newest: Option<u64>,
    /// Set if the next packet is the first of a file.
    begins: Option<Begin>,
    /// The place where the loop began, and its number of gaps so far.
    loop_began: u64,
    gaps: u64,
    duration: u64,
    faults: TimeFaults,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// The first file.
    First,
    /// Another file of the same loop.
    File,
    /// The next loop.
    Loop,
}

impl PositionMeter {
    pub(super) fn new(timing: &ReplayTiming, max_gap: Option<u64>, loop_gap: Option<u64>) -> Self {
        let unit = match timing {
            ReplayTiming::File(_) => Unit::Time,
            ReplayTiming::Rate { rate: Rate::Packets(_), .. } => Unit::Packets,
            ReplayTiming::Rate { rate: Rate::Bits(_), .. } => Unit::Bits,
            ReplayTiming::Rate { rate: Rate::Share(_), .. } => Unit::WireBits,
            ReplayTiming::Rate { rate: Rate::Max, .. } | ReplayTiming::Top => Unit::Nothing,
        };
        // The speed scales the times of the file, but the gap is in real time.
        let loop_gap = match *timing {
            ReplayTiming::File(speed) => loop_gap.map(|gap| speed.file_time(gap)),
            _ => loop_gap,
        };
        let time =
            FileTime { max_gap, loop_gap, begins: Some(Begin::First), ..FileTime::default() };
        Self { unit, position: 0, time }
    }

    /// Notes the timestamp of a packet, even if it is not sent.
    pub(super) fn advance(&mut self, timestamp: u64) {
        let gap = self.time.gap(timestamp, self.position);
        if self.unit == Unit::Time {
            self.position = self.position.saturating_add(gap);
        }
    }

    /// The place of a packet of this length, which is sent.
    pub(super) fn place(&mut self, len: usize) -> u64 {
        let bits = (len as u64) * 8;
        let cost = match self.unit {
            Unit::Time | Unit::Nothing => 0,
            Unit::Packets => 1,
            Unit::Bits => bits,
            Unit::WireBits => bits + Rate::WIRE_OVERHEAD * 8,
        };
        let place = self.position;
        self.position = self.position.saturating_add(cost);
        place
    }

    /// Ends a file that another one of the same loop may follow.
    pub(super) fn end_file(&mut self) {
        self.time.begins.get_or_insert(Begin::File);
    }

    /// Ends a loop. Returns the place of the first packet of the next one.
    pub(super) fn end_loop(&mut self) -> u64 {
        self.time.begins = Some(Begin::Loop);
        self.time.duration = self.position - self.time.loop_began;
        if self.unit == Unit::Time {
            self.position = self.position.saturating_add(self.time.join(self.position));
        }
        self.time.loop_began = self.position;
        self.time.gaps = 0;
        self.position
    }

    /// The time from the first to the last packet of the previous loop, with the timing of the
    /// file; otherwise 0.
    pub(super) fn duration(&self) -> u64 {
        if self.unit == Unit::Time { self.time.duration } else { 0 }
    }

    pub(super) fn faults(&self) -> TimeFaults {
        self.time.faults
    }
}

impl FileTime {
    fn gap(&mut self, timestamp: u64, position: u64) -> u64 {
        if timestamp == 0 {
            self.faults.missing += 1;
            return 0;
        }
        let begins = self.begins.take();
        let newest = self.newest.replace(timestamp).unwrap_or(timestamp);
        let gap = match begins {
            // `end_loop` has already added the gap of the loop.
            Some(Begin::First | Begin::Loop) => return 0,
            Some(Begin::File) => match timestamp.checked_sub(newest) {
                Some(gap) if gap <= STEP => gap,
                _ => self.join(position),
            },
            None if timestamp >= newest => timestamp - newest,
            None if newest - timestamp > STEP => {
                self.faults.set_back += 1;
                0
            }
            None => {
                self.faults.backwards += 1;
                self.newest = Some(newest);
                0
            }
        };
        self.gaps += 1;
        gap.min(self.max_gap.unwrap_or(u64::MAX))
    }

    /// The gap between two loops or unrelated files.
    fn join(&self, position: u64) -> u64 {
        let mean = || (position - self.loop_began).checked_div(self.gaps).unwrap_or(0);
        self.loop_gap.unwrap_or_else(mean)
    }
}

/// Converts places to due times: exactly `⌊place × numerator / denominator⌋` nanoseconds. Places
/// must not decrease.
#[derive(Clone, Debug)]
pub(super) struct DueScale {
    numerator: u64,
    denominator: u64,
    place: u64,
    time: u64,
    /// The remainder that `time` lacks, in parts of `denominator`.
    rest: u64,
}

impl DueScale {
    /// # Errors
    /// The rate is a share of an unknown link speed.
    pub(super) fn new(timing: &ReplayTiming) -> Result<Self> {
        // In millionths per second, so that the fraction is exact for usual rates.
        let rate = |per_second: f64| ((per_second * 1e6).round() as u128).max(1);
        let second = 1_000_000_000 * 1_000_000;
        let (numerator, denominator) = match *timing {
            ReplayTiming::File(Speed { numerator, denominator }) => {
                (denominator.into(), numerator.into())
            }
            ReplayTiming::Rate { rate: Rate::Packets(packets), .. } => (second, rate(packets)),
            ReplayTiming::Rate { rate: Rate::Bits(bits), .. } => (second, rate(bits)),
            ReplayTiming::Rate { rate: Rate::Share(share), link: Some(link) } => {
                (second, rate(share * link as f64))
            }
            ReplayTiming::Rate { rate: Rate::Share(_), link: None } => {
                return Err(Error::usage("rate", "the link does not say how fast it is")
                    .help("write the rate in packets or bits per second, such as 5Mpps or 6Gbit"));
            }
            ReplayTiming::Rate { rate: Rate::Max, .. } | ReplayTiming::Top => (0, 1),
        };
        let divisor = gcd(numerator, denominator);
        let part = |number: u128| u64::try_from(number / divisor).ok();
        let too_fast = || Error::usage("rate", "is beyond 18 Tbit per second");
        let (numerator, denominator) =
            part(numerator).zip(part(denominator)).ok_or_else(too_fast)?;
        Ok(Self { numerator, denominator, place: 0, time: 0, rest: 0 })
    }

    /// When the packet at `place` is due.
    #[inline]
    pub(super) fn due(&mut self, place: u64) -> u64 {
        let more = place.saturating_sub(self.place);
        self.place = place;
        if self.denominator == 1 {
            self.time = self.time.saturating_add(more.saturating_mul(self.numerator));
            return self.time;
        }
        let small = more.checked_mul(self.numerator).and_then(|it| it.checked_add(self.rest));
        match small {
            Some(total) => {
                self.time = self.time.saturating_add(total / self.denominator);
                self.rest = total % self.denominator;
            }
            None => {
                let total = u128::from(more) * u128::from(self.numerator) + u128::from(self.rest);
                let whole = total / u128::from(self.denominator);
                self.time = self.time.saturating_add(u64::try_from(whole).unwrap_or(u64::MAX));
                self.rest = (total % u128::from(self.denominator)) as u64;
            }
        }
        self.time
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places(meter: &mut PositionMeter, times: &[u64]) -> Vec<u64> {
        let place = |time: &u64| {
            meter.advance(*time);
            meter.place(60)
        };
        times.iter().map(place).collect()
    }

    fn file_time(max_gap: Option<u64>, loop_gap: Option<u64>) -> PositionMeter {
        PositionMeter::new(&ReplayTiming::File(Speed::ORIGINAL), max_gap, loop_gap)
    }

    #[test]
    fn gaps_are_those_of_the_file() {
        let mut meter = file_time(None, None);
        assert_eq!(places(&mut meter, &[1000, 1100, 1050, 1200]), [0, 100, 100, 200]);
        assert_eq!(meter.faults(), TimeFaults { backwards: 1, ..TimeFaults::default() });
        // The last place, 200, plus the mean of 100, 0 and 100.
        assert_eq!(meter.end_loop(), 266);
        assert_eq!(places(&mut meter, &[1000, 1100]), [266, 366]);
    }

    #[test]
    fn a_clock_that_was_set_begins_anew() {
        let mut meter = file_time(None, None);
        let day = 86_400 * STEP;
        assert_eq!(places(&mut meter, &[day, day + 5, 7, 9, 0, 12]), [0, 5, 5, 7, 7, 10]);
        let faults = TimeFaults { backwards: 0, set_back: 1, missing: 1 };
        assert_eq!(meter.faults(), faults);
    }

    #[test]
    fn gaps_are_capped_and_joined() {
        let mut meter = file_time(Some(50), Some(7));
        assert_eq!(places(&mut meter, &[10, 30, 1000]), [0, 20, 70]);
        meter.end_file();
        // The file continues within a second: the gap between the files counts, up to the cap.
        assert_eq!(places(&mut meter, &[1040, 1050]), [110, 120]);
        meter.end_file();
        assert_eq!(places(&mut meter, &[5, 6]), [127, 128]);
        assert_eq!(meter.end_loop(), 135);
    }

    #[test]
    fn the_gap_between_loops_is_the_same_at_any_speed() {
        for (above, below) in [(1, 1), (2, 1), (1, 2), (3, 7), (100, 1)] {
            let timing = ReplayTiming::File(Speed::new(above, below).unwrap());
            let mut meter = PositionMeter::new(&timing, None, Some(5000));
            let mut scale = DueScale::new(&timing).unwrap();
            let last = *places(&mut meter, &[1000, 1700]).last().unwrap();
            let last = scale.due(last);
            let gap = scale.due(meter.end_loop()) - last;
            // The tolerance is a nanosecond of the file.
            assert!((5000..=5001 + below / above).contains(&gap), "{above}/{below}: {gap}");
        }
    }

    #[test]
    fn rates_count_what_they_say() {
        let timing = |rate| ReplayTiming::Rate { rate, link: Some(10_000_000_000) };
        for (rate, second) in [
            (Rate::Packets(3e6), 333),
            (Rate::Bits(480e6), 1000),
            (Rate::Share(0.5), 134),
            (Rate::Max, 0),
        ] {
            let timing = timing(rate);
            let (mut meter, mut scale) =
                (PositionMeter::new(&timing, None, None), DueScale::new(&timing).unwrap());
            let due: Vec<_> =
                places(&mut meter, &[9, 8, 7]).iter().map(|it| scale.due(*it)).collect();
            assert_eq!(due[..2], [0, second], "{rate}");
        }
        assert!(DueScale::new(&ReplayTiming::Rate { rate: Rate::Share(0.5), link: None }).is_err());
    }

    proptest! {
        /// The due time is the floor of the exact quotient, independently of the steps.
        #[test]
        fn nothing_drifts(
            above in 1_u64..1 << 40, below in 1_u64..1 << 40,
            steps in prop::collection::vec(0_u64..1 << 44, 1..50),
        ) {
            let timing = ReplayTiming::File(Speed::new(above, below).unwrap());
            let mut scale = DueScale::new(&timing).unwrap();
            let mut place = 0;
            for step in steps {
                place += step;
                let exact = u128::from(place) * u128::from(below) / u128::from(above);
                prop_assert_eq!(u128::from(scale.due(place)), exact.min(u64::MAX.into()));
            }
        }
    }
}
