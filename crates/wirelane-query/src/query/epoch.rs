//! `extract(epoch FROM …)` of the time between two times.
//!
//! DataFusion loses the fraction of durations above 2.1 s: it asks Arrow for all nanoseconds as 32
//! bits, and replaces a number that does not fit by 0 (`seconds` in `datetime/date_part.rs` of
//! datafusion-functions 55). Remove this file when DataFusion computes 5.5 for a duration of 5.5 s.

use std::str::FromStr as _;

use arrow_schema::{DataType, TimeUnit};
use datafusion::arrow::compute::kernels::cast_utils::IntervalUnit;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, ExprSchemable as _, cast, lit};

/// Computes seconds and parts of seconds from the integer of a duration.
#[derive(Debug)]
pub(crate) struct Epoch;

impl FunctionRewrite for Epoch {
    fn name(&self) -> &'static str {
        "parts_of_durations"
    }

    fn rewrite(
        &self,
        expression: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>, DataFusionError> {
        Ok(match exact(&expression, schema) {
            Some(exact) => Transformed::yes(exact),
            None => Transformed::no(expression),
        })
    }
}

fn exact(expression: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expression else { return None };
    let [Expr::Literal(part, _), value] = &args[..] else { return None };
    if func.name() != "date_part" {
        return None;
    }
    let DataType::Duration(unit) = value.get_type(schema).ok()? else { return None };
    let part = part.try_as_str()??.trim_matches(['\'', '"']);
    let count = cast(value.clone(), DataType::Int64);
    let per_second = per_second(unit);
    if part.eq_ignore_ascii_case("epoch") {
        return Some(cast(count, DataType::Float64) / lit(per_second as f64));
    }
    let wanted = match IntervalUnit::from_str(part).ok()? {
        IntervalUnit::Second => 1,
        IntervalUnit::Millisecond => 1_000,
        IntervalUnit::Microsecond => 1_000_000,
        IntervalUnit::Nanosecond => 1_000_000_000,
        _ => return None,
    };
    Some(match wanted >= per_second {
        true => count * lit(wanted / per_second),
        false => count / lit(per_second / wanted),
    })
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
