//! The text of a plan.

use std::fmt::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::condition::{ConditionForm, ExtentCondition};
use crate::key::{Field, Term};

/// The most terms in the text. Conditions share parts, so the full text may be very long.
const MOST: u32 = 100;

/// Writes the last one of `forms`.
pub(super) fn show(forms: &[ConditionForm], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut left = MOST;
    let Some(last) = forms.last() else { return f.write_str("all") };
    PlanText { forms, f, left: &mut left }.form(*last, Around::Nothing)
}

struct PlanText<'a, 'b, 'c> {
    forms: &'a [ConditionForm],
    f: &'a mut fmt::Formatter<'b>,
    left: &'c mut u32,
}

/// The context of a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    Nothing,
    And,
    Or,
}

impl PlanText<'_, '_, '_> {
    fn form(&mut self, form: ConditionForm, around: Around) -> fmt::Result {
        if *self.left == 0 {
            return self.f.write_char('…');
        }
        match form {
            ConditionForm::None => self.f.write_str("none"),
            ConditionForm::All => self.f.write_str("all"),
            ConditionForm::Term(term) => {
                *self.left -= 1;
                write!(self.f, "{}", ShownTerm(term))
            }
            ConditionForm::Both(a, b) => self.joined(a, b, "and", Around::And, around),
            ConditionForm::Either(a, b) => self.joined(a, b, "or", Around::Or, around),
        }
    }

    fn joined(
        &mut self,
        a: ExtentCondition,
        b: ExtentCondition,
        word: &str,
        this: Around,
        around: Around,
    ) -> fmt::Result {
        let closed = around != Around::Nothing && around != this;
        if closed {
            self.f.write_char('(')?;
        }
        self.form(a.of(self.forms), this)?;
        write!(self.f, " {word} ")?;
        self.form(b.of(self.forms), this)?;
        if closed {
            self.f.write_char(')')?;
        }
        Ok(())
    }
}

struct ShownTerm(Term);

impl fmt::Display for ShownTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Term { field, first, last } = self.0;
        match field {
            Field::Ipv4 => {
                address(f, first, last, 32, |value| Ipv4Addr::from_bits(value as u32).to_string())
            }
            Field::Ipv6 => {
                address(f, first, last, 128, |value| Ipv6Addr::from_bits(value).to_string())
            }
            Field::EtherType => range(f, "type", first, last, |value| format!("{value:#06x}")),
            Field::Vlan => range(f, "vlan", first, last, |value| value.to_string()),
            Field::Protocol => range(f, "protocol", first, last, |value| value.to_string()),
            Field::Port => range(f, "port", first, last, |value| value.to_string()),
            Field::Flow => range(f, "flow", first, last, |value| format!("{value:#x}")),
        }
    }
}

fn range(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    first: u128,
    last: u128,
    show: impl Fn(u128) -> String,
) -> fmt::Result {
    write!(f, "{name} {}", show(first))?;
    if first == last { Ok(()) } else { write!(f, "-{}", show(last)) }
}

/// Writes a range of addresses, as a prefix if it is one.
fn address(
    f: &mut fmt::Formatter<'_>,
    first: u128,
    last: u128,
    bits: u32,
    show: impl Fn(u128) -> String,
) -> fmt::Result {
    let free = first ^ last;
    if first == last {
        write!(f, "address {}", show(first))
    } else if free & free.wrapping_add(1) == 0 && first & free == 0 {
        write!(f, "address {}/{}", show(first), bits - free.count_ones())
    } else {
        range(f, "address", first, last, show)
    }
}
