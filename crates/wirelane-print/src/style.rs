//! The printed fields and their formats.

/// How packets are printed. The letters are tcpdump's options.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// How times are printed (`-t`).
    pub time: Time,
    /// The number of digits.
    pub precision: Precision,
    /// Print the number of each packet, from 1 (`-#`).
    pub numbered: bool,
    /// Print absolute TCP sequence numbers, instead of relative to the start of the connection
    /// (`-S`).
    pub absolute: bool,
    /// Also print the link header (`-e`).
    pub link: bool,
    /// Print more header fields (`-v`, `-vv`).
    pub verbose: u8,
    /// Also print the bytes.
    pub dump: Dump,
}

/// How a packet's time is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Time {
    /// As the time of day, in the local time zone.
    #[default]
    OfDay,
    /// With the date (`-tttt`).
    Date,
    /// As seconds since the epoch (`-tt`).
    Epoch,
    /// Since the previous packet (`-ttt`).
    Delta,
    /// Since the first packet (`-ttttt`, `--relative`).
    Relative,
    /// Not at all (`-t`).
    None,
}

/// Digits of fractions of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Microseconds: six.
    #[default]
    Micro,
    /// Nanoseconds: nine.
    Nano,
}

/// The bytes of a packet that are printed below its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dump {
    /// None.
    #[default]
    None,
    /// As text (`-A`).
    Ascii {
        /// With the link header (`-AA`).
        link: bool,
    },
    /// As numbers (`-x`).
    Hex {
        /// With the link header (`-xx`).
        link: bool,
    },
    /// As numbers and text (`-X`).
    Both {
        /// With the link header (`-XX`).
        link: bool,
    },
}
