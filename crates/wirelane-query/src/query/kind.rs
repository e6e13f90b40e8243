//! The kinds of rows in Parquet files: flows or packets, as `wirelane flows -w` writes them.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use wirelane_flow::arrow::{Flows, Packets};

/// A kind of rows, and of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    Flows,
    Packets,
}

impl TableKind {
    /// The name of its SQL table, and the prefix of its file names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::Packets => "packets",
        }
    }

    /// The columns of its table. A file may lack some.
    pub(crate) fn schema(self) -> SchemaRef {
        match self {
            Self::Flows => Flows::new().schema(),
            Self::Packets => {
                let schema = Packets::schema_with_data();
                let fields = schema.fields().iter();
                let fields = fields.map(|it| Field::clone(it).with_nullable(true));
                Arc::new(Schema::new(fields.collect::<Vec<_>>()))
            }
        }
    }

    /// The kind that a file name indicates.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let is_of = |kind: &Self| name.starts_with(&format!("{}-", kind.name()));
        [Self::Flows, Self::Packets].into_iter().find(is_of)
    }

    /// The kind that the columns of a file or a table indicate: packets have one time, flows have
    /// two.
    pub(crate) fn of_columns(schema: &Schema) -> Self {
        let is_time = |name| {
            let field = schema.field_with_name(name);
            field.is_ok_and(|it| matches!(it.data_type(), DataType::Timestamp(..)))
        };
        if is_time("time") && !is_time("flow_start") { Self::Packets } else { Self::Flows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart() {
        for kind in [TableKind::Flows, TableKind::Packets] {
            assert_eq!(TableKind::of_columns(&kind.schema()), kind);
            assert_eq!(
                TableKind::of_name(&format!("{}-024144-1-0.parquet", kind.name())),
                Some(kind)
            );
        }
        assert_eq!(TableKind::of_name("part-0.parquet"), None);
        assert_eq!(TableKind::of_columns(&Schema::empty()), TableKind::Flows);
    }
}
