//! Columns of text.

use std::fmt::{self, Display, Formatter};

use super::printable;

/// Rows under a heading, each column as wide as its widest cell.
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
    figures: bool,
}

impl TextTable {
    /// A table of words, all of which begin at the left of their column.
    pub(crate) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()], figures: false }
    }

    /// A table of figures: all but the first column end at the right.
    pub(crate) fn figures(head: &[&str]) -> Self {
        Self { figures: true, ..Self::new(head) }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// How many columns of a terminal it takes.
    pub(crate) fn width(&self) -> usize {
        let columns = self.widths();
        columns.iter().sum::<usize>() + 2 * columns.len().saturating_sub(1)
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell: &String| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }

    /// Whether it has only a heading.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }
}

impl Display for TextTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for row in &self.rows {
            let cells =
                row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                    match self.figures && column > 0 {
                        true => format!("{cell:>width$}"),
                        false => format!("{cell:<width$}"),
                    }
                });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = TextTable::new(&["a", "bb"]);
        assert!(table.is_empty());
        table.row(["long".to_owned(), "x\x1b[2J".to_owned()]);
        assert_eq!(table.to_string(), "a     bb\nlong  x?[2J\n");
        let mut table = TextTable::figures(&["queue", "sent"]);
        table.row(["a".to_owned(), "1".to_owned()]);
        table.row(["b".to_owned(), "12345".to_owned()]);
        assert_eq!(table.to_string(), "queue   sent\na          1\nb      12345\n");
    }
}
