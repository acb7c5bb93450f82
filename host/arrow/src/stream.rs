//! The messages of a stream: its schema, its dictionaries, its record batches, its end. See "IPC
//! Streaming Format" in Arrow's columnar specification.

use std::io::{self, Write};
use std::ops::Range;

use pipemill_types::{Column, Field};
use polars_arrow_format::ipc;
use polars_arrow_format::ipc::planus::Builder;

use crate::columns::{self, Body, Values};
use crate::types::{Layout, arrow_field, layout};

/// Largest number of bytes of values in a record batch. The offsets of a column are 32-bit numbers
/// with a sign.
const MAX_BATCH_BYTES: u64 = 1 << 30;

/// The reason why records can't be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The output can't be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Arrow can't represent a value.
    #[error("field `{field}` {why}")]
    Unfit {
        /// Name of the field.
        field: String,
        /// Index of the record in the batch.
        record: usize,
        /// The reason.
        why: String,
    },
}

/// Writes records of these fields as a stream of Arrow IPC.
pub struct StreamWriter {
    fields: Vec<Field>,
    layouts: Vec<Layout>,
    body: Body,
}

impl StreamWriter {
    /// A writer of records with these fields.
    pub fn new(fields: Vec<Field>) -> Self {
        let layouts = fields.iter().enumerate().map(|(id, field)| layout(field, id as i64));
        Self { layouts: layouts.collect(), fields, body: Body::default() }
    }

    /// Writes the schema, and the dictionaries of fields with categories.
    ///
    /// # Errors
    /// The output can't be written, or a category is too long.
    pub fn start(&mut self, out: &mut impl Write) -> Result<(), WriteError> {
        let fields = self.fields.iter().zip(&self.layouts);
        let schema = ipc::Schema {
            endianness: ipc::Endianness::Little,
            fields: Some(fields.map(|(field, layout)| arrow_field(field, layout)).collect()),
            custom_metadata: None,
            features: None,
        };
        write_message(out, ipc::MessageHeader::Schema(Box::new(schema)), &[])?;
        for (field, layout) in self.fields.iter().zip(&self.layouts) {
            if let Layout::Categories(id) = layout {
                write_dictionary(out, &mut self.body, field, *id)?;
            }
        }
        Ok(())
    }

    /// Writes some records of a batch. `columns` are the columns of the writer's fields; their
    /// offsets count from the start of `memory`.
    ///
    /// # Errors
    /// The output can't be written, or Arrow can't represent a value.
    pub fn write(
        &mut self,
        out: &mut impl Write,
        memory: &[u8],
        columns: &[&Column],
        records: Range<usize>,
    ) -> Result<(), WriteError> {
        let values =
            |column, records: &Range<usize>| Values { memory, column, records: records.clone() };
        let largest = columns.iter().map(|column| values(column, &records).bytes()).max();
        if largest.unwrap_or(0) > MAX_BATCH_BYTES && records.len() > 1 {
            let middle = records.start + records.len() / 2;
            self.write(out, memory, columns, records.start..middle)?;
            return self.write(out, memory, columns, middle..records.end);
        }
        self.body.clear();
        for ((field, layout), column) in self.fields.iter().zip(&self.layouts).zip(columns) {
            let unfit = |record, why| WriteError::Unfit { field: field.name.clone(), record, why };
            let values = values(column, &records);
            if values.bytes() > i32::MAX as u64 {
                let why = "is longer than the 2 GiB that an offset of Arrow counts".to_owned();
                return Err(unfit(records.start, why));
            }
            columns::append(&mut self.body, layout, field.categories.len(), &values)
                .map_err(|(record, why)| unfit(record, why))?;
        }
        let header = record_batch(&mut self.body, records.len());
        Ok(write_message(out, ipc::MessageHeader::RecordBatch(Box::new(header)), &self.body.bytes)?)
    }

    /// Writes the end of the stream.
    ///
    /// # Errors
    /// The output can't be written.
    pub fn finish(out: &mut impl Write) -> io::Result<()> {
        out.write_all(&CONTINUATION)?;
        out.write_all(&0i32.to_le_bytes())
    }
}

/// Writes the categories of a field as a dictionary.
fn write_dictionary(
    out: &mut impl Write,
    body: &mut Body,
    field: &Field,
    id: i64,
) -> Result<(), WriteError> {
    let memory = field.categories.concat().into_bytes();
    let mut column = Column::default();
    let mut offset = 0;
    // The names, categories and metadata of all fields have at most 4 MiB.
    for category in &field.categories {
        column.push(offset, category.len() as u32);
        offset += category.len() as u32;
    }
    let count = field.categories.len();
    let values = Values { memory: &memory, column: &column, records: 0..count };
    body.clear();
    let layout = Layout::Strings(pipemill_types::Scalar::Utf8);
    columns::append(body, &layout, 0, &values).map_err(|(record, why)| WriteError::Unfit {
        field: field.name.clone(),
        record,
        why,
    })?;
    let data = Some(Box::new(record_batch(body, count)));
    let header = ipc::DictionaryBatch { id, data, is_delta: false };
    Ok(write_message(out, ipc::MessageHeader::DictionaryBatch(Box::new(header)), &body.bytes)?)
}

fn record_batch(body: &mut Body, records: usize) -> ipc::RecordBatch {
    ipc::RecordBatch {
        length: records as i64,
        nodes: Some(std::mem::take(&mut body.nodes)),
        buffers: Some(std::mem::take(&mut body.buffers)),
        compression: None,
        variadic_buffer_counts: None,
    }
}

/// The prefix of each message, before the length of its flatbuffer.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Writes a message: its flatbuffer, padded to 8 bytes, and its body.
fn write_message(out: &mut impl Write, header: ipc::MessageHeader, body: &[u8]) -> io::Result<()> {
    let message = ipc::Message {
        version: ipc::MetadataVersion::V5,
        header: Some(header),
        body_length: body.len() as i64,
        custom_metadata: None,
    };
    let mut builder = Builder::new();
    let flatbuffer = builder.finish(&message, None);
    let padded = flatbuffer.len().next_multiple_of(8);
    let length = i32::try_from(padded)
        .map_err(|_| io::Error::other("a message of Arrow has 2 GiB or more"))?;
    out.write_all(&CONTINUATION)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(flatbuffer)?;
    out.write_all(&[0; 8][..padded - flatbuffer.len()])?;
    out.write_all(body)
}
