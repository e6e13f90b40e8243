//! Numbers in specs.

/// Parses a number with an optional decimal suffix: `k`, `M`, `G` (powers of 1000) or `Ki`, `Mi`,
/// `Gi`.
pub fn parse_number(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale: f64 = match &text[digits.len()..] {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" | "m" => 1e6,
        "G" | "g" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        _ => return None,
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    if scale == 1.0 {
        return digits.parse().ok();
    }
    let value = digits.parse::<f64>().ok()? * scale;
    (value < 1e18).then_some(value.round() as u64)
}

/// Parses a time in `unit` or in `thousand`, which is 1000 of the former. Returns 1 to 10,000 of
/// `unit`.
pub(super) fn parse_time(text: &str, unit: &str, thousand: &str) -> Option<u64> {
    let (digits, scale) = match text.strip_suffix(unit) {
        Some(digits) => (digits, 1),
        None => (text.strip_suffix(thousand)?, 1000),
    };
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>());
    let time = number?.ok()?.checked_mul(scale)?;
    (1..=10_000).contains(&time).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_suffixes() {
        for (text, value) in [("0", 0), ("64", 64), ("10k", 10_000), ("1.5M", 1_500_000)] {
            assert_eq!(parse_number(text), Some(value), "{text}");
        }
        assert_eq!(parse_number("2Mi"), Some(2 << 20));
        for text in ["", "k", "1x", "-1", "1e9", "999999999999999G", "1.2.3k", "0.5", "é"] {
            assert_eq!(parse_number(text), None, "{text}");
        }
    }
}
