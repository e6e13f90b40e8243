//! `bpf('…')`: a condition in the syntax of pcap-filter(7). Only the scan can evaluate it.

use arrow_schema::DataType;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use wirelane::Error;

const NAME: &str = "bpf";

/// The function, if this is its name.
#[cfg(feature = "cluster")]
pub(crate) fn named(name: &str) -> Option<ScalarUDF> {
    (name == NAME).then(function)
}

/// The function, as DataFusion needs it.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Bpf {
        signature: Signature::exact(vec![DataType::Utf8], Volatility::Stable),
    })
}

/// The filter expression of `bpf('…')` or `NOT bpf('…')`.
pub(super) fn expression(condition: &Expr) -> Option<String> {
    match condition {
        Expr::Not(inner) => expression(inner).map(|text| format!("not ({text})")),
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == NAME => {
            match &args[..] {
                [Expr::Literal(value, _)] => value.try_as_str().flatten().map(str::to_owned),
                _ => None,
            }
        }
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bpf {
    signature: Signature,
}

impl ScalarUDFImpl for Bpf {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(DataType::Boolean)
    }

    /// Called only if no scan evaluated the condition.
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let cause = "it is a condition on packets of capture files and stores, kept while they are \
                     read: write it in WHERE, alone or beside AND";
        let error = Error::usage("bpf('…')", cause)
            .help("join expressions in its text, by and, or and not");
        Err(DataFusionError::External(Box::new(error)))
    }
}
