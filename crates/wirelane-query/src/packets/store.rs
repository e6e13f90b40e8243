//! Directories of `wirelane record`: the index selects the extents to read.

use std::ops::ControlFlow;

use wirelane::halt::Halt;
use wirelane::{Error, Result};
use wirelane_store::{Damage, Directory, Query, Report, query};

use super::ask::Ask;
use super::asked::PacketSelection;
use super::leftovers::Leftovers;
use super::rows::RowBatch;
use super::sieve::{self, LinkFilters};

/// Makes rows of the selected packets, in order of time.
///
/// # Errors
/// A store cannot be read.
pub(super) fn search(
    stores: &[Directory],
    asked: &PacketSelection,
    rows: &mut RowBatch,
    only_counts: bool,
    memory: usize,
    halt: &Halt,
    leftovers: &Leftovers,
) -> Result<Report> {
    // The first filter and the keys limit the extents to read. The sieve applies the other filters.
    let (filter, rest) = match asked.filters.split_first() {
        Some((first, rest)) => (Some(sieve::parsed(first)?), rest),
        None => (None, &[][..]),
    };
    let keys = asked.ask.as_ref().map(Ask::keys);
    let query = Query::all().from(asked.from).to(asked.to).filter(filter).keys(keys);
    let query = query.memory(memory).cancel(halt);
    let report = if only_counts && rest.is_empty() && asked.ask.is_none() {
        let report = query::count(stores, &query)?;
        rows.count(report.packets)?;
        report
    } else {
        let expression = asked.ask.as_ref().and_then(Ask::expression);
        let mut sieve = LinkFilters::new(rest, expression.as_deref())?;
        let mut failure = None;
        let found = query::run(stores, &query, |found| {
            let source = found.sources.get(found.record.interface as usize);
            if !source.is_some_and(|source| sieve.accepts(&found.record, source)) {
                return ControlFlow::Continue(());
            }
            rows.push(&found.record, found.sources).unwrap_or_else(|error| {
                failure = Some(error);
                ControlFlow::Break(())
            })
        });
        if let Some(error) = failure {
            return Err(error);
        }
        leftovers.unfiltered(sieve.into_unfiltered());
        found?
    };
    leftovers.unfiltered(report.unfiltered.iter().cloned());
    report.damage.iter().for_each(|damage| leftovers.unread(damaged(damage)));
    rows.flush().map(|_| report)
}

/// Opens a directory.
///
/// # Errors
/// It is no store, or cannot be read.
pub(super) fn open(path: &std::path::Path) -> Result<Directory> {
    Directory::open(path).map_err(Error::from)
}

fn damaged(damage: &Damage) -> Error {
    let object = format!("{} at byte {}", damage.path.display(), damage.offset);
    Error::failed(object, damage.what.clone())
}
