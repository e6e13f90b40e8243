//! Bars with the range of their samples, as SVG with the colours of the page.

use maud::{Markup, html};
use wirelane_cli::page::number;

use crate::row::{ENOUGH, FigureRow};

/// A bar for each row; all rows have one metric. Positions are percentages of the available width,
/// so that letters have the same size on a phone as elsewhere.
pub(super) fn bars(rows: &[(String, &FigureRow)]) -> Markup {
    const LINE: usize = 34;
    /// The longest bar leaves room for its figure.
    const LONGEST: f64 = 82.0;
    let summaries = rows.iter().filter_map(|(label, row)| Some((label, *row, row.summary()?)));
    let summaries: Vec<_> = summaries.collect();
    let most = summaries.iter().map(|(_, _, [.., max])| *max).fold(0.0, f64::max);
    let share = |value: f64| if most > 0.0 { LONGEST * value.max(0.0) / most } else { 0.0 };
    html! {
        svg width="100%" height=(LINE * summaries.len()) role="img" {
            @for (position, (label, row, [min, median, max])) in summaries.iter().enumerate() {
                @let y = LINE * position;
                @let (low, high, end) = (share(*min), share(*max), share(*median));
                text x="0" y=(y + 12) class="label" { (label) }
                rect x="0" y=(y + 17) width=(percent(end)) height="11"
                     class=(if row.peer.is_some() { "bar peer" } else { "bar" }) {
                    title {
                        (label) ": " (number(*median)) " (" (number(*min)) " to " (number(*max))
                        "; " (row.samples.len()) ")"
                    }
                }
                @let middle = y as f64 + 22.5;
                line x1=(percent(low)) x2=(percent(high)) y1=(middle) y2=(middle) class="range" {}
                text x=(percent(high.max(end))) dx="6" y=(y + 27) class="value" {
                    (number(*median))
                }
            }
        }
    }
}

fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

/// The range of samples, as text; `text` formats a figure.
pub(super) fn range(samples: usize, min: f64, max: f64, text: fn(f64) -> String) -> String {
    match samples {
        1 => "1 sample".to_owned(),
        // With few samples, the range is shown with their number.
        2..ENOUGH => format!("{samples} samples, {}–{}", text(min), text(max)),
        _ => format!("{}–{}", text(min), text(max)),
    }
}
