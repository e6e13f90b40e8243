//! The tables of targets and of ratios to other programs.

use crate::comparison::Ratio;
use crate::report::BenchReport;
use crate::row::{Better, summary, told};
use crate::targets::{FigureTarget, TargetLimit};
use maud::{Markup, html};

use super::plot::range;
use wirelane_cli::page::number;

/// A table of all targets.
pub(super) fn targets(report: &BenchReport) -> Markup {
    let count = |met| report.targets.iter().filter(|target| target.met == met).count();
    let unclear = report.targets.iter().filter(|target| target.is_unclear()).count();
    let (met, missed, unknown) = (count(Some(true)), count(Some(false)), count(None) - unclear);
    html! {
        h2 id="targets" { "Targets" }
        p {
            "The targets of Wirelane, and their verdicts in this run: " (met) " met, " (missed)
            " missed, " (unclear) " unclear, " (unknown) " not measured. Ratios and differences \
             are those of a round: the median, and below it the lowest and highest."
        }
        div class="scroll" {
            table class="targets" {
                thead {
                    tr { th { "target" } th { "limit" } th { "this machine" } th { "verdict" } }
                }
                tbody { @for target in &report.targets { (target_line(target)) } }
            }
        }
    }
}

fn target_line(target: &FigureTarget) -> Markup {
    let unit = match target.unit {
        "" | "×" => target.unit.to_owned(),
        unit => format!(" {unit}"),
    };
    let [least, _, most] = summary(&target.values).unwrap_or_default();
    html! {
        tr {
            td {
                (target.what) span class="range" { (target.suite) }
                @if let Some(background) = target.background {
                    span class="range" { (background) }
                }
            }
            td {
                @match target.limit {
                    TargetLimit::AtMost(limit) => { "≤\u{a0}" (number(limit)) (unit) },
                    TargetLimit::AtLeast(limit) => { "≥\u{a0}" (number(limit)) (unit) },
                }
            }
            td {
                @if let Some(median) = target.median {
                    span class="here" { (number(median)) (unit) }
                    span class="range" { (range(target.values.len(), least, most, number)) }
                }
            }
            td {
                @match target.met {
                    Some(true) => span class="met" { "met" },
                    Some(false) => span class="missed" { "missed" },
                    None => span class="reason" {
                        @if target.is_unclear() { "unclear: " } @else { "not measured: " }
                         (target.reason.as_deref().unwrap_or("unknown"))
                    },
                }
            }
        }
    }
}

/// A table of all ratios, and the programs that were missing.
pub(super) fn section(report: &BenchReport) -> Markup {
    let missing: Vec<_> =
        report.environment.programs.iter().filter(|program| !program.installed).collect();
    html! {
        h2 id="beside" { "Other programs" }
        p {
            "Measured in turns with Wirelane, on the same interfaces and CPUs, under the same \
             load, with losses counted alike. A ratio divides Wirelane's figure by the other \
             program's figure of the same round: the median, and below it the lowest and highest. \
             A ratio with few samples that disagree is unclear."
        }
        @if report.ratios.is_empty() {
            p class="reason" {
                "No other program was measured under the same conditions as Wirelane."
            }
        } @else {
            div class="scroll" {
                table {
                    thead {
                        tr {
                            th { "figure" } th { "Wirelane" } th { "other" } th { "ratio" }
                        }
                    }
                    tbody { @for ratio in &report.ratios { (line(ratio)) } }
                }
            }
        }
        @if !missing.is_empty() {
            p { "Missing, with the Debian package of each:" }
            ul {
                @for program in missing {
                    li { (program.name) " (" (program.package) ")" }
                }
            }
        }
    }
}

fn line(ratio: &Ratio) -> Markup {
    let conditions: Vec<_> =
        ratio.params.0.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let unit = if ratio.unit == "1" { String::new() } else { format!(" ({})", ratio.unit) };
    let [least, _, most] = summary(&ratio.ratios).unwrap_or_default();
    // Compares the ratio as printed, so that equal numbers get equal verdicts.
    let says = |value: f64| match ((value * 100.0).round(), ratio.better) {
        (95.0..=105.0, _) => "as good",
        (value, Better::Higher) if value > 100.0 => "better",
        (value, Better::Lower) if value < 100.0 => "better",
        (_, Better::Higher | Better::Lower) => "worse",
    };
    let verdict = told(&ratio.ratios, says).unwrap_or("unclear");
    let lost = |place: usize| ratio.lost.and_then(|lost| lost.get(place).copied());
    html! {
        tr {
            td {
                (ratio.suite) " " (ratio.case) ": " (ratio.metric.replace('_', " ")) (unit)
                span class="range" { (conditions.join(", ")) }
            }
            td { span class="here" { (number(ratio.ours)) } (losses(ratio, lost(0))) }
            td {
                (number(ratio.theirs))
                span class="source" { (ratio.peer) }
                (losses(ratio, lost(1)))
            }
            td {
                span class="here" { (number(ratio.median)) }
                span class="range" { (range(ratio.ratios.len(), least, most, number)) }
                span class="source" { (verdict) }
            }
        }
    }
}

/// The packets lost. If a receiver lost none, its rate is the sender's.
fn losses(ratio: &Ratio, share: Option<f64>) -> Markup {
    let is_bound = ratio.metric == "packets_per_s" && share == Some(0.0);
    html! {
        @if let Some(share) = share {
            span class="range" {
                (format!("{:.2} % lost", 100.0 * share))
                @if is_bound { ": the sender was the limit" }
            }
        }
    }
}
