//! Properties of a kind of rows, and the trait of rows.

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};

/// How files store rows of a kind.
pub(crate) struct RowStorage {
    /// In messages, in counts, and as prefix of file names.
    pub(crate) name: &'static str,
    /// Name and version of the columns, in the metadata of files.
    pub(crate) schema: &'static str,
    /// Columns with Bloom filters: queries look up single values.
    pub(crate) filtered: &'static [&'static str],
    /// Columns without dictionary: most values differ, or zstd compresses them as well.
    pub(crate) plain: &'static [&'static str],
    /// Numbers that grow from row to row, stored as deltas.
    pub(crate) growing: &'static [&'static str],
    /// The zstd level.
    pub(crate) level: i32,
    /// Approximate bytes of a row in a file.
    pub(crate) usual: usize,
    /// Whether files record the Arrow types of columns. Programs without support for views cannot
    /// read recorded views.
    pub(crate) tells_types: bool,
}

/// Rows of one kind that wait to be written: a row group of a file, or a batch of a stream.
pub(crate) trait PendingRows: Send + Sized + 'static {
    /// Rows that are added at once; all began in the same hour.
    type Part: Send + 'static;

    const KIND: RowStorage;

    /// Empty rows with the same columns.
    fn fresh(&self) -> Self;

    fn schema(&self) -> SchemaRef;

    /// When the earliest row began, in ns since 1970.
    fn start(part: &Self::Part) -> u64;

    fn add(&mut self, part: Self::Part);

    fn len(&self) -> usize;

    /// Whether the rows fill a row group.
    fn is_full(&self) -> bool;

    /// Sorts rows so that queries can skip most of a file.
    fn sort(&mut self);

    /// All rows, as batches.
    fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, ArrowError>>;
}
