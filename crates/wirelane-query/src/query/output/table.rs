//! A table for people. The first rows determine the widths of columns; later rows are written as
//! they arrive.

use std::io::{self, Write};
use std::iter;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Schema};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// Rows that are buffered to find the widths.
const FIRST: usize = 1000;
const GAP: &str = "  ";

/// Widest column, in characters; a longer cell extends beyond its column.
const WIDEST: usize = 200;

/// Writes a table.
pub(crate) struct TableWriter<W> {
    to: W,
    columns: Vec<TableColumn>,
    /// `None` once the widths are known.
    waiting: Option<Vec<Vec<String>>>,
}

struct TableColumn {
    name: String,
    is_number: bool,
    width: usize,
}

impl<W: Write> TableWriter<W> {
    pub(crate) fn new(to: W, schema: &Schema) -> Self {
        let columns = schema.fields().iter().map(|field| {
            let name = clean(field.name());
            let width = name.chars().count().min(WIDEST);
            TableColumn { name, is_number: is_number(field.data_type()), width }
        });
        Self { to, columns: columns.collect(), waiting: Some(Vec::new()) }
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let options = FormatOptions::new();
        let formatters: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let cells = formatters.iter().map(|column| column.value(row).try_to_string());
            let cells: Vec<_> =
                cells.map(|cell| cell.map(|it| clean(&it))).collect::<Result<_, _>>()?;
            match &mut self.waiting {
                Some(waiting) => waiting.push(cells),
                None => self.row(&cells)?,
            }
        }
        if self.waiting.as_ref().is_some_and(|waiting| waiting.len() >= FIRST) {
            self.decide()?;
        }
        self.to.flush().map_err(ArrowError::from)
    }

    pub(crate) fn finish(mut self) -> Result<W, ArrowError> {
        self.decide()?;
        Ok(self.to)
    }

    /// Writes the buffered rows, or `no rows`.
    fn decide(&mut self) -> io::Result<()> {
        let Some(waiting) = self.waiting.take() else { return Ok(()) };
        for row in &waiting {
            for (column, cell) in self.columns.iter_mut().zip(row) {
                column.width = column.width.max(cell.chars().count().min(WIDEST));
            }
        }
        let names: Vec<_> = self.columns.iter().map(|column| column.name.clone()).collect();
        if !names.is_empty() {
            self.row(&names)?;
        }
        waiting.iter().try_for_each(|row| self.row(row))?;
        if waiting.is_empty() { writeln!(self.to, "no rows") } else { Ok(()) }
    }

    fn row(&mut self, cells: &[String]) -> io::Result<()> {
        let mut line = String::new();
        for (at, (column, cell)) in self.columns.iter().zip(cells).enumerate() {
            let gap = if at > 0 { GAP } else { "" };
            let room = column.width.saturating_sub(cell.chars().count());
            let (before, behind) = if column.is_number { (room, 0) } else { (0, room) };
            line += gap;
            line.extend(iter::repeat_n(' ', before));
            line += cell;
            line.extend(iter::repeat_n(' ', behind));
        }
        writeln!(self.to, "{}", line.trim_end())
    }
}

/// Characters of a line of these rows, with the last gap.
pub(crate) fn width(batch: &RecordBatch) -> Result<usize, ArrowError> {
    let (schema, options) = (batch.schema(), FormatOptions::new());
    let mut all = 0;
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let column = ArrayFormatter::try_new(column, &options)?;
        let mut width = clean(field.name()).chars().count();
        for row in 0..batch.num_rows() {
            let cell = clean(&column.value(row).try_to_string()?);
            width = width.max(cell.chars().count().min(WIDEST));
        }
        all += width + GAP.len();
    }
    Ok(all)
}

/// Escapes control characters: text of packets must not move the cursor.
fn clean(text: &str) -> String {
    text.chars().flat_map(wirelane_wire::text::escaped).collect()
}

fn is_number(kind: &DataType) -> bool {
    kind.is_numeric()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, StringArray, UInt64Array};

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_first_rows() {
        let columns: [(&str, ArrayRef); 2] = [
            (
                "source",
                Arc::new(StringArray::from(vec![Some("10.0.0.1"), None, Some("a\u{1b}[1m")])),
            ),
            ("n", Arc::new(UInt64Array::from(vec![1, 1000, 20]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut table = TableWriter::new(Vec::new(), &batch.schema());
        table.write(&batch).unwrap();
        let text = String::from_utf8(table.finish().unwrap()).unwrap();
        let expected = "source         n\n10.0.0.1       1\n            1000\na\\u{1b}[1m    20\n";
        assert_eq!(text, expected, "{text}");
    }

    #[test]
    fn a_cell_of_any_length_is_written_whole() {
        let long = "a".repeat(70_000);
        let columns: [(&str, ArrayRef); 2] = [
            ("data", Arc::new(StringArray::from(vec![long.as_str(), "b"]))),
            ("n", Arc::new(UInt64Array::from(vec![1, 2]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut table = TableWriter::new(Vec::new(), &batch.schema());
        table.write(&batch).unwrap();
        let text = String::from_utf8(table.finish().unwrap()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], format!("{long}  1"));
        assert_eq!(lines[2], format!("b{}  2", " ".repeat(WIDEST - 1)));
    }
}
