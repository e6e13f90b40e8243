//! Finds the extents of a segment that may hold matching packets, by its index.

use std::convert::Infallible;

use super::engine::LinkFilter;
use super::opened::OpenedSegment;
use super::request::Damage;
use super::sift::QueryConditions;
use crate::error::Result;
use crate::extent::Extent;
use crate::extent_set::ExtentSet;
use crate::index::{Index, Layout, TAGS};
use crate::key::{Field, Term};
use crate::narrow::Plan;

/// The extents that may hold packets that meet the conditions, by the index and by their times, and
/// the damage of the index. Where the index is damaged, every extent may.
pub(super) fn candidates(
    opened: &OpenedSegment,
    conditions: &QueryConditions,
) -> (Vec<Extent>, Vec<Damage>) {
    let (found, damage) = by_index(opened, conditions);
    let extents = found.iter().filter_map(|at| opened.segment.extents().get(at));
    let may_hold = |extent: &&Extent| {
        let header = &extent.header;
        header.packets > 0 && conditions.may_include(header.oldest, header.newest)
    };
    (extents.filter(may_hold).copied().collect(), damage)
}

fn by_index(opened: &OpenedSegment, conditions: &QueryConditions) -> (ExtentSet, Vec<Damage>) {
    let segment = &opened.segment;
    let universe = segment.extents().len();
    let Some(index) = segment.index() else { return (ExtentSet::all(universe), Vec::new()) };
    let mut lookup = Lookup { opened, index, damage: Vec::new() };
    let mut found = ExtentSet::none(universe);
    let mut seen = Vec::new();
    for interface in &opened.interfaces {
        // The index does not distinguish link types.
        if !seen.contains(&interface.link_type) {
            seen.push(interface.link_type);
            let mut of_type = lookup.of_verdict(&interface.verdict);
            if let (Some(keys), Some(layout)) = (&conditions.keys, Layout::of(interface.link_type))
            {
                let mut held = lookup.of_plan(keys);
                if !layout.tags && layout.ether_type.is_some() {
                    // Bytes after a tag have no keys there.
                    TAGS.iter().for_each(|tag| held.unite(&lookup.of_term(&tagged(*tag))));
                }
                of_type.intersect(&held);
            }
            found.unite(&of_type);
        }
    }
    // Extents outside the times matter only for conversations.
    for (at, extent) in segment.extents().iter().enumerate() {
        let header = &extent.header;
        if found.contains(at) && !conditions.is_in_time(header.oldest, header.newest) {
            found.remove(at);
        }
    }
    if let Some(flows) = &conditions.flows {
        found.unite(&lookup.of_values(Field::Flow, flows.keys()));
    }
    (found, lookup.damage)
}

fn tagged(ether_type: u16) -> Term {
    Term::equal(Field::EtherType, ether_type)
}

struct Lookup<'a> {
    opened: &'a OpenedSegment,
    index: &'a Index,
    damage: Vec<Damage>,
}

impl Lookup<'_> {
    fn of_verdict(&mut self, verdict: &LinkFilter) -> ExtentSet {
        let universe = self.index.extents().len();
        match verdict {
            LinkFilter::All => ExtentSet::all(universe),
            LinkFilter::Nothing => ExtentSet::none(universe),
            LinkFilter::Some(_, plan) => self.of_plan(plan),
        }
    }

    fn of_plan(&mut self, plan: &Plan) -> ExtentSet {
        let universe = self.index.extents().len();
        let lookup = |term: &Term| Ok::<_, Infallible>(self.of_term(term));
        plan.candidates(universe, lookup).unwrap_or_else(|never| match never {})
    }

    fn of_term(&mut self, term: &Term) -> ExtentSet {
        self.or_all(self.index.lookup(term))
    }

    fn of_values(&mut self, field: Field, values: &[u128]) -> ExtentSet {
        self.or_all(self.index.lookup_any(field, values))
    }

    fn or_all(&mut self, found: Result<ExtentSet>) -> ExtentSet {
        found.unwrap_or_else(|error| {
            let path = self.opened.segment.path().with_added_extension("index");
            let damage = Damage { path, offset: 0, what: error.cause().to_owned().into() };
            if !self.damage.contains(&damage) {
                self.damage.push(damage);
            }
            ExtentSet::all(self.index.extents().len())
        })
    }
}
