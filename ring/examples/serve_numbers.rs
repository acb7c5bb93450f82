//! Serves made-up batches, for tests of readers in any language. It ends when all batches are ACKed
//! and all ends are sent.
//!
//! ```text
//! serve_numbers SOCKET CHANNEL [--records N] [--record-bytes B] [--slots S] [--slot-bytes B]
//!     [--credits C] [--epochs E] [--fields bytes|float32|mixed] [--mode share|broadcast]
//!     [--consumers N] [--fail-after N] [--dedicated-every N]
//! ```
//!
//! It prints `ready` and a line end when consumers may connect. When the first has connected, it
//! serves `--epochs` epochs of `--records` records. Epoch e is one object named `numbers/é/<e>`.
//! Record i (from 0, in its epoch) is:
//!
//! - `bytes` (default): field `data` of bytes, B bytes; byte j is `(i + j + e) % 251`. Each record
//!   has a gap of 3 bytes 0xEE before it, so records are not aligned. The object offset of a batch
//!   is `first_record * (B + 3)`. With `--dedicated-every N` each record with `i % N == N - 1` is
//!   three slots long and alone in a batch, in a dedicated buffer; it counts as B bytes for the
//!   offset.
//! - `float32`: field `x`, float32, shape [0], B / 4 numbers; number j is `i + j / 8 + e`. It is
//!   dense. The object offset is `first_record * B`.
//! - `mixed`: `text`, utf8, shape []: `record <i> of epoch <e> ✓`, absent where `i % 5 == 4`; and
//!   `number`, int64, shape []: `i * 1000 - e`, absent where `i % 7 == 6`. B has no meaning, and
//!   the object offset is `first_record`.
//!
//! With `--fail-after N` the channel fails with kind `decode` after the first N records of epoch 0:
//! object `numbers/é/0`, record N, offset as above, decoder `numbers`, message
//! `channel <CHANNEL>, object numbers/é/0, record N: failed as asked`.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use pipemill_ring::host::{
    BatchInfo, Column, Interrupt, Ring, RingConfig, Server, ServerConfig, WriteError, Writer,
};
use pipemill_ring::layout::{ABSENT, index_room};
use pipemill_ring::protocol::{ErrorKind, ErrorReport, Field, Mode, Scalar};
use pipemill_types::{BatchPosition, Even, ObjectIdentity};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What changes when the object's bytes do.
const IDENTITY: &str = "made-up";
const GAP: usize = 3;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(socket), Some(channel)) = (arguments.next(), arguments.next()) else {
        return Err("usage: serve_numbers SOCKET CHANNEL [--OPTION VALUE]...".into());
    };
    let mut given = HashMap::new();
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        given.insert(name, value);
    }
    let mut text = |name: &str, default: &str| given.remove(name).unwrap_or(default.into());
    let kind = Kind::parse(&text("--fields", "bytes"))?;
    let mode = match text("--mode", "share").as_str() {
        "share" => Mode::Share,
        "broadcast" => Mode::Broadcast,
        other => return Err(format!("--mode: expected share or broadcast, found {other}").into()),
    };
    let mut number = |name: &str, default: usize| -> Result<usize> {
        text(name, &default.to_string()).parse().map_err(|error| format!("{name}: {error}").into())
    };
    let ring = Ring::new(RingConfig {
        channel: channel.clone(),
        slots: number("--slots", 8)? as u32,
        slot_bytes: number("--slot-bytes", 65_536)?,
        dedicated: RingConfig::FEW_DEDICATED,
        credits: number("--credits", 2)? as u32,
        mode,
        consumers: number("--consumers", 1)? as u32,
    })?;
    let numbers = Numbers {
        kind,
        records: number("--records", 1000)?,
        record_bytes: number("--record-bytes", 100)?,
        epochs: number("--epochs", 1)? as u32,
        fail_after: number("--fail-after", usize::MAX)?,
        dedicated_every: number("--dedicated-every", usize::MAX)?.max(1),
        ring: ring.clone(),
    };
    if let Some(name) = given.keys().next() {
        return Err(format!("unknown option {name}").into());
    }
    let _server =
        Server::start(Path::new(&socket), &ServerConfig::default(), vec![ring.clone()], None)?;
    println!("ready");
    // The ring gives no signal when a consumer connects.
    while ring.status().consumers.is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    numbers.serve()?;
    ring.wait_drained(None);
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Bytes,
    Float32,
    Mixed,
}

impl Kind {
    fn parse(name: &str) -> Result<Kind> {
        match name {
            "bytes" => Ok(Kind::Bytes),
            "float32" => Ok(Kind::Float32),
            "mixed" => Ok(Kind::Mixed),
            _ => Err(format!("--fields: expected bytes, float32 or mixed, found {name}").into()),
        }
    }

    fn fields(self) -> Vec<Field> {
        let field = |name: &str, scalar, shape| Field::new(name, scalar, shape);
        match self {
            Kind::Bytes => vec![field("data", Scalar::Bytes, vec![])],
            Kind::Float32 => vec![field("x", Scalar::Float32, vec![0])],
            Kind::Mixed => {
                vec![field("text", Scalar::Utf8, vec![]), field("number", Scalar::Int64, vec![])]
            }
        }
    }
}

struct Numbers {
    kind: Kind,
    records: usize,
    record_bytes: usize,
    epochs: u32,
    fail_after: usize,
    dedicated_every: usize,
    ring: Arc<Ring>,
}

