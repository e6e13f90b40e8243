//! A column of text of which most was there before: a view of 16 bytes per row, and each text about
//! once.
//!
//! What was met lately has a place in a small table. Where two numbers want the same place, text is
//! there twice, which costs a few bytes and nothing else.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_schema::ArrowError;
use arrow_select::take::take;

use super::key::Hash;

/// Places in the table.
const PLACES: usize = 1 << 11;

/// A column that grows.
pub(super) struct TextColumn<K> {
    places: Box<[CachedText<K>]>,
    /// Of the batch: what is from another one is forgotten.
    age: u32,
    texts: StringViewBuilder,
    count: u32,
    rows: Vec<u32>,
    scratch: String,
}

#[derive(Clone, Copy, Default)]
struct CachedText<K> {
    key: K,
    age: u32,
    number: u32,
}

impl<K: Copy + Default + PartialEq + Hash> TextColumn<K> {
    pub(super) fn new() -> Self {
        Self {
            places: vec![CachedText::default(); PLACES].into(),
            age: 1,
            texts: StringViewBuilder::new(),
            count: 0,
            rows: Vec::new(),
            scratch: String::new(),
        }
    }

    /// Adds a row; `write` makes its text.
    #[inline]
    pub(super) fn push(&mut self, key: K, write: impl Fn(K, &mut String)) {
        let at = (key.hash() >> 40) as usize % PLACES;
        let place = &mut self.places[at];
        if place.key != key || place.age != self.age {
            self.scratch.clear();
            write(key, &mut self.scratch);
            self.texts.append_value(&self.scratch);
            *place = CachedText { key, age: self.age, number: self.count };
            self.count += 1;
        }
        self.rows.push(place.number);
    }

    /// Adds a row without text.
    #[inline]
    pub(super) fn push_null(&mut self) {
        self.rows.push(0);
    }

    /// The column, whose rows without text `nulls` tells. The next one begins.
    pub(super) fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let texts = self.texts.finish();
        let rows = UInt32Array::try_new(std::mem::take(&mut self.rows).into(), nulls)?;
        self.count = 0;
        self.age = self.age.wrapping_add(1);
        if self.age == 0 {
            self.places.fill(CachedText::default());
            self.age = 1;
        }
        take(&(Arc::new(texts) as ArrayRef), &rows, None)
    }
}
