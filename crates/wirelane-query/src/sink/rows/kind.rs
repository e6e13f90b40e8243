//! What files and streams know of rows.

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};

/// How files hold rows of a kind.
pub(crate) struct Kind {
    /// In sentences, in counts, and what names of files begin with.
    pub(crate) name: &'static str,
    /// What files call their columns.
    pub(crate) schema: &'static str,
    /// Columns that queries look up one value in.
    pub(crate) filtered: &'static [&'static str],
    /// Columns for which no dictionary is worth its time: hardly two values are alike, or zstd
    /// finds all there is to find.
    pub(crate) plain: &'static [&'static str],
    /// Columns of numbers that grow from row to row.
    pub(crate) growing: &'static [&'static str],
    /// Of zstd.
    pub(crate) level: i32,
    /// Bytes of a row in a file, about.
    pub(crate) usual: usize,
    /// Whether files say which types of Arrow their columns had: programs that do not know views
    /// cannot read those.
    pub(crate) tells_types: bool,
}

/// Rows of one kind that wait to be written: a row group of a file, or a batch of a stream.
pub(crate) trait Rows: Send + Sized + 'static {
    /// What comes at once: rows that began in the same hour.
    type Part: Send + 'static;

    const KIND: Kind;

    /// None yet, of the same columns.
    fn fresh(&self) -> Self;

    fn schema(&self) -> SchemaRef;

    /// When the first of these began, in ns since 1970.
    fn start(part: &Self::Part) -> u64;

    fn add(&mut self, part: Self::Part);

    fn len(&self) -> usize;

    /// Whether they are a row group.
    fn is_full(&self) -> bool;

    /// Puts them into the order in which queries skip most of a file.
    fn sort(&mut self);

    /// All of them.
    fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, ArrowError>>;
}
