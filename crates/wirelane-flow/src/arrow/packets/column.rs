//! A column that grows, by a few rows at a time.

use std::sync::Arc;

use arrow_array::builder::BinaryViewBuilder;
use arrow_array::types::{
    ArrowPrimitiveType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type,
};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::ArrowError;
use wirelane_pcap::Source;

use super::field::{Definition, FieldValues};
use super::key::TextKey;
use super::row::{PacketRow, has};
use super::talk::Talk;
use super::text::TextColumn;

/// A column.
pub(super) struct PacketColumn {
    pub(super) definition: &'static Definition,
    values: Growing,
}

enum Growing {
    Time(Vec<i64>),
    Byte(Vec<u8>),
    Short(Vec<u16>),
    Word(Vec<u32>),
    Text(Box<TextColumn<TextKey>>),
    Community(Box<TextColumn<Talk>>),
    Data(Box<BinaryViewBuilder>),
}

impl PacketColumn {
    pub(super) fn new(definition: &'static Definition) -> Self {
        let values = match definition.values {
            FieldValues::Time(_) => Growing::Time(Vec::new()),
            FieldValues::Byte(_) => Growing::Byte(Vec::new()),
            FieldValues::Short(_) => Growing::Short(Vec::new()),
            FieldValues::Word(_) => Growing::Word(Vec::new()),
            FieldValues::Text(..) => Growing::Text(Box::new(TextColumn::new())),
            FieldValues::Community => Growing::Community(Box::new(TextColumn::new())),
            FieldValues::Data => Growing::Data(Box::new(BinaryViewBuilder::new())),
        };
        Self { definition, values }
    }

    /// Adds the bytes of a packet, to a column of these.
    #[inline]
    pub(super) fn push_data(&mut self, data: &[u8]) {
        if let Growing::Data(builder) = &mut self.values {
            builder.append_value(data);
        }
    }

    /// Adds rows.
    pub(super) fn extend(&mut self, rows: &[PacketRow], sources: &[Source]) {
        match (&mut self.values, self.definition.values) {
            (Growing::Time(to), FieldValues::Time(values)) => values(rows, to),
            (Growing::Byte(to), FieldValues::Byte(values)) => values(rows, to),
            (Growing::Short(to), FieldValues::Short(values)) => values(rows, to),
            (Growing::Word(to), FieldValues::Word(values)) => values(rows, to),
            (Growing::Text(texts), FieldValues::Text(key, write)) => {
                let has = self.definition.has;
                for row in rows {
                    match row.has & has == has {
                        true => texts.push(key(row), |key, to| write(key, sources, to)),
                        false => texts.push_null(),
                    }
                }
            }
            (Growing::Community(texts), FieldValues::Community) => {
                for row in rows {
                    match row.has & has::COMMUNITY != 0 {
                        true => texts.push(Talk::of(row), Talk::write),
                        false => texts.push_null(),
                    }
                }
            }
            // They came with their packets.
            _ => {}
        }
    }

    /// The array; the next one begins.
    pub(super) fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        match &mut self.values {
            Growing::Time(values) => {
                let values = primitive::<TimestampNanosecondType>(values, nulls)?;
                Ok(Arc::new(values.with_data_type(self.definition.values.data_type())))
            }
            Growing::Byte(values) => Ok(Arc::new(primitive::<UInt8Type>(values, nulls)?)),
            Growing::Short(values) => Ok(Arc::new(primitive::<UInt16Type>(values, nulls)?)),
            Growing::Word(values) => Ok(Arc::new(primitive::<UInt32Type>(values, nulls)?)),
            Growing::Text(texts) => texts.finish(nulls),
            Growing::Community(texts) => texts.finish(nulls),
            Growing::Data(builder) => Ok(Arc::new(builder.finish())),
        }
    }
}

fn primitive<T: ArrowPrimitiveType>(
    values: &mut Vec<T::Native>,
    nulls: Option<NullBuffer>,
) -> Result<PrimitiveArray<T>, ArrowError> {
    let next = Vec::with_capacity(values.len());
    PrimitiveArray::try_new(std::mem::replace(values, next).into(), nulls)
}
