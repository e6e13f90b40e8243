//! Errors of flow files.

use std::fmt;

use wirelane_wire::text::is_hostile;

/// Why a flow file is refused: the place, the problem, and the supported values, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, from 1. LF, CR and CRLF end a line, as in YAML.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The path in the model, such as `flows[3].packet[1].ipv4.options`. Empty for a YAML error.
    pub path: String,
    /// The problem.
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)?;
        // Quotes from the file may contain any character.
        let one_line = |text: &str| text.replace(is_hostile, " ");
        if !self.path.is_empty() {
            write!(f, "{}: ", one_line(&self.path))?;
        }
        f.write_str(&one_line(&self.what))
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_file_commands_the_terminal() {
        let text = "a\u{1b}[2J\nb\u{202e}c\u{200b}d";
        let (path, what) = (text.to_owned(), text.to_owned());
        let error = Error { line: 1, column: 2, path, what };
        let shown = "a [2J b c d";
        assert_eq!(error.to_string(), format!("line 1, column 2: {shown}: {shown}"));
        assert_eq!(crate::recipe::RecipeError::new(text).to_string(), shown);
    }
}
