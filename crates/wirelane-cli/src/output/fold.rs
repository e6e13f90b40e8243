//! Folds sentences at the edge of the terminal, or at 80 columns.

/// Columns of a line that is not for a terminal.
pub(crate) const COLUMNS: usize = 80;

/// The indentation of the second and further lines.
const INDENT: &str = "  ";

/// Folds a sentence that exceeds `width` columns. Rows of tables stay whole.
pub(super) fn folded(text: String, width: usize) -> String {
    let is_row = text.contains('\n') || text.contains("  ");
    if is_row || columns(&text) <= width {
        return text;
    }
    join(&hanging(&text, width))
}

/// A problem and the next step, if there is one. If they do not fit on one line, the next step
/// begins the second one; if more than two were needed, it follows the problem.
pub(super) fn error(problem: &str, step: Option<&str>, width: usize) -> String {
    let Some(step) = step else { return join(&hanging(problem, width)) };
    let whole = format!("{problem}; {step}");
    let apart = columns(problem) < width && columns(step) + INDENT.len() <= width;
    match columns(&whole) <= width {
        true => whole,
        false if apart => format!("{problem};\n{INDENT}{step}"),
        false => join(&hanging(&whole, width)),
    }
}

/// The words of `text` on lines of at most `width` columns, as far as they fit.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    lines(text, width, width)
}

/// The same, with room for the indentation of all lines but the first.
fn hanging(text: &str, width: usize) -> Vec<String> {
    lines(text, width, width.saturating_sub(INDENT.len()))
}

fn lines(text: &str, first: usize, rest: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let width = if lines.len() < 2 { first } else { rest };
        match lines.last_mut() {
            // The object stays beside the name of the program, whatever its length.
            Some(line)
                if columns(line) + 1 + columns(word) <= width
                    || line.ends_with(':') && !line.contains(' ') =>
            {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn join(lines: &[String]) -> String {
    lines.join(&format!("\n{INDENT}"))
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    #[test]
    fn long_sentences_are_folded_between_words() {
        let folded = |text: &str| super::folded(text.to_owned(), 10);
        assert_eq!(folded("one line x"), "one line x");
        assert_eq!(folded("one line and two"), "one line\n  and two");
        assert_eq!(folded("in  columns  and long"), "in  columns  and long");
        assert_eq!(folded("unbreakable"), "unbreakable");
        assert_eq!(folded("1234567890 12345678 90"), "1234567890\n  12345678\n  90");
    }

    #[test]
    fn the_remedy_has_a_line_if_it_fits() {
        let error = |problem, step| super::error(problem, Some(step), 20);
        assert_eq!(error("eth9: gone", "add it"), "eth9: gone; add it");
        assert_eq!(error("eth9: it is gone", "add it again"), "eth9: it is gone;\n  add it again");
        assert_eq!(
            error("eth9: it is gone", "add it again, and wait"),
            "eth9: it is gone;\n  add it again, and\n  wait"
        );
        assert_eq!(super::error("eth9: it has gone away", None, 20), "eth9: it has gone\n  away");
    }
}
