//! Converts values between the library and Python.

use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use serde_json::Value;
use wirelane::QueueSet;
use wirelane::mask::MAX_QUEUES;

use crate::error::OrRaise as _;

/// A set of queues: `"all"`, `"none"`, a list as text (`"0,2-3"`), or numbers.
pub(crate) struct Queues(pub(crate) QueueSet);

impl<'py> FromPyObject<'_, 'py> for Queues {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = value.cast::<PyString>() {
            return text.to_str()?.parse().or_raise().map(Self);
        }
        let mut set = QueueSet::NONE;
        for number in value.try_iter()? {
            let number: usize = number?.extract()?;
            if !set.insert(number) {
                let text = format!("queue {number}: the highest number is {}", MAX_QUEUES - 1);
                return Err(pyo3::exceptions::PyValueError::new_err(text));
            }
        }
        Ok(Self(set))
    }
}

impl<'py> IntoPyObject<'py> for Queues {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.0 {
            QueueSet::All => "all".into_bound_py_any(py),
            set => set.members(MAX_QUEUES).collect::<Vec<_>>().into_bound_py_any(py),
        }
    }
}

/// JSON as Python dictionaries and lists.
pub(crate) fn python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(flag) => flag.into_bound_py_any(py),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.into_bound_py_any(py),
            (None, Some(number)) => number.into_bound_py_any(py),
            (None, None) => number.as_f64().into_bound_py_any(py),
        },
        Value::String(text) => text.into_bound_py_any(py),
        Value::Array(values) => {
            let values = values.iter().map(|value| python(py, value));
            PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_bound_py_any(py)
        }
        Value::Object(entries) => {
            let dictionary = PyDict::new(py);
            for (key, value) in entries {
                dictionary.set_item(key, python(py, value)?)?;
            }
            dictionary.into_bound_py_any(py)
        }
    }
}
