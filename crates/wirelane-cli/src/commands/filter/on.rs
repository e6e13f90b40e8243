//! A filter in every engine over the packets of a capture file.

use std::ops::ControlFlow;
use std::path::Path;

use serde::Serialize;
use wirelane::Result;
use wirelane::internal::filter::Comparison;
use wirelane::pcap::CaptureReader;
use wirelane_filter::Program;

use crate::output::plural;

/// The results of all engines for the packets of a file.
#[derive(Serialize)]
pub(super) struct On<'a> {
    file: &'a Path,
    pub(super) agree: bool,
    /// Packets of the program's link type.
    packets: u64,
    /// Packets of other link types, which the program is not for.
    other_link_types: u64,
    /// The interpreter is the first.
    engines: Vec<EngineResult>,
    /// Packets on which the engines do not agree.
    disagreements: u64,
    /// The first of them, counted from 1 over the whole file.
    first_disagreements: Vec<u64>,
}

/// The result of one engine.
#[derive(Serialize)]
struct EngineResult {
    engine: &'static str,
    packets: u64,
    matching: u64,
    /// Why the engine did not run.
    missing: Option<String>,
}

/// Packets that are named when engines disagree.
const NAMED: usize = 10;

impl<'a> On<'a> {
    /// Runs `program` in every engine over the packets of `file`.
    pub(super) fn new(program: &Program, file: &'a Path) -> Result<Self> {
        let mut reader = CaptureReader::open(file)?;
        let mut comparison = Comparison::new(program)?;
        let (mut number, mut other_link_types, mut disagreements) = (0_u64, 0, 0);
        let mut first_disagreements = Vec::new();
        let mut failed = Ok(());
        reader.visit(&mut |record, sources| {
            number += 1;
            let interface = sources.get(record.interface as usize);
            if interface.map(|interface| interface.link_type) != Some(program.link_type()) {
                other_link_types += 1;
                return ControlFlow::Continue(());
            }
            match comparison.run(record.data, record.original_len) {
                Ok(true) => {}
                Ok(false) => {
                    disagreements += 1;
                    if first_disagreements.len() < NAMED {
                        first_disagreements.push(number);
                    }
                }
                Err(error) => {
                    failed = Err(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        failed?;
        let engines = comparison.counts().map(|count| EngineResult {
            engine: count.engine,
            packets: count.packets,
            matching: count.matching,
            missing: count.missing.clone(),
        });
        Ok(Self {
            file,
            agree: disagreements == 0,
            packets: number - other_link_types,
            other_link_types,
            engines: engines.into(),
            disagreements,
            first_disagreements,
        })
    }

    /// For people.
    pub(super) fn page(&self) -> String {
        let mut page = String::new();
        for count in &self.engines {
            let engine = count.engine;
            page += &match &count.missing {
                Some(missing) => format!("{engine:12} not run: {missing}\n"),
                None => {
                    let of = plural(count.packets, "packet");
                    format!("{engine:12} {} of {of} match\n", count.matching)
                }
            };
        }
        if self.other_link_types > 0 {
            let others = plural(self.other_link_types, "packet");
            page += &format!("skipped: {others} of other link types\n");
        }
        if self.disagreements > 0 {
            let first: Vec<_> = self.first_disagreements.iter().map(u64::to_string).collect();
            page += &format!(
                "the engines disagree on {}: {}{}\n",
                plural(self.disagreements, "packet"),
                first.join(", "),
                if self.disagreements > first.len() as u64 { ", …" } else { "" }
            );
        }
        page
    }
}
