//! The time of the wall: what a clock of the local time zone shows (`TZ`, `/etc/localtime`).

use std::mem::MaybeUninit;

/// What a calendar and a clock show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// Such as 2026.
    pub year: i32,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 60.
    pub second: u8,
    /// Seconds east of UTC.
    pub offset: i32,
}

impl LocalTime {
    /// At so many seconds since the epoch; `None` if the C library cannot tell, far from today.
    #[must_use]
    pub fn at(seconds: i64) -> Option<Self> {
        let seconds = libc::time_t::try_from(seconds).ok()?;
        let mut tm = MaybeUninit::<libc::tm>::zeroed();
        // SAFETY: both are valid for the call. `tm` is plain data, of which all zeroes is a valid
        // value, and the library fills it.
        let tm = unsafe {
            if libc::localtime_r(&seconds, tm.as_mut_ptr()).is_null() {
                return None;
            }
            tm.assume_init()
        };
        Self::of(&tm)
    }

    /// The seconds since the epoch at which clocks show this, whatever `offset` says: none where
    /// clocks were put forward over it, two where they were put back, the earlier one first.
    #[must_use]
    pub fn seconds(&self) -> Vec<i64> {
        let mut found: Vec<i64> = [1, 0].into_iter().filter_map(|dst| self.mktime(dst)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// `None` if the time does not exist in this half of the year.
    fn mktime(&self, dst: libc::c_int) -> Option<i64> {
        // SAFETY: plain data, of which all zeroes is a valid value.
        let mut tm: libc::tm = unsafe { MaybeUninit::zeroed().assume_init() };
        tm.tm_year = self.year.checked_sub(1900)?;
        tm.tm_mon = libc::c_int::from(self.month) - 1;
        tm.tm_mday = self.day.into();
        tm.tm_hour = self.hour.into();
        tm.tm_min = self.minute.into();
        tm.tm_sec = self.second.into();
        tm.tm_isdst = dst;
        // SAFETY: `tm` is valid for the call.
        let seconds = unsafe { libc::mktime(&mut tm) };
        // What does not exist is shifted to what does.
        let shown = Self { offset: self.offset, ..Self::at(seconds)? };
        (shown == *self).then_some(seconds)
    }

    fn of(tm: &libc::tm) -> Option<Self> {
        Some(Self {
            year: tm.tm_year.checked_add(1900)?,
            month: u8::try_from(tm.tm_mon).ok()?.checked_add(1)?,
            day: u8::try_from(tm.tm_mday).ok()?,
            hour: u8::try_from(tm.tm_hour).ok()?,
            minute: u8::try_from(tm.tm_min).ok()?,
            second: u8::try_from(tm.tm_sec).ok()?,
            offset: i32::try_from(tm.tm_gmtoff).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive() {
        // Every 5 hours or so over two years, whatever zone this machine is in.
        for seconds in (1_700_000_000..1_763_000_000).step_by(17_999) {
            let shown = LocalTime::at(seconds).unwrap();
            assert!(shown.seconds().contains(&seconds), "{seconds} {shown:?}");
            assert!(shown.offset.abs() <= 15 * 3600);
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        let time = |month, day, hour, minute| LocalTime {
            year: 2026,
            month,
            day,
            hour,
            minute,
            second: 0,
            offset: 0,
        };
        assert_eq!(time(11, 23, 12, 0).seconds().len(), 1);
        for bad in [time(2, 30, 12, 0), time(13, 1, 12, 0), time(0, 1, 1, 1), time(1, 1, 12, 60)] {
            assert!(bad.seconds().is_empty(), "{bad:?}");
        }
        assert_eq!(LocalTime::at(i64::MAX), None);
    }
}
