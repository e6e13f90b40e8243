//! The head of the page: what the figures depend on.

use std::collections::BTreeMap;

use crate::environment::Environment;
use crate::machine::Machine;
use crate::report::BenchReport;
use crate::statistics::control::ControlReadings;
use crate::statistics::quiet::Quiet;
use maud::{Markup, html};

use wirelane_cli::page::number;

/// Machine, versions, command.
pub(super) fn section(report: &BenchReport) -> Markup {
    let Machine { cpu, cores, kernel, cycles_per_ns, .. } = &report.machine;
    let environment = &report.environment;
    let entry = |name: &str, value: Option<String>| {
        html! { dt { (name) } dd { (value.as_deref().unwrap_or("unknown")) } }
    };
    let load = |load: Option<f64>| load.map_or("unknown".into(), |load| format!("{load:.2}"));
    let (before, after) = (load(environment.load_at_start), load(environment.load_at_end));
    let took =
        environment.elapsed_s.map(|seconds| format!("{}, {seconds:.0} s", environment.started()));
    let version = match &environment.revision {
        Some(revision) => format!("{}, commit {revision}", report.version),
        None => format!("{}, commit unknown", report.version),
    };
    html! {
        dl {
            (entry("Machine", cpu.clone()))
            (entry("CPUs", Some(cores.to_string())))
            (entry("Kernel", kernel.clone()))
            (entry("Governor", environment.governor.clone()))
            (entry("Cycles per ns", cycles_per_ns.map(|cycles| format!("{cycles:.3}"))))
            (entry("Started", Some(took.unwrap_or_else(|| environment.started()))))
            (entry("Load average", Some(format!("{before} before, {after} after"))))
            (entry("Wirelane", Some(version)))
            (entry("Seed", Some(environment.seed.to_string())))
            dt { "Command" } dd { code { (report.command) } }
        }
        details {
            summary { "Other programs, suites, control, mitigations" }
            (programs(environment))
            (suites(environment))
            (control(&report.control))
            (mitigations(environment.mitigations.as_ref()))
        }
    }
}

/// Which other programs there are, and how they were started.
fn programs(environment: &Environment) -> Markup {
    html! {
        h3 { "Other programs" }
        div class="scroll" {
            table class="text" {
                thead { tr { th { "program" } th { "version" } th { "Debian package" } } }
                tbody {
                    @for program in &environment.programs {
                        tr {
                            td { (program.name) }
                            td {
                                @match (&program.version, program.installed) {
                                    (Some(version), _) => (version),
                                    (None, true) => "unknown",
                                    (None, false) => span class="reason" { "missing" },
                                }
                            }
                            td { (program.package) }
                        }
                    }
                }
            }
        }
        @if !environment.commands.is_empty() {
            p { "Command lines:" }
            ul { @for command in &environment.commands { li { code { (command) } } } }
        }
    }
}

/// How long each suite took.
fn suites(environment: &Environment) -> Markup {
    html! {
        @if !environment.suites.is_empty() {
            h3 { "Suites" }
            dl {
                @for took in &environment.suites {
                    dt { (took.suite) } dd { (format!("{:.0} s", took.elapsed_s)) }
                }
            }
        }
        @for pinned in &environment.pinned {
            p { (pinned.suite) " measures on CPU " (pinned.on.cpu) ", " (why(pinned.on)) "." }
        }
    }
}

/// Why a CPU was taken.
fn why(on: Quiet) -> String {
    let pace = match on.step_ns {
        Some(ns) => format!("one of the fastest ({ns:.2} ns per step of the control)"),
        None => "one of those whose pace is not known".to_owned(),
    };
    match on.interrupts {
        Some(count) => {
            format!("{pace}, and of these the one with the fewest device interrupts: {count}")
        }
        None => format!("{pace}, and of these the last"),
    }
}

/// How steady the machine was.
fn control(controls: &[ControlReadings]) -> Markup {
    html! {
        @if !controls.is_empty() {
            h3 { "Control" }
            p {
                "Time of a step of work that never changes, on the slowest CPU, while each suite \
                 ran: the mean of each round. Where it scatters, so do the figures, and "
                code { "wirelane bench compare" } " reports only changes that exceed it."
            }
            div class="scroll" {
                table {
                    thead { tr { th { "suite" } th { "rounds, ns per step" } } }
                    tbody {
                        @for control in controls {
                            tr {
                                td { (control.suite) }
                                td {
                                    @for value in &control.values { (number(*value)) " " }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The CPU vulnerabilities that affect this machine, with the kernel's mitigations.
fn mitigations(mitigations: Option<&BTreeMap<String, String>>) -> Markup {
    html! {
        h3 { "Mitigations" }
        @match mitigations {
            None => p { "unknown" },
            Some(all) => {
                @let is_affected = |(_, state): &(&String, &String)| *state != "Not affected";
                @let affecting: Vec<_> = all.iter().filter(is_affected).collect();
                @if affecting.is_empty() { p { "The kernel reports no flaw of this CPU." } }
                dl { @for (name, state) in affecting { dt { (name) } dd { (state) } } }
            }
        }
    }
}
