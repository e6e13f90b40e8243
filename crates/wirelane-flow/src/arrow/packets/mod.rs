//! Packets as columns of Arrow: a row for each, and a column for each field of its headers.
//!
//! ```text
//!  record ─▶ PacketRow: headers as numbers ─ 128 rows ─▶ PacketColumn, one by one ─▶ RecordBatch
//! ```
//!
//! A packet is decoded once, by the header views of `wirelane-wire`; columns that nobody asked for
//! cost nothing.

mod column;
mod field;
mod key;
mod row;
mod talk;
mod text;
mod validity;

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use wirelane_pcap::{Record, Source};

use self::column::PacketColumn;
use self::row::{InterfaceColumns, PacketRow};
use self::validity::Validity;

/// Rows that become columns at once: they stay in the cache, and are whole words of bits.
const ROWS: usize = 128;

/// Makes batches of packets.
///
/// ```
/// use wirelane_flow::arrow::{Interfaces, Packets};
/// use wirelane_pcap::CaptureReader;
///
/// # fn batches(path: &str) -> Result<(), Box<dyn std::error::Error>> {
/// let mut reader = CaptureReader::open(path)?;
/// let mut packets = Packets::of(&["time", "source", "destination_port"])?;
/// let mut interfaces = Interfaces::default();
/// while reader.advance()? {
///     interfaces.push(&mut packets, &reader.current(), reader.interfaces());
///     if packets.len() == Packets::USUAL {
///         let batch = packets.finish()?;
///         assert_eq!((batch.num_rows(), batch.num_columns()), (Packets::USUAL, 3));
///     }
/// }
/// let rest = packets.finish()?;
/// # Ok(())
/// # }
/// ```
pub struct Packets {
    schema: SchemaRef,
    columns: Vec<PacketColumn>,
    /// The column of the packets' bytes.
    data: Option<usize>,
    validity: Validity,
    /// Whether a column needs the headers.
    decodes: bool,
    sources: Vec<Source>,
    places: Vec<InterfaceColumns>,
    /// Those that are not in columns yet.
    rows: Vec<PacketRow>,
    count: usize,
}

impl Packets {
    /// Rows of a batch that suits most programs.
    pub const USUAL: usize = 8192;

    /// All columns there are. The last one, `data`, has the bytes of packets: few want it.
    #[must_use]
    pub fn schema_with_data() -> SchemaRef {
        let fields = field::ALL.iter().map(field::Definition::field);
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Batches of all columns but `data`.
    #[must_use]
    pub fn new() -> Self {
        Self::with((0..field::ALL.len()).filter(|at| field::ALL[*at].name != "data"))
    }

    /// Batches of the columns of these names, in this order.
    ///
    /// # Errors
    /// There is no column of a name.
    pub fn of<T: AsRef<str>>(names: &[T]) -> Result<Self, ArrowError> {
        let number = |name: &T| {
            let name = name.as_ref();
            field::ALL.iter().position(|it| it.name == name).ok_or_else(|| {
                let all: Vec<_> = field::ALL.iter().map(|it| it.name).collect();
                let cause = format!("packets have no column \"{name}\", but {}", all.join(", "));
                ArrowError::SchemaError(cause)
            })
        };
        Ok(Self::with(names.iter().map(number).collect::<Result<Vec<_>, _>>()?))
    }

    fn with(numbers: impl IntoIterator<Item = usize>) -> Self {
        let columns: Vec<_> =
            numbers.into_iter().map(|number| PacketColumn::new(&field::ALL[number])).collect();
        let definitions = || columns.iter().map(|column| column.definition);
        let fields: Vec<_> = definitions().map(field::Definition::field).collect();
        Self {
            schema: Arc::new(Schema::new(fields)),
            data: definitions().position(|it| matches!(it.values, field::FieldValues::Data)),
            validity: Validity::new(definitions().map(|it| it.has)),
            decodes: definitions().any(field::Definition::is_in_headers),
            sources: Vec::new(),
            places: Vec::new(),
            rows: Vec::with_capacity(ROWS),
            count: 0,
            columns,
        }
    }

    /// What the columns of its batches are.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The number of an interface, for [`Packets::push`]. The same one gets the same number.
    pub fn interface(&mut self, source: &Source) -> u32 {
        let key = |it: &Source| (it.queue, it.class, it.link_type);
        let known =
            self.sources.iter().position(|it| it.name == source.name && key(it) == key(source));
        let number = known.unwrap_or_else(|| {
            self.places.push(InterfaceColumns::of(source));
            self.sources.push(source.clone());
            self.sources.len() - 1
        });
        number as u32
    }

    /// Adds a packet. Its interface is `interface`, a number that [`Packets::interface`] gave,
    /// whatever the record says; a packet of another one is not added.
    pub fn push(&mut self, interface: u32, record: &Record<'_>) {
        let Some(place) = self.places.get(interface as usize) else { return };
        let mut row = PacketRow::outside(record, interface, place);
        if self.decodes {
            row.decode(place.link_type, record.data);
        }
        if let Some(column) = self.data.and_then(|at| self.columns.get_mut(at)) {
            column.push_data(record.data);
        }
        self.rows.push(row);
        self.count += 1;
        if self.rows.len() == ROWS {
            self.settle();
        }
    }

    /// Packets of the batch so far.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The batch. The next one begins.
    ///
    /// # Errors
    /// The columns do not fit together.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        self.settle();
        let count = std::mem::take(&mut self.count);
        let validity = self.validity.finish(count);
        let nulls = |has: u32| {
            validity.iter().find(|group| group.0 == has).and_then(|group| group.1.clone())
        };
        let arrays = self.columns.iter_mut().map(|column| {
            let nulls = nulls(column.definition.has);
            column.finish(nulls)
        });
        let arrays = arrays.collect::<Result<_, _>>()?;
        // A batch without columns has rows, too.
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(self.schema(), arrays, &options)
    }

    /// Makes columns of the rows.
    fn settle(&mut self) {
        self.validity.extend(&self.rows);
        for column in &mut self.columns {
            column.extend(&self.rows, &self.sources);
        }
        self.rows.clear();
    }
}

impl Default for Packets {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