impl Numbers {
    fn serve(&self) -> Result<()> {
        self.ring.set_schema(self.kind.fields())?;
        for epoch in 0..self.epochs {
            let mut record = 0;
            while record < self.records {
                match self.batch(epoch, record) {
                    Ok(next) => record = next,
                    Err(error) => match error.downcast_ref::<WriteError>() {
                        Some(WriteError::Interrupted(Interrupt::EndEpoch(_))) => break,
                        _ => return Err(error),
                    },
                }
                if epoch == 0 && record == self.fail_after {
                    self.ring.fail(self.report(record));
                    return Ok(());
                }
            }
            self.ring.end_epoch(epoch, record < self.records)?;
        }
        self.ring.end_stream();
        Ok(())
    }

    /// Grants a batch that starts with this record; returns the first record that is not in it.
    fn batch(&self, epoch: u32, first: usize) -> Result<usize> {
        let object = format!("numbers/é/{epoch}");
        let texts = object.len() + IDENTITY.len();
        let mut columns = vec![Column::default(); self.kind.fields().len()];
        let (mut at, mut next) = (0, first);
        let mut writer = match self.is_large(first) {
            true => self.ring.acquire_dedicated(self.length(first))?,
            false => self.ring.acquire()?,
        };
        let end =
            if first < self.fail_after { self.fail_after.min(self.records) } else { self.records };
        while next < end && (next == first || !self.is_large(first) && !self.is_large(next)) {
            let fields = self.record(epoch, next);
            let bytes: usize = fields.iter().flatten().map(Vec::len).sum();
            let bytes = bytes + self.gap();
            let room = index_room(at + bytes, texts, columns.len(), next + 1 - first);
            if writer.ensure(at + bytes + room).is_err() {
                break;
            }
            put(&mut writer, &mut at, self.gap(), &fields, &mut columns);
            next += 1;
        }
        if next == first {
            return Err(format!("record {first} does not fit into a slot").into());
        }
        let absent = columns.iter().any(|column| column.has_absent(0..column.len()));
        let info = BatchInfo {
            position: BatchPosition {
                object_number: 3,
                object,
                identity: ObjectIdentity::of(IDENTITY.to_owned()),
                offset: self.offset(first),
                first_record: first as u64,
                ..BatchPosition::of_epoch(epoch)
            },
            object_offset: self.offset(first),
            metadata: "",
            padding: 0,
            payload_bytes: at,
            has_absent: absent,
        };
        writer.grant(&info, &columns)?;
        Ok(next)
    }

    fn gap(&self) -> usize {
        if self.kind == Kind::Bytes { GAP } else { 0 }
    }

    fn is_large(&self, record: usize) -> bool {
        self.kind == Kind::Bytes && record % self.dedicated_every == self.dedicated_every - 1
    }

    fn length(&self, record: usize) -> usize {
        if self.is_large(record) { 3 * self.ring.config().slot_bytes } else { self.record_bytes }
    }

    fn offset(&self, record: usize) -> u64 {
        (match self.kind {
            Kind::Bytes => record * (self.record_bytes + GAP),
            Kind::Float32 => record * self.record_bytes,
            Kind::Mixed => record,
        }) as u64
    }

    fn record(&self, epoch: u32, record: usize) -> Vec<Option<Vec<u8>>> {
        let (i, e) = (record, epoch as usize);
        match self.kind {
            Kind::Bytes => {
                let byte = |j| ((i + j + e) % 251) as u8;
                vec![Some((0..self.length(i)).map(byte).collect())]
            }
            Kind::Float32 => {
                let number = |j| i as f32 + j as f32 / 8.0 + e as f32;
                let numbers = (0..self.record_bytes / 4).map(number);
                vec![Some(numbers.flat_map(f32::to_le_bytes).collect())]
            }
            Kind::Mixed => {
                let text = format!("record {i} of epoch {e} ✓").into_bytes();
                let number = (i as i64 * 1000 - e as i64).to_le_bytes().to_vec();
                vec![(i % 5 != 4).then_some(text), (i % 7 != 6).then_some(number)]
            }
        }
    }

    fn report(&self, record: usize) -> ErrorReport {
        let channel = &self.ring.config().channel;
        let object = "numbers/é/0";
        ErrorReport {
            kind: ErrorKind::Decode,
            message: format!(
                "channel {channel}, object {object}, record {record}: failed as asked"
            ),
            channel: channel.clone(),
            epoch: Some(0),
            object: Some(object.into()),
            offset: Some(self.offset(record)),
            record: Some(record as u64),
            decoder: Some("numbers".into()),
        }
    }
}

/// Appends one record to the payload and the columns.
fn put(
    writer: &mut Writer,
    at: &mut usize,
    gap: usize,
    fields: &[Option<Vec<u8>>],
    columns: &mut [Column],
) {
    let payload = writer.payload();
    payload[*at..*at + gap].fill(0xEE);
    *at += gap;
    for (field, column) in fields.iter().zip(columns) {
        match field {
            Some(bytes) => {
                payload[*at..*at + bytes.len()].copy_from_slice(bytes);
                // Values of one size that follow each other become even by that.
                let (first, size) = (*at as u32, bytes.len() as u32);
                column.extend_even(Even { first, size, records: 1 });
                *at += bytes.len();
            }
            None => {
                column.push(ABSENT, 0);
            }
        }
    }
}
