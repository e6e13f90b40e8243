//! Bars with the range of their samples, as SVG that takes its colours from the page.

use maud::{Markup, html};
use wirelane::bench::report::Row;

/// A bar for each row; all rows have one metric.
pub(super) fn bars(rows: &[(String, &Row)]) -> Markup {
    const LINE: f64 = 34.0;
    const WIDTH: f64 = 640.0;
    let summaries = rows.iter().filter_map(|(label, row)| Some((label, *row, row.summary()?)));
    let summaries: Vec<_> = summaries.collect();
    let most = summaries.iter().map(|(_, _, [.., max])| *max).fold(0.0, f64::max);
    let x = |value: f64| if most > 0.0 { (value.max(0.0) / most) * (WIDTH - 100.0) } else { 0.0 };
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", LINE * summaries.len() as f64)) role="img" {
            @for (position, (label, row, [min, median, max])) in summaries.iter().enumerate() {
                @let y = LINE * position as f64;
                @let (low, high, end) = (x(*min), x(*max), x(*median));
                text x="0" y=(y + 12.0) class="label" { (label) }
                rect x="0" y=(y + 17.0) width=(px(end)) height="11"
                     class=(if row.peer.is_some() { "bar peer" } else { "bar" }) {
                    title { (label) ": " (number(*median)) " (" (number(*min)) " to " (number(*max)) ")" }
                }
                line x1=(px(low)) x2=(px(high)) y1=(y + 22.5) y2=(y + 22.5) class="range" {}
                text x=(px(high.max(end) + 6.0)) y=(y + 27.0) class="value" { (number(*median)) }
            }
        }
    }
}

fn px(value: f64) -> String {
    format!("{value:.1}")
}

/// Three significant digits, with a prefix where it helps.
pub(super) fn number(value: f64) -> String {
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
