//! Columns for people and programs: times without zone get UTC, like all times of flows.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use datafusion::arrow::compute::cast;

/// The same columns, with time zones.
pub(crate) fn schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Timestamp(unit, None) => {
            let kind = DataType::Timestamp(*unit, Some("UTC".into()));
            Arc::new(Field::new(field.name(), kind, field.is_nullable()))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The rows, cast to that schema.
pub(crate) fn batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let pairs = batch.columns().iter().zip(schema.fields());
    let columns = pairs.map(|(column, field)| cast(column, field.data_type()));
    RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_, _>>()?)
}
