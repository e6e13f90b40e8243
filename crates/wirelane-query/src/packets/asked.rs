//! Converts the conditions of a query to time bounds, filters and keys of a scan.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use serde::{Deserialize, Serialize};

use super::ask::{AddressSide, Ask};
use super::bpf;

/// The packets that a scan selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PacketSelection {
    /// Excludes packets before this time, in ns since 1970.
    pub(super) from: Option<u64>,
    /// Excludes packets at this time and later.
    pub(super) to: Option<u64>,
    /// Only packets that all of these expressions accept.
    pub(super) filters: Vec<String>,
    /// A superset of the wanted packets: the engine filters rows again.
    pub(super) ask: Option<Ask>,
}

impl PacketSelection {
    /// Converts conditions that are joined by AND.
    pub(super) fn of(conditions: &[Expr]) -> Self {
        let mut asked = Self::default();
        let mut asks = Vec::new();
        for condition in conditions {
            if let Some(filter) = bpf::expression(condition) {
                asked.filters.push(filter);
            } else if let Some((operator, time)) = time(condition) {
                asked.bound(operator, time);
            } else {
                asks.extend(ask(condition));
            }
        }
        asked.ask = match asks.len() {
            0 | 1 => asks.pop(),
            _ => Some(Ask::All(asks)),
        };
        asked
    }

    /// Whether the scan checks this condition exactly, so that the engine need not.
    pub(super) fn keeps(condition: &Expr) -> bool {
        bpf::expression(condition).is_some() || time(condition).is_some()
    }

    #[inline]
    pub(super) fn includes(&self, time: u64) -> bool {
        self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time < to)
    }

    fn bound(&mut self, operator: Operator, time: i64) {
        // Packet times are unsigned. A bound before 1970 becomes 0; above `i64::MAX`, a lower bound
        // becomes `u64::MAX` and an upper bound none.
        let since = |time: i64| Some(u64::try_from(time).unwrap_or(0));
        let until = |time: Option<i64>| time.map(|time| u64::try_from(time).unwrap_or(0));
        let after = time.checked_add(1);
        let (from, to) = match operator {
            Operator::Gt => {
                (Some(after.map_or(u64::MAX, |it| u64::try_from(it).unwrap_or(0))), None)
            }
            Operator::GtEq => (since(time), None),
            Operator::Lt => (None, until(Some(time))),
            Operator::LtEq => (None, until(after)),
            _ => (since(time), until(after)),
        };
        self.from = self.from.max(from);
        self.to = match (self.to, to) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// A bound on the column `time`.
fn time(condition: &Expr) -> Option<(Operator, i64)> {
    let (name, operator, value) = comparison(condition)?;
    let ScalarValue::TimestampNanosecond(Some(time), _) = value else { return None };
    let is_bound = matches!(
        operator,
        Operator::Gt | Operator::GtEq | Operator::Lt | Operator::LtEq | Operator::Eq
    );
    (name == "time" && is_bound).then_some((operator, *time))
}

/// The part of a condition that an index or a filter can check.
fn ask(condition: &Expr) -> Option<Ask> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            match (ask(left), ask(right)) {
                (Some(left), Some(right)) => Some(Ask::All(vec![left, right])),
                (one, other) => one.or(other),
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            Some(Ask::Any(vec![ask(left)?, ask(right)?]))
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            let Expr::Column(column) = expr.as_ref() else { return None };
            let one = |value: &Expr| match value {
                Expr::Literal(value, _) => equal(&column.name, value),
                _ => None,
            };
            list.iter().map(one).collect::<Option<Vec<_>>>().map(Ask::Any)
        }
        _ => match comparison(condition)? {
            (name, Operator::Eq, value) => equal(name, value),
            _ => None,
        },
    }
}

/// The condition that the column has this value.
fn equal(name: &str, value: &ScalarValue) -> Option<Ask> {
    let address = |side| {
        let text = value.try_as_str().flatten()?;
        text.parse().ok().map(|address| Ask::Address(side, address))
    };
    match name {
        "source" => address(AddressSide::Source),
        "destination" => address(AddressSide::Destination),
        "source_port" => number(value).map(|port| Ask::Port(AddressSide::Source, port)),
        "destination_port" => number(value).map(|port| Ask::Port(AddressSide::Destination, port)),
        "protocol" => number(value).and_then(|it| u8::try_from(it).ok()).map(Ask::Protocol),
        "vlan" => number(value).map(Ask::Vlan),
        _ => None,
    }
}

fn number(value: &ScalarValue) -> Option<u16> {
    match value {
        ScalarValue::UInt8(Some(value)) => Some((*value).into()),
        ScalarValue::UInt16(Some(value)) => Some(*value),
        _ => None,
    }
}

/// A comparison of a column and a literal.
fn comparison(condition: &Expr) -> Option<(&str, Operator, &ScalarValue)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(value, _)) => Some((&column.name, *op, value)),
        (Expr::Literal(value, _), Expr::Column(column)) => Some((&column.name, op.swap()?, value)),
        _ => None,
    }
}
