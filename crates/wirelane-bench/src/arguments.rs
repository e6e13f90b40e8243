//! Parses the values of arguments.

use std::time::Duration;

use wirelane::QueueSet;

/// `all`, `none` or a list of queues.
///
/// # Errors
/// The text is no such value; the message says what to write.
pub fn queues(text: &str) -> Result<QueueSet, String> {
    text.parse().map_err(reason)
}

/// Why a value was refused, without the parts of the message that clap adds itself.
pub fn reason(error: wirelane::Error) -> String {
    let help = error.next_step().map(|help| format!("; {help}")).unwrap_or_default();
    format!("{}{help}", error.cause())
}

/// A number above 0, as in `1000`, `10k`, `5M` (units of 1000).
///
/// # Errors
/// The text is no such value; the message says what to write.
pub fn count(text: &str) -> Result<u64, String> {
    wirelane::port::parse_number(text)
        .filter(|count| *count > 0)
        .ok_or_else(|| "write a number above 0, such as 1000, 10k or 5M".into())
}

/// A number of bytes, as in `64M`, `20G` (units of 1024).
///
/// # Errors
/// The text is no such value; the message says what to write.
pub fn size(text: &str) -> Result<u64, String> {
    wirelane_pcap::parse_size(text).ok_or_else(|| "write a size such as 64M or 20G".into())
}

/// A time, as in `10s`, `500ms`, `2m`, `1h`, `7d`; a plain number is seconds.
///
/// # Errors
/// The text is no such value; the message says what to write.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => f64::NAN,
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = if plain { digits.parse().unwrap_or(f64::NAN) * unit } else { f64::NAN };
    // A year is longer than any capture, and far from any overflow.
    if seconds > 0.0 && seconds < 366.0 * 86_400.0 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("write a time above 0 and below a year, such as 10s, 500ms, 2m or 1h".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, milliseconds) in
            [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("3", 3_000), ("1d", 86_400_000)]
        {
            assert_eq!(duration(text).unwrap().as_millis(), milliseconds, "{text}");
        }
        for text in ["", "s", "-1s", "1w", "1e9s", "0", "inf", "NaN", "400h50000000m", "é"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
