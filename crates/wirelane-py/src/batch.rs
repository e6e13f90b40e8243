//! A batch of rows, which other libraries read through Arrow's PyCapsule interface.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array as _, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, Schema};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString};

/// Rows as Arrow columns. pyarrow, polars, pandas and DuckDB use them without a copy.
#[pyclass(frozen, module = "wirelane")]
pub(crate) struct Batch(RecordBatch);

impl Batch {
    pub(crate) fn new(rows: RecordBatch) -> Self {
        Self(rows)
    }
}

type Capsule<'py> = Bound<'py, PyCapsule>;

#[pymethods]
impl Batch {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Capsule<'py>> {
        schema(py, self.0.schema_ref())
    }

    /// Always returns the batch's own schema, which the protocol permits: the consumer converts it.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Capsule<'py>, Capsule<'py>)> {
        let _ = requested_schema;
        let array = FFI_ArrowArray::new(&StructArray::from(self.0.clone()).to_data());
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        Ok((schema(py, self.0.schema_ref())?, array))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Capsule<'py>> {
        let _ = requested_schema;
        let (rows, schema) = (self.0.clone(), self.0.schema());
        stream(py, RecordBatchIterator::new([Ok(rows)], schema))
    }

    fn __repr__<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        let (rows, columns) = (self.0.num_rows(), self.0.num_columns());
        PyString::new(py, &format!("<wirelane.Batch {rows} rows, {columns} columns>"))
    }
}

/// The capsule of a schema.
pub(crate) fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Capsule<'py>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| failed(&error))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// The capsule of a stream.
pub(crate) fn stream<'py>(
    py: Python<'py>,
    reader: impl RecordBatchReader + Send + 'static,
) -> PyResult<Capsule<'py>> {
    let stream = FFI_ArrowArrayStream::new(Box::new(reader));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

/// A type that Arrow's C interface cannot express: a defect.
fn failed(error: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
