//! Lines over a scale, as SVG that takes its colours from the page.

use maud::{Markup, html};

use super::number;

/// Names of the colours, in turn; the style sheet has them.
const COLOURS: [&str; 5] = ["c0", "c1", "c2", "c3", "c4"];
/// The plotted area, in percent of the width; it leaves room for the numbers beside it.
const LEFT: f64 = 13.0;
const WIDTH: f64 = 84.0;
/// In pixels.
const TOP: f64 = 8.0;
const HEIGHT: f64 = 200.0;
const FOOT: f64 = 40.0;

/// A scale.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a> {
    /// The quantity, with its unit.
    pub title: &'a str,
    /// Whether equal ratios have equal distances. Values of 0 and below are then left out.
    pub logarithmic: bool,
}

/// One line.
#[derive(Clone, Debug)]
pub struct PlotLine {
    /// The name in the key.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// Lines over common scales. Horizontal places are shares of the width, so that letters have the
/// same size on a phone.
#[derive(Clone, Debug)]
pub struct Plot<'a> {
    /// Across.
    pub x: Axis<'a>,
    /// Upwards.
    pub y: Axis<'a>,
    /// The first five lines have different colours.
    pub lines: Vec<PlotLine>,
}

impl Plot<'_> {
    /// The plot with its key; nothing if no line has a point.
    pub fn markup(&self) -> Markup {
        let visible =
            |value: f64, axis: Axis<'_>| value.is_finite() && (!axis.logarithmic || value > 0.0);
        let shown = |line: &PlotLine| {
            let points = line.points.iter().copied();
            points.filter(|(x, y)| visible(*x, self.x) && visible(*y, self.y)).collect::<Vec<_>>()
        };
        let lines: Vec<(&str, Vec<(f64, f64)>)> =
            self.lines.iter().map(|line| (line.name.as_str(), shown(line))).collect();
        let all = || lines.iter().flat_map(|(_, points)| points);
        let x = AxisScale::over(self.x, all().map(|(x, _)| *x));
        let y = AxisScale::over(self.y, all().map(|(_, y)| *y));
        let (Some(x), Some(y)) = (x, y) else { return html! {} };
        let across = |value: f64| LEFT + WIDTH * x.place(value);
        let down = |value: f64| TOP + HEIGHT * (1.0 - y.place(value));
        let path = |points: &[(f64, f64)]| {
            let place = |(px, py): &(f64, f64)| {
                format!("{:.2},{:.2}", 100.0 * x.place(*px), 100.0 * (1.0 - y.place(*py)))
            };
            points.iter().map(place).collect::<Vec<_>>().join(" ")
        };
        html! {
            p class="soft keys" {
                @for ((name, _), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
                    span class=(format!("key {colour}")) { (name) } " "
                }
            }
            svg class="lines" width="100%" height=(TOP + HEIGHT + FOOT) role="img" {
                title { (self.y.title) " by " (self.x.title) }
                @for tick in y.ticks() {
                    line class="grid" x1=(percent(LEFT)) x2=(percent(LEFT + WIDTH)) y1=(down(tick)) y2=(down(tick)) {}
                    text x=(percent(LEFT)) dx="-6" y=(down(tick) + 4.0) text-anchor="end" { (number(tick)) }
                }
                @for tick in x.ticks() {
                    text x=(percent(across(tick))) y=(TOP + HEIGHT + 16.0) text-anchor="middle" { (number(tick).trim_end_matches(".00")) }
                }
                text x=(percent(LEFT + WIDTH / 2.0)) y=(TOP + HEIGHT + 34.0) text-anchor="middle" class="label" {
                    (self.y.title) " by " (self.x.title)
                }
                svg x=(percent(LEFT)) width=(percent(WIDTH)) y=(TOP) height=(HEIGHT) viewBox="0 0 100 100"
                    preserveAspectRatio="none" overflow="visible" {
                    @for ((_, points), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
                        polyline class=(colour) points=(path(points)) vector-effect="non-scaling-stroke" {}
                    }
                }
                @for ((name, points), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
                    @for (px, py) in points {
                        circle class=(colour) cx=(percent(across(*px))) cy=(down(*py)) r="3.5" {
                            title { (name) ": " (number(*py)) " at " (number(*px)) }
                        }
                    }
                }
            }
        }
    }
}

fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

/// From the lowest to the highest value.
struct AxisScale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl AxisScale {
    /// Over these values, and 0 if it is not logarithmic. `None` without values.
    fn over(axis: Axis<'_>, values: impl Iterator<Item = f64>) -> Option<Self> {
        let logarithmic = axis.logarithmic;
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if low > high {
            return None;
        }
        if logarithmic {
            let (low, high) = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
            let high = if high > low { high } else { low * 10.0 };
            return Some(Self { low, high, logarithmic });
        }
        let high = if high > 0.0 { high } else { 1.0 };
        let step = step(high);
        Some(Self { low: 0.0, high: (high / step).ceil() * step, logarithmic })
    }

    /// From 0 to 1.
    fn place(&self, value: f64) -> f64 {
        if self.logarithmic {
            (value / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            return (0..=decades).map(|decade| self.low * 10f64.powi(decade)).collect();
        }
        let step = step(self.high);
        (0..=(self.high / step).round() as u32).map(|tick| f64::from(tick) * step).collect()
    }
}

/// A round distance between about five ticks up to `high`.
fn step(high: f64) -> f64 {
    let raw = high / 5.0;
    let decade = 10f64.powf(raw.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * decade);
    steps.into_iter().find(|step| *step >= raw * 0.999).unwrap_or(decade * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(logarithmic: bool) -> Axis<'static> {
        Axis { title: "pps", logarithmic }
    }

    #[test]
    fn scales_are_round() {
        let scale = AxisScale::over(axis(false), [3.0, 87.0].into_iter()).unwrap();
        assert_eq!(scale.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(scale.place(50.0), 0.5);
        let scale = AxisScale::over(axis(true), [2.0, 500.0].into_iter()).unwrap();
        assert_eq!(scale.ticks(), [1.0, 10.0, 100.0, 1000.0]);
        assert!((scale.place(10.0) - 1.0 / 3.0).abs() < 1e-9);
        let nothing = AxisScale::over(axis(false), [0.0].into_iter()).unwrap();
        assert_eq!((nothing.place(0.0), nothing.high), (0.0, 1.0));
        assert!(AxisScale::over(axis(false), [].into_iter()).is_none());
    }

    #[test]
    fn a_plot_without_points_is_nothing() {
        let line = PlotLine { name: "<p50>".into(), points: vec![(1.0, 0.0)] };
        let plot = |logarithmic| {
            let lines = vec![line.clone()];
            Plot { x: axis(false), y: axis(logarithmic), lines }.markup().into_string()
        };
        assert_eq!(plot(true), "");
        let text = plot(false);
        assert!(text.contains("&lt;p50&gt;") && text.contains("<polyline"), "{text}");
    }
}
