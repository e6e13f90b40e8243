//! Derives conditions on directories from conditions on `flow_start` or on the time of packets: the
//! directory of a file names the hour of its rows.
//!
//! This is the last rule of the optimizer.

use arrow_schema::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, ident, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::listing::PARTITIONS;

/// The starts of flows, and the times of packets.
const STARTS: [&str; 2] = ["flow_start", "time"];
const HOUR: i64 = 3_600_000_000_000;

/// Adds the implied conditions on `date` and `hour` to a scan. Must be the last rule, when
/// conditions are pushed down to the scan.
#[derive(Debug)]
pub(crate) struct Hours;

impl OptimizerRule for Hours {
    fn name(&self) -> &'static str {
        "hours_of_flows"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>, DataFusionError> {
        let LogicalPlan::TableScan(mut scan) = plan else { return Ok(Transformed::no(plan)) };
        let schema = scan.source.schema();
        let is_there =
            |name, kind| schema.field_with_name(name).is_ok_and(|field| *field.data_type() == kind);
        if !is_there(PARTITIONS[0], DataType::Date32) || !is_there(PARTITIONS[1], DataType::Utf8) {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        }
        let implied: Vec<_> = scan.filters.iter().flat_map(implied).collect();
        let new: Vec<_> = implied.into_iter().filter(|it| !scan.filters.contains(it)).collect();
        if new.is_empty() {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        }
        scan.filters.extend(new);
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    }
}

/// The conditions on directories that a condition implies.
fn implied(condition: &Expr) -> Vec<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return Vec::new() };
    if *op == Operator::And {
        return [left, right].into_iter().flat_map(|part| implied(part)).collect();
    }
    let (operator, time) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(value, _)) if is_start(column) => (Some(*op), value),
        (Expr::Literal(value, _), Expr::Column(column)) if is_start(column) => (op.swap(), value),
        _ => return Vec::new(),
    };
    let ScalarValue::TimestampNanosecond(Some(time), _) = time else { return Vec::new() };
    let hour = time.div_euclid(HOUR);
    match operator {
        Some(Operator::Gt | Operator::GtEq) => vec![from(hour)],
        Some(Operator::Lt) => vec![to((time - 1).div_euclid(HOUR))],
        Some(Operator::LtEq) => vec![to(hour)],
        Some(Operator::Eq) => vec![from(hour), to(hour)],
        _ => Vec::new(),
    }
}

fn is_start(column: &Column) -> bool {
    STARTS.contains(&column.name.as_str())
}

/// In this hour or later.
fn from(hour: i64) -> Expr {
    let (date, of_day) = directory(hour);
    ident(PARTITIONS[0])
        .gt(date.clone())
        .or(ident(PARTITIONS[0]).eq(date).and(ident(PARTITIONS[1]).gt_eq(of_day)))
}

/// In this hour or before.
fn to(hour: i64) -> Expr {
    let (date, of_day) = directory(hour);
    ident(PARTITIONS[0])
        .lt(date.clone())
        .or(ident(PARTITIONS[0]).eq(date).and(ident(PARTITIONS[1]).lt_eq(of_day)))
}

/// The `date` and `hour` of an hour's directory.
fn directory(hour: i64) -> (Expr, Expr) {
    let date = i32::try_from(hour.div_euclid(24)).ok();
    let of_day = format!("{:02}", hour.rem_euclid(24));
    (lit(ScalarValue::Date32(date)), lit(of_day))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(hour: i64, more: i64) -> Expr {
        lit(ScalarValue::TimestampNanosecond(Some(hour * HOUR + more), Some("UTC".into())))
    }

    #[test]
    fn bounds_of_starts_are_bounds_of_hours() {
        let start = || ident(STARTS[0]);
        assert_eq!(implied(&start().gt_eq(time(50, 7))), [from(50)]);
        assert_eq!(implied(&start().lt(time(50, 0))), [to(49)]);
        assert_eq!(implied(&start().lt(time(50, 1))), [to(50)]);
        assert_eq!(implied(&start().eq(time(50, 1))), [from(50), to(50)]);
        assert_eq!(implied(&time(50, 0).gt_eq(start())), [to(50)]);
        let both = start().gt(time(1, 0)).and(start().lt_eq(time(2, 0)));
        assert_eq!(implied(&both), [from(1), to(2)]);
        assert_eq!(implied(&ident("flow_end").lt(time(50, 0))), []);
        assert_eq!(implied(&start().gt(time(1, 0)).or(start().lt(time(0, 0)))), []);
        assert_eq!(
            from(50).to_string(),
            "date > Date32(\"1970-01-03\") OR date = Date32(\"1970-01-03\") AND hour >= \
             Utf8(\"02\")"
        );
    }
}
