//! Bars of Unicode blocks, as a column beside their numbers.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Float64Type;
use arrow_array::{Array as _, ArrayRef, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use datafusion::arrow::compute::cast;

use super::output::table;

/// Most characters of a bar. With room for fewer than `SHORTEST`, bars are left out.
const LONGEST: usize = 30;
const SHORTEST: usize = 3;
/// From an eighth of a character to a full one.
const BLOCKS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// The rows with a column of bars for the column of this name. A bar's length is its share of the
/// largest value. Lines have at most `columns` characters; without room, there are no bars.
pub(crate) fn with_bars(
    batch: &RecordBatch,
    name: &str,
    columns: usize,
) -> Result<RecordBatch, ArrowError> {
    let width = columns.saturating_sub(table::width(batch)?).min(LONGEST);
    if width < SHORTEST {
        return Ok(batch.clone());
    }
    let values = numbers(batch, name)?;
    let most = values.iter().copied().fold(0.0, f64::max);
    let bars: StringArray = values.iter().map(|value| Some(bar(*value, most, width))).collect();
    let mut fields = batch.schema().fields().to_vec();
    fields.push(Arc::new(Field::new("", DataType::Utf8, false)));
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(bars) as ArrayRef);
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

/// A column as numbers; null becomes 0.
pub(crate) fn numbers(batch: &RecordBatch, name: &str) -> Result<Vec<f64>, ArrowError> {
    let column = batch.column(batch.schema().index_of(name)?);
    let column = cast(column, &DataType::Float64)?;
    let column = column.as_primitive::<Float64Type>();
    Ok((0..column.len())
        .map(|row| if column.is_null(row) { 0.0 } else { column.value(row) })
        .collect())
}

fn bar(value: f64, most: f64, width: usize) -> String {
    let longest = (width * 8) as f64;
    let eighths = if most > 0.0 { (value / most * longest).round() as usize } else { 0 };
    // Small values remain visible.
    let eighths = if value > 0.0 { eighths.max(1) } else { 0 };
    let mut text: String = std::iter::repeat_n(BLOCKS[7], eighths / 8).collect();
    if let Some(last) = (eighths % 8).checked_sub(1) {
        text.push(BLOCKS[last]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_shares_of_the_largest() {
        assert_eq!(bar(10.0, 10.0, 30), "█".repeat(30));
        assert_eq!(bar(5.0, 10.0, 30).chars().count(), 15);
        assert_eq!(bar(0.0, 10.0, 30), "");
        assert_eq!(bar(0.001, 10.0, 30), "▏");
        assert_eq!(bar(0.0, 0.0, 30), "");
    }
}
