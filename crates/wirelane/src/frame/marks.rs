//! Flags of a frame.

/// One byte, so that one store resets them for a new packet.
///
/// | bits | meaning |
/// |---|---|
/// | 0–1 | [`Left`]: the pending offload |
/// | 2 | hints of the interface are stored |
/// | 3 | a time of 0 is valid |
/// | 4 | the number of merged packets is stored |
/// | 5 | data of a capture file is stored |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Marks(u8);

impl Marks {
    pub(crate) const NONE: Self = Self(0);
    const LEFT: u8 = 3;
    /// Hints of the interface are stored.
    pub(super) const HINTS: Self = Self(1 << 2);
    /// A time of 0 is valid.
    pub(super) const TIMED: Self = Self(1 << 3);
    /// It was merged from several packets, and their number is stored.
    pub(super) const MERGED: Self = Self(1 << 4);
    /// Its interface in a file and the options of its block are stored after it.
    pub(super) const ATTACHED: Self = Self(1 << 5);

    /// The pending offload, and its storage.
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

/// The pending offload of a packet, and its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Left {
    /// No offload.
    Nothing,
    /// The `Offload` at the start of the headroom.
    Offload,
    /// A partial checksum, found in the packet itself.
    Checksum,
    /// A partial checksum, if the packet has one.
    Perhaps,
}
