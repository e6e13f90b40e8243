//! Conditions on extents: terms, joined by "and" and "or".

use std::collections::HashMap;

use crate::extent_set::ExtentSet;
use crate::key::Term;

/// A condition among [`Conditions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ExtentCondition(u32);

impl ExtentCondition {
    /// No extent satisfies it.
    pub(super) const NONE: Self = Self(0);
    /// Every extent satisfies it.
    pub(super) const ALL: Self = Self(1);

    /// Its form, in a list of [`Conditions::extract`].
    pub(super) fn of(self, forms: &[ConditionForm]) -> ConditionForm {
        forms.get(self.place()).copied().unwrap_or(ConditionForm::All)
    }

    fn place(self) -> usize {
        self.0 as usize
    }
}

/// The form of a condition. Its parts were made before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ConditionForm {
    None,
    All,
    /// The extent has a key in the range.
    Term(Term),
    Both(ExtentCondition, ExtentCondition),
    Either(ExtentCondition, ExtentCondition),
}

/// Conditions with shared parts: equal conditions exist once.
#[derive(Debug)]
pub(super) struct Conditions {
    forms: Vec<ConditionForm>,
    known: HashMap<ConditionForm, ExtentCondition>,
}

/// The most steps to find out whether one condition implies another.
const STEPS: u32 = 32;

impl Conditions {
    pub(super) fn new() -> Self {
        let mut new = Self { forms: Vec::new(), known: HashMap::new() };
        new.add(ConditionForm::None);
        new.add(ConditionForm::All);
        new
    }

    pub(super) fn term(&mut self, term: Term) -> ExtentCondition {
        self.add(ConditionForm::Term(term))
    }

    pub(super) fn both(&mut self, one: ExtentCondition, two: ExtentCondition) -> ExtentCondition {
        if self.implies(one, two, &mut STEPS.clone()) {
            return one;
        }
        if self.implies(two, one, &mut STEPS.clone()) {
            return two;
        }
        self.add(ConditionForm::Both(one, two))
    }

    pub(super) fn either(&mut self, one: ExtentCondition, two: ExtentCondition) -> ExtentCondition {
        if self.implies(one, two, &mut STEPS.clone()) {
            return two;
        }
        if self.implies(two, one, &mut STEPS.clone()) {
            return one;
        }
        let forms = (self.form(one), self.form(two));
        if let (ConditionForm::Both(a, rest), ConditionForm::Both(b, same)) = forms
            && rest == same
        {
            let start = self.either(a, b);
            return self.both(start, rest);
        }
        // Factor out the common part: a (b ∨ c) ∨ c is a b ∨ c, and b may be narrower than a.
        if let ConditionForm::Both(a, rest) = forms.0
            && let Some(b) = self.beside(rest, two)
        {
            let narrow = self.both(a, b);
            return self.alternatives(narrow, two);
        }
        if let ConditionForm::Both(a, rest) = forms.1
            && let Some(b) = self.beside(rest, one)
        {
            let narrow = self.both(a, b);
            return self.alternatives(one, narrow);
        }
        self.add(ConditionForm::Either(one, two))
    }

    /// Like [`Conditions::either`], without simplification.
    fn alternatives(&mut self, one: ExtentCondition, two: ExtentCondition) -> ExtentCondition {
        match (one, two) {
            (ExtentCondition::NONE, other) | (other, ExtentCondition::NONE) => other,
            (one, two) if one == two => one,
            (one, two) => self.add(ConditionForm::Either(one, two)),
        }
    }

    /// `condition` without the alternatives that imply `other`; `None` if there are none.
    fn beside(
        &mut self,
        condition: ExtentCondition,
        other: ExtentCondition,
    ) -> Option<ExtentCondition> {
        let rest = self.without(condition, other, &mut STEPS.clone());
        (rest != condition).then_some(rest)
    }

    fn without(
        &mut self,
        condition: ExtentCondition,
        other: ExtentCondition,
        steps: &mut u32,
    ) -> ExtentCondition {
        let (ConditionForm::Either(a, b), Some(left)) =
            (self.form(condition), steps.checked_sub(1))
        else {
            let implied = self.implies(condition, other, steps);
            return if implied { ExtentCondition::NONE } else { condition };
        };
        *steps = left;
        let (first, second) = (self.without(a, other, steps), self.without(b, other, steps));
        if (first, second) == (a, b) { condition } else { self.alternatives(first, second) }
    }

