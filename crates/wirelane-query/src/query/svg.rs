//! A plot of bars as an SVG document, light or dark as the viewer prefers.

use std::fmt::Write as _;

/// In pixels.
const WIDTH: f64 = 900.0;
const MARGIN: f64 = 16.0;
const TITLE: f64 = 28.0;
const ROW: f64 = 22.0;
/// Room for numbers.
const NUMBER: f64 = 90.0;
const HEIGHT: f64 = 240.0;
/// Approximate width of a letter.
const LETTER: f64 = 7.4;

const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2328}.t{font-weight:600}\
    .v{fill:#59636e}rect{fill:#2f6fdb}line{stroke:#d1d9e0}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.v{fill:#9198a1}rect{fill:#5b9bff}\
    line{stroke:#3d444d}}";

/// A plot: a number for each label.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) bars: Vec<(String, f64)>,
    /// Labels are times in order. Bars are vertical.
    pub(crate) is_timeline: bool,
}

impl Plot {
    /// The SVG document.
    pub(crate) fn svg(&self) -> String {
        if self.is_timeline { self.columns() } else { self.rows() }
    }

    fn most(&self) -> f64 {
        let most = self.bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        if most > 0.0 { most } else { 1.0 }
    }

    fn rows(&self) -> String {
        let longest = self.bars.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
        let left = MARGIN + (longest as f64 * LETTER).min(WIDTH / 2.0) + 8.0;
        let room = WIDTH - left - MARGIN - NUMBER;
        let mut body = String::new();
        for (at, (label, value)) in self.bars.iter().enumerate() {
            let top = MARGIN + TITLE + at as f64 * ROW;
            let (base, end) = (top + 15.0, left + room * value / self.most());
            let (label, number) = (escaped(label), number(*value));
            let _ = write!(
                body,
                "<text x='{:.1}' y='{base:.1}' text-anchor='end'>{label}</text>\
                 <rect x='{left:.1}' y='{:.1}' width='{:.1}' height='{:.1}' rx='2'/>\
                 <text class='v' x='{:.1}' y='{base:.1}'>{number}</text>",
                left - 8.0,
                top + 3.0,
                (end - left).max(1.0),
                ROW - 6.0,
                end.max(left + 1.0) + 6.0,
            );
        }
        let height = MARGIN * 2.0 + TITLE + ROW * self.bars.len() as f64;
        self.framed(height, &body)
    }

    fn columns(&self) -> String {
        let (left, right) = (MARGIN + NUMBER, WIDTH - MARGIN);
        let bottom = MARGIN + TITLE + HEIGHT;
        let each = (right - left) / self.bars.len().max(1) as f64;
        let mut body = String::new();
        for share in [0.0, 0.5, 1.0] {
            let (y, number) = (bottom - HEIGHT * share, number(self.most() * share));
            let _ = write!(
                body,
                "<line x1='{left:.1}' x2='{right:.1}' y1='{y:.1}' y2='{y:.1}'/>\
                 <text class='v' x='{:.1}' y='{:.1}' text-anchor='end'>{number}</text>",
                left - 8.0,
                y + 4.0,
            );
        }
        for (at, (label, value)) in self.bars.iter().enumerate() {
            let height = HEIGHT * value / self.most();
            let (label, number) = (escaped(label), number(*value));
            let _ = write!(
                body,
                "<rect x='{:.2}' y='{:.1}' width='{:.2}' height='{height:.1}'>\
                 <title>{label}: {number}</title></rect>",
                left + each * at as f64,
                bottom - height,
                (each - 1.0).max(0.5),
            );
        }
        let ends = [(self.bars.first(), left, "start"), (self.bars.last(), right, "end")];
        for (bar, x, anchor) in ends {
            let label = bar.map(|(label, _)| escaped(label)).unwrap_or_default();
            let y = bottom + 20.0;
            let _ = write!(
                body,
                "<text class='v' x='{x:.1}' y='{y:.1}' text-anchor='{anchor}'>{label}</text>"
            );
        }
        self.framed(bottom + 20.0 + MARGIN, &body)
    }

    fn framed(&self, height: f64, body: &str) -> String {
        let title = escaped(&self.title);
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH:.0} {height:.0}' \
             width='{WIDTH:.0}' height='{height:.0}' role='img'><title>{title}</title>\
             <style>{STYLE}</style><text class='t' x='{MARGIN}' y='{:.1}'>{title}</text>{body}</svg>\n",
            MARGIN + 12.0
        )
    }
}

/// The number with a letter for thousands, millions and so on.
fn number(value: f64) -> String {
    let scales = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match scales.into_iter().find(|(scale, _)| value >= *scale) {
        Some((scale, letter)) => format!("{:.1} {letter}", value / scale),
        None if value.fract() == 0.0 => format!("{value:.0}"),
        None => format!("{value:.2}"),
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '\'' => escaped += "&apos;",
            '"' => escaped += "&quot;",
            letter if wirelane_wire::text::is_hostile(letter) => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(is_timeline: bool, bars: &[(&str, f64)]) -> String {
        let bars = bars.iter().map(|(label, value)| ((*label).to_owned(), *value)).collect();
        Plot { title: "bytes".into(), bars, is_timeline }.svg()
    }

    #[test]
    fn the_longest_bar_takes_the_room_and_others_their_share() {
        let svg = plot(false, &[("<a>", 2000.0), ("b", 1000.0), ("c", 0.0)]);
        let widths: Vec<f64> = svg
            .split("<rect ")
            .skip(1)
            .map(|rest| rest.split("width='").nth(1).unwrap().split('\'').next().unwrap())
            .map(|width| width.parse().unwrap())
            .collect();
        assert!((widths[0] - 2.0 * widths[1]).abs() < 0.2 && widths[2] == 1.0, "{widths:?}");
        assert!(svg.contains("&lt;a&gt;") && svg.contains("2.0 k"), "{svg}");
    }

    #[test]
    fn a_plot_of_nothing_is_a_whole_file() {
        for is_timeline in [false, true] {
            let svg = plot(is_timeline, &[]);
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
        }
    }
}
