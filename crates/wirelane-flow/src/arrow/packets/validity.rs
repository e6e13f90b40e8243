//! Which rows have what: columns that come of the same header share it.

use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::row::{PacketRow, has};

/// Rows of a word.
const WORD: usize = 64;

/// A bit per row, for each bit of [`PacketRow::has`] that columns ask for.
pub(super) struct Validity {
    groups: Vec<ValidityGroup>,
}

struct ValidityGroup {
    has: u32,
    words: Vec<u64>,
}

impl Validity {
    pub(super) fn new(asked: impl Iterator<Item = u32>) -> Self {
        let mut groups: Vec<ValidityGroup> = Vec::new();
        for has in asked.filter(|has| *has != has::ALWAYS) {
            if groups.iter().all(|group| group.has != has) {
                groups.push(ValidityGroup { has, words: Vec::new() });
            }
        }
        Self { groups }
    }

    /// Adds rows. Their number must be a multiple of [`WORD`], except in the last call of a batch.
    pub(super) fn extend(&mut self, rows: &[PacketRow]) {
        for ValidityGroup { has, words } in &mut self.groups {
            words.extend(rows.chunks(WORD).map(|rows| {
                let bits = rows.iter().enumerate();
                bits.fold(0, |word, (at, row)| word | u64::from(row.has & *has != 0) << at)
            }));
        }
    }

    /// Ends a batch of `rows` rows. Returns, for each group, which rows have it; `None` if all do.
    pub(super) fn finish(&mut self, rows: usize) -> Vec<(u32, Option<NullBuffer>)> {
        let finish = |group: &mut ValidityGroup| {
            let words = std::mem::take(&mut group.words);
            let bits = BooleanBuffer::new(words.into(), 0, rows);
            let nulls = NullBuffer::new(bits);
            (group.has, Some(nulls).filter(|nulls| nulls.null_count() > 0))
        };
        self.groups.iter_mut().map(finish).collect()
    }
}
