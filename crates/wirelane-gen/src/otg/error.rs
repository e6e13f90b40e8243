//! Why a flow file is refused.

use std::fmt;

/// Why a flow file is refused: where, what is wrong, and what is supported. One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, from 1. LF, CR and CRLF end a line, as in YAML.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The place in the model, as in `flows[3].packet[1].ipv4.options`. Empty for an error of YAML
    /// itself.
    pub path: String,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)?;
        // What is quoted of the file may have line breaks.
        let one_line = |text: &str| text.replace(|c: char| c.is_control(), " ");
        if !self.path.is_empty() {
            write!(f, "{}: ", one_line(&self.path))?;
        }
        f.write_str(&one_line(&self.what))
    }
}

impl std::error::Error for Error {}
