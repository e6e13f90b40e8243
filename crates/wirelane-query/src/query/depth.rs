//! How deep an expression may be. The parser and the engine follow its operators by recursion, so a
//! sum of ten thousand terms needs as many frames of the stack, in each of their passes.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use wirelane::{Error, Result};

/// Most operators in a statement.
const MOST: usize = 2_500;

/// Bytes of the stack of each thread that follows the operators, enough for a build without
/// optimisation. The kernel provides only the pages that are touched.
pub(crate) const STACK: usize = if cfg!(debug_assertions) { 512 << 20 } else { 128 << 20 };

/// # Errors
/// The text has more than [`MOST`] operators.
pub(crate) fn check(sql: &str) -> Result<()> {
    // The parser reports the error of a text without tokens.
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize() else { return Ok(()) };
    let operators = tokens.iter().filter(|token| is_operator(token)).count();
    if operators <= MOST {
        return Ok(());
    }
    Err(Error::usage("SQL", format!("it has {operators} operators, and {MOST} are possible"))
        .help("write a list as x IN (…, …), which has none"))
}

/// Values, names, blanks and separators add no depth.
fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => ["AND", "OR", "XOR", "NOT", "UNION", "INTERSECT", "EXCEPT", "JOIN"]
            .iter()
            .any(|name| word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name)),
        Token::Whitespace(_)
        | Token::Comma
        | Token::Period
        | Token::SemiColon
        | Token::LParen
        | Token::RParen
        | Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_count_and_values_do_not() {
        let sum = |terms: usize| format!("SELECT {}", vec!["1"; terms].join("+"));
        assert!(check(&sum(MOST + 1)).is_ok());
        let error = check(&sum(MOST + 2)).unwrap_err().to_string();
        assert!(error.contains("2501 operators"), "{error}");
        let list = format!("SELECT 1 WHERE 1 IN ({})", vec!["-1"; 2_000].join(", "));
        assert!(check(&list).is_ok());
        let any = vec!["a"; MOST + 2].join(" or ");
        assert!(check(&any).is_err() && check("SELECT 'unfinished").is_ok());
    }
}
