//! `bpf('…')`: a condition in the words of tcpdump. The scan keeps it, and nothing else can.

use arrow_schema::DataType;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use wirelane::Error;

const NAME: &str = "bpf";

/// A function of this name, if it is ours.
#[cfg(feature = "cluster")]
pub(crate) fn named(name: &str) -> Option<ScalarUDF> {
    (name == NAME).then(function)
}

/// The function, for the engine.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Bpf {
        signature: Signature::exact(vec![DataType::Utf8], Volatility::Stable),
    })
}

/// The expression of a condition that is `bpf('…')`, or not.
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

    /// Where it reaches this, no scan kept it.
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let cause = "it is a condition on packets of capture files and stores, kept while they are \
                     read: write it in WHERE, alone or beside AND";
        let error = Error::usage("bpf('…')", cause)
            .help("join expressions in its text, by and, or and not");
        Err(DataFusionError::External(Box::new(error)))
    }
}