    /// `condition` and all its parts. The condition itself is last.
    pub(super) fn extract(&self, condition: ExtentCondition) -> Vec<ConditionForm> {
        let mut used = vec![false; condition.place() + 1];
        used[condition.place()] = true;
        for place in (0..used.len()).rev().filter(|place| *place > 1) {
            if let (true, ConditionForm::Both(a, b) | ConditionForm::Either(a, b)) =
                (used[place], self.forms[place])
            {
                used[a.place()] = true;
                used[b.place()] = true;
            }
        }
        let mut places = vec![0; used.len()];
        let mut forms = Vec::new();
        for place in (0..used.len()).filter(|place| used[*place]) {
            let moved = |condition: ExtentCondition| ExtentCondition(places[condition.place()]);
            let form = match self.forms[place] {
                ConditionForm::Both(a, b) => ConditionForm::Both(moved(a), moved(b)),
                ConditionForm::Either(a, b) => ConditionForm::Either(moved(a), moved(b)),
                other => other,
            };
            places[place] = forms.len() as u32;
            forms.push(form);
        }
        forms
    }

    fn form(&self, condition: ExtentCondition) -> ConditionForm {
        self.forms[condition.place()]
    }

    fn add(&mut self, form: ConditionForm) -> ExtentCondition {
        let next = ExtentCondition(self.forms.len() as u32);
        let condition = *self.known.entry(form).or_insert(next);
        if condition == next {
            self.forms.push(form);
        }
        condition
    }

    /// Whether every extent that satisfies `one` satisfies `two`; `false` also if deciding takes
    /// too many steps.
    fn implies(&self, one: ExtentCondition, two: ExtentCondition, steps: &mut u32) -> bool {
        if one == two || one == ExtentCondition::NONE || two == ExtentCondition::ALL {
            return true;
        }
        let Some(left) = steps.checked_sub(1) else { return false };
        *steps = left;
        match (self.form(one), self.form(two)) {
            (ConditionForm::All, _) | (_, ConditionForm::None) => false,
            (ConditionForm::Term(one), ConditionForm::Term(two)) => {
                one.field == two.field && two.first <= one.first && one.last <= two.last
            }
            (ConditionForm::Either(a, b), _) => {
                self.implies(a, two, steps) && self.implies(b, two, steps)
            }
            (_, ConditionForm::Both(a, b)) => {
                self.implies(one, a, steps) && self.implies(one, b, steps)
            }
            (_, ConditionForm::Either(a, b))
                if self.implies(one, a, steps) || self.implies(one, b, steps) =>
            {
                true
            }
            (ConditionForm::Both(a, b), _) => {
                self.implies(a, two, steps) || self.implies(b, two, steps)
            }
            _ => false,
        }
    }
}

/// The extents that satisfy the last of `forms`, from [`Conditions::extract`]. Looks up only the
/// terms that matter.
pub(super) fn evaluate<E>(
    forms: &[ConditionForm],
    universe: usize,
    mut lookup: impl FnMut(&Term) -> Result<ExtentSet, E>,
) -> Result<ExtentSet, E> {
    let mut found: Vec<Option<ExtentSet>> = vec![None; forms.len()];
    // Conditions may be nested thousands deep, so this loop does not recurse.
    let mut open: Vec<usize> = forms.len().checked_sub(1).into_iter().collect();
    while let Some(place) = open.last().copied() {
        let set = match forms[place] {
            _ if found[place].is_some() => None,
            ConditionForm::None => Some(ExtentSet::none(universe)),
            ConditionForm::All => Some(ExtentSet::all(universe)),
            ConditionForm::Term(term) => Some(lookup(&term)?),
            // Later tests of a program are narrower, such as the address after the EtherType.
            ConditionForm::Both(a, b) => match (&found[b.place()], &found[a.place()]) {
                (Some(b), _) if b.is_empty() => Some(b.clone()),
                (Some(b), Some(a)) => {
                    let mut both = a.clone();
                    both.intersect(b);
                    Some(both)
                }
                (later, _) => {
                    open.push(if later.is_some() { a.place() } else { b.place() });
                    continue;
                }
            },
            ConditionForm::Either(a, b) => match (&found[a.place()], &found[b.place()]) {
                (Some(a), _) if a.count() == universe => Some(a.clone()),
                (Some(a), Some(b)) => {
                    let mut either = a.clone();
                    either.unite(b);
                    Some(either)
                }
                (first, _) => {
                    open.push(if first.is_some() { b.place() } else { a.place() });
                    continue;
                }
            },
        };
        if set.is_some() {
            found[place] = set;
        }
        open.pop();
    }
    Ok(found.pop().flatten().unwrap_or_else(|| ExtentSet::all(universe)))
}
