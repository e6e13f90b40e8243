//! Flows as columns of Arrow: one for each field, in the order and with the names that all outputs
//! have.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use arrow_array::builder::{
    StringBuilder, TimestampNanosecondBuilder, UInt8Builder, UInt16Builder, UInt32Builder,
    UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::{Fields, Flow, write_community_id};

/// What times are in: nanoseconds since 1970.
const ZONE: &str = "UTC";

/// Makes batches of flows, of one schema.
pub struct Flows {
    schema: SchemaRef,
}

impl Flows {
    /// Batches with a column for each field.
    pub fn new() -> Self {
        let mut names = FlowFieldNames(Vec::new());
        Flow::default().fields(&mut names);
        let fields = names.0.into_iter().map(|name| {
            let kind = FlowColumn::of(name).data_type();
            Field::new(name, kind, true)
        });
        Self { schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())) }
    }

    /// What the columns are.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Puts flows into the order of files: by address. Then queries for an address skip most of a
    /// file.
    pub fn sort(flows: &mut [Flow]) {
        flows.sort_unstable_by_key(|flow| {
            let key = &flow.key;
            (key.source, key.destination, key.protocol, key.destination_port, flow.start())
        });
    }

    /// A row for each of these.
    ///
    /// # Errors
    /// The columns do not fit together.
    pub fn of(&self, flows: &[Flow]) -> Result<RecordBatch, ArrowError> {
        let columns = self.schema.fields().iter().map(|field| FlowColumn::of(field.name()));
        let mut row = FlowRow { columns: columns.collect(), next: 0, text: Vec::new() };
        for flow in flows {
            row.next = 0;
            flow.fields(&mut row);
        }
        let arrays = row.columns.into_iter().map(FlowColumn::finish).collect();
        RecordBatch::try_new(self.schema(), arrays)
    }
}

impl Default for Flows {
    fn default() -> Self {
        Self::new()
    }
}

/// A column that grows.
enum FlowColumn {
    Byte(UInt8Builder),
    Short(UInt16Builder),
    Word(UInt32Builder),
    Long(UInt64Builder),
    Text(StringBuilder),
    Time(TimestampNanosecondBuilder),
}

impl FlowColumn {
    /// The column of the field of this name: as wide as what it counts.
    fn of(name: &str) -> Self {
        match name.strip_prefix("reverse_").or(name.strip_prefix("forward_")).unwrap_or(name) {
            "flow_start" | "flow_end" | "start" | "end" => {
                Self::Time(TimestampNanosecondBuilder::new().with_timezone(ZONE))
            }
            "protocol" | "dscp" | "min_ttl" | "max_ttl" => Self::Byte(UInt8Builder::new()),
            "source_port" | "destination_port" | "vlan" | "inner_vlan" | "queue" | "tcp_flags" => {
                Self::Short(UInt16Builder::new())
            }
            "tunnel_id"
            | "retransmissions"
            | "out_of_order"
            | "zero_windows"
            | "congestion_experienced" => Self::Word(UInt32Builder::new()),
            "packets" | "octets" | "payload" | "handshake_rtt" => Self::Long(UInt64Builder::new()),
            _ => Self::Text(StringBuilder::new()),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::Byte(_) => DataType::UInt8,
            Self::Short(_) => DataType::UInt16,
            Self::Word(_) => DataType::UInt32,
            Self::Long(_) => DataType::UInt64,
            Self::Text(_) => DataType::Utf8,
            Self::Time(_) => DataType::Timestamp(TimeUnit::Nanosecond, Some(ZONE.into())),
        }
    }

    /// Fields are as wide as their columns: nothing is cut.
    fn push(&mut self, value: u64) {
        match self {
            Self::Byte(it) => it.append_value(value as u8),
            Self::Short(it) => it.append_value(value as u16),
            Self::Word(it) => it.append_value(value as u32),
            Self::Long(it) => it.append_value(value),
            Self::Text(it) => it.append_value(value.to_string()),
            Self::Time(it) => it.append_value(value as i64),
        }
    }

