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

/// Four significant digits, without a prefix: for a table that has one unit.
pub fn plain(value: f64) -> String {
    let size = value.abs();
    if size < 9999.5 {
        return number(value);
    }
    let step = 10_f64.powf(size.log10().floor() - 3.0);
    let digits = format!("{:.0}", (size / step).round() * step);
    let (sign, mut text) = (if value < 0.0 { "-" } else { "" }, String::new());
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::{number, plain};

    #[test]
    fn plain_numbers_have_no_prefix() {
        for (value, text) in [
            (0.678, "0.68"),
            (5303.09, "5303"),
            (9999.9, "10,000"),
            (16_617.4, "16,620"),
            (-27_412_345.0, "-27,410,000"),
            (1e9, "1,000,000,000"),
        ] {
            assert_eq!(plain(value), text);
        }
    }

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
