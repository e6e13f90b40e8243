//! Bytes that a layer prints, possibly truncated by a snap length.

/// The captured bytes end before the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truncated;

/// A sequence of bytes: the captured part, and the original length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CapturedBytes<'a> {
    captured: &'a [u8],
    len: usize,
}

impl<'a> CapturedBytes<'a> {
    /// `len` bytes, of which these were captured.
    pub(crate) fn new(captured: &'a [u8], len: usize) -> Self {
        Self { captured: captured.get(..len).unwrap_or(captured), len }
    }

    /// The original length.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The captured part.
    #[inline]
    pub(crate) fn captured(&self) -> &'a [u8] {
        self.captured
    }

    /// Whether all bytes were captured.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.captured.len() == self.len
    }

    /// The bytes after the first `count`.
    #[inline]
    pub(crate) fn after(&self, count: usize) -> Self {
        Self {
            captured: self.captured.get(count..).unwrap_or_default(),
            len: self.len.saturating_sub(count),
        }
    }

    /// The first `count` bytes, or fewer.
    #[inline]
    pub(crate) fn first(&self, count: usize) -> Self {
        let len = self.len.min(count);
        Self { captured: self.captured.get(..len).unwrap_or(self.captured), len }
    }

    /// `N` bytes from `at`.
    #[inline]
    pub(crate) fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], Truncated> {
        self.captured.get(at..).and_then(|rest| rest.first_chunk().copied()).ok_or(Truncated)
    }

    /// `count` bytes from `at`.
    #[inline]
    pub(crate) fn slice(&self, at: usize, count: usize) -> Result<&'a [u8], Truncated> {
        self.captured.get(at..).and_then(|rest| rest.get(..count)).ok_or(Truncated)
    }

    #[inline]
    pub(crate) fn u8(&self, at: usize) -> Result<u8, Truncated> {
        self.captured.get(at).copied().ok_or(Truncated)
    }

    #[inline]
    pub(crate) fn be16(&self, at: usize) -> Result<u16, Truncated> {
        self.array(at).map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn be24(&self, at: usize) -> Result<u32, Truncated> {
        let [a, b, c] = self.array(at)?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    #[inline]
    pub(crate) fn be32(&self, at: usize) -> Result<u32, Truncated> {
        self.array(at).map(u32::from_be_bytes)
    }
}