    fn push_null(&mut self) {
        match self {
            Self::Byte(it) => it.append_null(),
            Self::Short(it) => it.append_null(),
            Self::Word(it) => it.append_null(),
            Self::Long(it) => it.append_null(),
            Self::Text(it) => it.append_null(),
            Self::Time(it) => it.append_null(),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Byte(mut it) => Arc::new(it.finish()),
            Self::Short(mut it) => Arc::new(it.finish()),
            Self::Word(mut it) => Arc::new(it.finish()),
            Self::Long(mut it) => Arc::new(it.finish()),
            Self::Text(mut it) => Arc::new(it.finish()),
            Self::Time(mut it) => Arc::new(it.finish()),
        }
    }
}

/// Takes the fields of a flow, in the order of the columns.
struct FlowRow {
    columns: Vec<FlowColumn>,
    next: usize,
    text: Vec<u8>,
}

impl FlowRow {
    fn column(&mut self) -> Option<&mut FlowColumn> {
        let column = self.columns.get_mut(self.next);
        self.next += 1;
        column
    }

    fn text(&mut self, append: impl FnOnce(&mut StringBuilder)) {
        if let Some(FlowColumn::Text(builder)) = self.column() {
            append(builder);
        }
    }
}

impl Fields for FlowRow {
    fn number(&mut self, _: &'static str, value: u64) {
        if let Some(column) = self.column() {
            column.push(value);
        }
    }

    fn word(&mut self, _: &'static str, value: &str) {
        self.text(|builder| builder.append_value(value));
    }

    fn address(&mut self, _: &'static str, value: IpAddr) {
        self.text(|builder| {
            // A builder takes any text.
            let _ = write!(builder, "{value}");
            builder.append_value("");
        });
    }

    fn time(&mut self, name: &'static str, value: u64) {
        self.number(name, value);
    }

    fn community(&mut self, name: &'static str, digest: &[u8; 20]) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        write_community_id(digest, &mut text);
        match std::str::from_utf8(&text) {
            Ok(id) => self.word(name, id),
            Err(_) => self.absent(name),
        }
        self.text = text;
    }

    fn absent(&mut self, _: &'static str) {
        if let Some(column) = self.column() {
            column.push_null();
        }
    }
}

/// The names of all fields.
struct FlowFieldNames(Vec<&'static str>);

impl Fields for FlowFieldNames {
    fn number(&mut self, name: &'static str, _: u64) {
        self.0.push(name);
    }

    fn word(&mut self, name: &'static str, _: &str) {
        self.0.push(name);
    }

    fn address(&mut self, name: &'static str, _: IpAddr) {
        self.0.push(name);
    }

    fn time(&mut self, name: &'static str, _: u64) {
        self.0.push(name);
    }

    fn community(&mut self, name: &'static str, _: &[u8; 20]) {
        self.0.push(name);
    }

    fn absent(&mut self, name: &'static str) {
        self.0.push(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells numbers, times and text apart.
    #[derive(Default)]
    struct Kinds(Vec<(&'static str, &'static str)>);

    impl Fields for Kinds {
        fn number(&mut self, name: &'static str, _: u64) {
            self.0.push((name, "number"));
        }

        fn word(&mut self, name: &'static str, _: &str) {
            self.0.push((name, "text"));
        }

        fn address(&mut self, name: &'static str, _: IpAddr) {
            self.0.push((name, "text"));
        }

        fn time(&mut self, name: &'static str, _: u64) {
            self.0.push((name, "time"));
        }

        fn community(&mut self, name: &'static str, _: &[u8; 20]) {
            self.0.push((name, "text"));
        }

        fn absent(&mut self, name: &'static str) {
            panic!("{name} is not there");
        }
    }

    #[test]
    fn every_field_has_a_column_of_its_kind() {
        let half = crate::Half { packets: 1, ..crate::Half::default() };
        let address = IpAddr::from([1, 2, 3, 4]);
        let mut flow = Flow { forward: half.clone(), reverse: half, ..Flow::default() };
        flow.handshake_rtt = Some(1);
        flow.key.protocol = wirelane_wire::Protocol::TCP;
        (flow.key.vlan, flow.key.inner_vlan) = (Some(1), Some(2));
        flow.key.tunnel = Some(crate::Tunnel {
            kind: crate::TunnelKind::Gre,
            source: address,
            destination: address,
            id: Some(7),
        });
        let mut kinds = Kinds::default();
        flow.fields(&mut kinds);
        for (name, kind) in kinds.0 {
            let found = match FlowColumn::of(name) {
                FlowColumn::Text(_) => "text",
                FlowColumn::Time(_) => "time",
                _ => "number",
            };
            assert_eq!(found, kind, "{name}");
        }
    }
}
