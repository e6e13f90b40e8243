//! Figures for people.

/// Three significant digits, with a prefix where it helps.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let (value, prefix) = match size {
        1e9.. => (value / 1e9, " G"),
        1e6.. => (value / 1e6, " M"),
        1e4.. => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let size = value.abs();
    let digits = match size {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{value:.digits$}{prefix}")
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (0.0, "0.00"),
            (7.123, "7.12"),
            (67.25, "67.2"),
            (5303.09, "5303"),
            (14_880_000.0, "14.9 M"),
            (-60.5, "-60.5"),
            (2.56e10, "25.6 G"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
