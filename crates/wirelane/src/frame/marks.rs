//! Flags of a frame.

/// One byte, so that a fresh packet has nothing else by one store.
///
/// | bits | meaning |
/// |---|---|
/// | 0–1 | [`Left`]: what is left to do |
/// | 2 | hints of the interface are kept |
/// | 3 | a time of 0 is a time |
/// | 4 | the packets that were merged into it are counted |
/// | 5 | what a file says of it is kept |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Marks(u8);

impl Marks {
    /// Nothing.
    pub(crate) const NONE: Self = Self(0);
    const LEFT: u8 = 3;
    /// Hints of the interface are kept.
    pub(super) const HINTS: Self = Self(1 << 2);
    /// A time of 0 is valid.
    pub(super) const TIMED: Self = Self(1 << 3);
    /// It was merged from several packets, and their number is kept.
    pub(super) const MERGED: Self = Self(1 << 4);
    /// Its interface in a file, and the options of its block, are kept behind it.
    pub(super) const ATTACHED: Self = Self(1 << 5);

    /// The pending offload, and where it is kept.
    #[inline(always)]
    pub(super) fn left(self) -> Left {
        match self.0 & Self::LEFT {
            0 => Left::Nothing,
            1 => Left::Offload,
            2 => Left::Checksum,
            _ => Left::Perhaps,
        }
    }

    #[inline(always)]
    #[must_use]
    pub(crate) fn with_left(self, left: Left) -> Self {
        Self(self.0 & !Self::LEFT | left as u8)
    }

    /// Whether one of `marks` is set.
    #[inline(always)]
    pub(super) fn has(self, marks: Self) -> bool {
        self.0 & marks.0 != 0
    }

    #[inline(always)]
    #[must_use]
    pub(super) const fn with(self, marks: Self) -> Self {
        Self(self.0 | marks.0)
    }
}

/// The pending offload of a packet, and where it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Left {
    /// Nothing.
    Nothing,
    /// The `Offload` at the start of the headroom.
    Offload,
    /// A partial checksum, found in the packet itself.
    Checksum,
    /// A partial checksum, if the packet has one.
    Perhaps,
}
