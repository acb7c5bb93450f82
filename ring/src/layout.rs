//! The layout of a slot: header, payload, object name, index, views. The host encodes it; decoding
//! checks every number of it against the memory.
//!
//! The index begins with a table of the fields: see [`Place`]. Lists of offsets and lengths follow,
//! for the fields that need them.

pub use pipemill_types::{ABSENT, Even, VIEW_BYTES};

use crate::memory::column::column;

/// The first four bytes of a batch: `PMB3`.
pub const MAGIC: u32 = 0x3342_4d50;
/// Length of the header in bytes. The host writes the payload right after it.
pub const HEADER_BYTES: usize = 128;
/// Payload, index and each column start at a multiple of this many bytes.
pub const ALIGN: usize = 64;
/// Bytes of the entry of a field in the table.
pub(crate) const ENTRY_BYTES: usize = 8;
/// The size in the entry of a field that has lists.
pub(crate) const LISTED: u32 = u32::MAX;
/// The `slot` of a grant whose batch is in a dedicated buffer.
pub const DEDICATED: u32 = u32::MAX;

const HAS_ABSENT: u32 = 1;
const HAS_INPUTS: u32 = 2;
const HAS_VIEWS: u32 = 4;

/// Bytes of the payload from the start of one span to the next. A place in a view has 31 bits, so
/// it counts from the start of a span.
pub const VIEW_SPAN: usize = 1 << 30;

/// The header of a batch. Positions are in bytes, from the start of the slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Number of the batch in the channel, from 0.
    pub batch: u64,
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Whether at least one field of one record is absent.
    pub has_absent: bool,
    /// Whether the channel is a mix: its identity is the positions of its inputs, as JSON.
    pub has_inputs: bool,
    /// Whether views of all strings follow the index.
    pub has_views: bool,
    /// Number of records, n.
    pub records: u32,
    /// Number of fields of each record, k.
    pub fields: u32,
    /// Position of the payload, a multiple of 64.
    pub payload_at: u64,
    /// Length of the payload in bytes.
    pub payload_bytes: u64,
    /// Position of the index, a multiple of 64.
    pub index_at: u64,
    /// Position of the object's name (UTF-8).
    pub object_at: u32,
    /// Length of the name in bytes.
    pub object_bytes: u32,
    /// Number, in its object, of the first record, from 0.
    pub first_record: u64,
    /// A byte offset in the object (inflated) at or before the first record.
    pub object_offset: u64,
    /// Position of the object's metadata: a JSON object of strings, in UTF-8.
    pub metadata_at: u32,
    /// Length of the metadata in bytes; 0 if there is none.
    pub metadata_bytes: u32,
    /// Number of records at the end that are copies of the last real one, below `records`.
    pub padding: u32,
    /// Number of the object in its epoch on this machine, from 0.
    pub object_number: u64,
    /// Number of bytes at the object's start that its decoder must see before it can decode from
    /// `restart_offset` on.
    pub restart_header: u32,
    /// A byte offset in the object (inflated) from which its decoder can resume.
    pub restart_offset: u64,
    /// Number of records from there to the batch's first record.
    pub restart_records: u64,
    /// Position of the object's identity: a text in UTF-8 that changes when the object's bytes do.
    pub identity_at: u32,
    /// Length of the identity in bytes; 0 if the source has none.
    pub identity_bytes: u32,
}

/// The reason why the memory of a batch can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The header has a number that the layout does not allow.
    #[error("the batch's header has {found:#x} as {what}; expected {expected}")]
    Header {
        /// Name of the number.
        what: &'static str,
        /// The number.
        found: u64,
        /// The values that the layout allows.
        expected: String,
    },
    /// A part of the batch is not within its memory.
    #[error("the batch's {what} ({bytes} bytes at {at}) does not lie within its {limit} bytes")]
    Outside {
        /// Name of the part.
        what: &'static str,
        /// Position of the part, in bytes.
        at: u64,
        /// Length of the part, in bytes.
        bytes: u64,
        /// Length of the memory, in bytes.
        limit: u64,
    },
    /// The object's name is not UTF-8.
    #[error("the name of the batch's object is not UTF-8")]
    Name,
    /// The object's metadata is not UTF-8.
    #[error("the metadata of the batch's object is not UTF-8")]
    Metadata,
    /// The object's identity is not UTF-8.
    #[error("the identity of the batch's object is not UTF-8")]
    Identity,
}

impl Header {
    /// The header as bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC.to_le_bytes());
        put(4, &(HEADER_BYTES as u32).to_le_bytes());
        put(8, &self.batch.to_le_bytes());
        put(16, &self.epoch.to_le_bytes());
        put(20, &self.flags().to_le_bytes());
        put(24, &self.records.to_le_bytes());
        put(28, &self.fields.to_le_bytes());
        put(32, &self.payload_at.to_le_bytes());
        put(40, &self.payload_bytes.to_le_bytes());
        put(48, &self.index_at.to_le_bytes());
        put(56, &self.object_at.to_le_bytes());
        put(60, &self.object_bytes.to_le_bytes());
        put(64, &self.first_record.to_le_bytes());
        put(72, &self.object_offset.to_le_bytes());
        put(80, &self.metadata_at.to_le_bytes());
        put(84, &self.metadata_bytes.to_le_bytes());
        put(88, &self.padding.to_le_bytes());
        put(92, &self.restart_header.to_le_bytes());
        put(96, &self.object_number.to_le_bytes());
        put(104, &self.restart_offset.to_le_bytes());
        put(112, &self.restart_records.to_le_bytes());
        put(120, &self.identity_at.to_le_bytes());
        put(124, &self.identity_bytes.to_le_bytes());
        out
    }

    fn flags(&self) -> u32 {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        flag(self.has_absent, HAS_ABSENT)
            | flag(self.has_inputs, HAS_INPUTS)
            | flag(self.has_views, HAS_VIEWS)
    }

    /// Reads the header of the batch in `memory`, and checks that every part that it names is
    /// within `memory`.
    ///
    /// # Errors
    /// A number that the layout does not allow, a part outside of the memory, or a name that is not
    /// UTF-8.
    pub fn decode(memory: &[u8]) -> Result<Header, LayoutError> {
        let Some(head) = memory.first_chunk::<HEADER_BYTES>() else {
            return Err(outside("header", 0, HEADER_BYTES as u64, memory));
        };
        let u32_at = |at: usize| u32::from_le_bytes(part(head, at));
        let u64_at = |at: usize| u64::from_le_bytes(part(head, at));
        expect("magic", u32_at(0).into(), u32_at(0) == MAGIC, "0x33424d50 (PMB3)")?;
        let header_bytes = u32_at(4);
        expect("header_bytes", header_bytes.into(), header_bytes as usize == HEADER_BYTES, "128")?;
        let header = Header {
            batch: u64_at(8),
            epoch: u32_at(16),
            has_absent: u32_at(20) & HAS_ABSENT != 0,
            has_inputs: u32_at(20) & HAS_INPUTS != 0,
            has_views: u32_at(20) & HAS_VIEWS != 0,
            records: u32_at(24),
            fields: u32_at(28),
            payload_at: u64_at(32),
            payload_bytes: u64_at(40),
            index_at: u64_at(48),
            object_at: u32_at(56),
            object_bytes: u32_at(60),
            first_record: u64_at(64),
            object_offset: u64_at(72),
            metadata_at: u32_at(80),
            metadata_bytes: u32_at(84),
            padding: u32_at(88),
            restart_header: u32_at(92),
            object_number: u64_at(96),
            restart_offset: u64_at(104),
            restart_records: u64_at(112),
            identity_at: u32_at(120),
            identity_bytes: u32_at(124),
        };
        header.check(memory)?;
        Ok(header)
    }

    fn check(&self, memory: &[u8]) -> Result<(), LayoutError> {
        let aligned = |at: u64| at.is_multiple_of(ALIGN as u64);
        expect("payload_at", self.payload_at, aligned(self.payload_at), "a multiple of 64")?;
        expect("index_at", self.index_at, aligned(self.index_at), "a multiple of 64")?;
        let is_padding = self.padding <= self.records;
        expect("padding", self.padding.into(), is_padding, "at most the number of records")?;
        within("payload", self.payload_at, self.payload_bytes, memory)?;
        self.check_index(memory)?;
        within("object name", self.object_at.into(), self.object_bytes.into(), memory)?;
        self.metadata(memory)?;
        self.identity(memory)?;
        self.object(memory).map(drop)
    }

    /// Checks that the table and all lists are within the memory.
    fn check_index(&self, memory: &[u8]) -> Result<(), LayoutError> {
        let table = self.table(memory)?;
        let listed = table.iter().filter(|entry| entry[1] == LISTED).count() as u64;
        let lists = u128::from(listed) * 2 * stride(self.records) as u128;
        let bytes = lists + table_bytes(self.fields as usize) as u128;
        within("index", self.index_at, u64::try_from(bytes).unwrap_or(u64::MAX), memory)?;
        table.iter().try_for_each(|[first, size]| {
            let number = u64::from(*first);
            let is_good = *size != LISTED || number < listed;
            expect("the number of a field's lists", number, is_good, "a number below theirs")?;
            expect("the size of a field's values", 0, *size > 0, "at least 1")
        })
    }

    /// The table of the index: two numbers for each field.
    fn table<'m>(&self, memory: &'m [u8]) -> Result<&'m [[u32; 2]], LayoutError> {
        let bytes = u64::from(self.fields) * ENTRY_BYTES as u64;
        let found = within("index", self.index_at, bytes, memory)?;
        let numbers =
            column(found).ok_or_else(|| outside("aligned index", self.index_at, bytes, memory))?;
        Ok(numbers.as_chunks().0)
    }

    /// The object's metadata in the memory that this header was read from: a JSON object of
    /// strings, or the empty string.
    ///
    /// # Errors
    /// Only if `memory` is another one: [`decode`](Header::decode) has checked the metadata.
    pub fn metadata<'m>(&self, memory: &'m [u8]) -> Result<&'m str, LayoutError> {
        let (at, bytes) = (self.metadata_at.into(), self.metadata_bytes.into());
        str::from_utf8(within("metadata", at, bytes, memory)?).map_err(|_| LayoutError::Metadata)
    }

    /// The object's identity in the memory that this header was read from, or the empty string.
    ///
    /// # Errors
    /// Only if `memory` is another one: [`decode`](Header::decode) has checked the identity.
    pub fn identity<'m>(&self, memory: &'m [u8]) -> Result<&'m str, LayoutError> {
        let (at, bytes) = (self.identity_at.into(), self.identity_bytes.into());
        str::from_utf8(within("identity", at, bytes, memory)?).map_err(|_| LayoutError::Identity)
    }

    /// The object's name in the memory that this header was read from.
    ///
    /// # Errors
    /// Only if `memory` is another one: [`decode`](Header::decode) has checked the name.
    pub fn object<'m>(&self, memory: &'m [u8]) -> Result<&'m str, LayoutError> {
        let bytes = within("object name", self.object_at.into(), self.object_bytes.into(), memory)?;
        str::from_utf8(bytes).map_err(|_| LayoutError::Name)
    }

    /// The payload in the memory that this header was read from.
    ///
    /// # Errors
    /// Only if `memory` is another one: [`decode`](Header::decode) has checked the payload.
    pub fn payload<'m>(&self, memory: &'m [u8]) -> Result<&'m [u8], LayoutError> {
        within("payload", self.payload_at, self.payload_bytes, memory)
    }

    /// Where the values of a field lie, in the memory that this header was read from.
    ///
    /// # Errors
    /// `field` is not below `fields`; `memory` is another one, or does not start at a multiple of
    /// 4.
    pub fn place<'m>(&self, memory: &'m [u8], field: usize) -> Result<Place<'m>, LayoutError> {
        let entry_at = self.index_at.saturating_add((field * ENTRY_BYTES) as u64);
        let entry = self.table(memory)?.get(field).copied();
        let [first, size] =
            entry.ok_or_else(|| outside("entry", entry_at, ENTRY_BYTES as u64, memory))?;
        if size != LISTED {
            return Ok(Place::Even(Even { first, size, records: self.records }));
        }
        let list = |part: usize| {
            let before = (2 * first as usize + part).saturating_mul(stride(self.records));
            let at = table_bytes(self.fields as usize).saturating_add(before);
            let at = self.index_at.saturating_add(at as u64);
            let bytes = within("list", at, u64::from(self.records) * 4, memory)?;
            column(bytes).ok_or_else(|| outside("aligned list", at, bytes.len() as u64, memory))
        };
        Ok(Place::Listed { offsets: list(0)?, lengths: list(1)? })
    }
}

/// Where the values of a field lie. Offsets count from the start of the payload.
///
/// The table has two `u32` for each field. The second one is the size of each value of even values,
/// which is not 0, and the first one the offset of the first of them. If the second one is
/// 0xFFFFFFFF, the first one is the number of the field's two lists, counted in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'m> {
    /// They have one size and follow each other.
    Even(Even),
    /// The index has lists of them, with an entry for each record.
    Listed {
        /// Offsets; [`ABSENT`] if a record does not have the field.
        offsets: &'m [u32],
        /// Lengths.
        lengths: &'m [u32],
    },
}

impl Place<'_> {
    /// Whether every value is within a payload of this many bytes, or absent.
    pub fn fits(&self, payload_bytes: u64) -> bool {
        match self {
            Place::Even(even) => {
                even.records == 0
                    || u128::from(even.first) + u128::from(even.bytes())
                        <= u128::from(payload_bytes)
            }
            Place::Listed { offsets, lengths } => spans_fit(offsets, lengths, payload_bytes),
        }
    }
}

/// The plan of a batch, according to which the host writes its parts: first the payload, then the
/// name, then the index. Positions are in bytes, from the start of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Position of the object's name.
    pub object_at: usize,
    /// Position of the index, a multiple of 64.
    pub index_at: usize,
    /// Length of the whole batch.
    pub end: usize,
}

impl Plan {
    /// The plan for a payload and an object's name, metadata and identity of these lengths in
    /// bytes, and for these numbers of fields and records. `listed` of the fields have lists. The
    /// three texts follow each other without a gap; `object` is their length together. `None` if
    /// the batch would not fit an address space.
    pub fn new(
        payload: usize,
        object: usize,
        fields: usize,
        listed: usize,
        records: usize,
    ) -> Option<Plan> {
        let object_at = HEADER_BYTES.checked_add(payload)?;
        let index_at = object_at.checked_add(object)?.checked_next_multiple_of(ALIGN)?;
        let column = records.checked_mul(4)?.checked_next_multiple_of(ALIGN)?;
        let lists = column.checked_mul(2)?.checked_mul(listed)?;
        let table = fields.checked_mul(ENTRY_BYTES)?.checked_next_multiple_of(ALIGN)?;
        Some(Plan { object_at, index_at, end: index_at.checked_add(table)?.checked_add(lists)? })
    }
}

/// Most bytes that the object's name and the index need after a payload of `payload` bytes: as many
/// as if all fields had lists. A batch fits if `payload + index_room(…)` is at most the length of
/// the writer's payload area. `usize::MAX` if no memory could hold the batch.
///
/// `object` is the length of name, metadata and identity in bytes, `fields` and `records` are
/// numbers of them.
pub fn index_room(payload: usize, object: usize, fields: usize, records: usize) -> usize {
    match Plan::new(payload, object, fields, fields, records) {
        Some(plan) => plan.end - HEADER_BYTES - payload,
        None => usize::MAX,
    }
}

/// Number of bytes that the views of `views` fields need after the index. `usize::MAX` if no memory
/// could hold them.
pub fn views_room(views: usize, records: usize) -> usize {
    views_stride(records).saturating_mul(views)
}

/// Distance in bytes from the start of one field's views to the start of the next.
pub fn views_stride(records: usize) -> usize {
    let bytes = records.checked_mul(VIEW_BYTES);
    bytes.and_then(|bytes| bytes.checked_next_multiple_of(ALIGN)).unwrap_or(usize::MAX)
}

/// Bytes of the table of this many fields, with the gap after it.
pub fn table_bytes(fields: usize) -> usize {
    (fields * ENTRY_BYTES).next_multiple_of(ALIGN)
}

/// Distance in bytes from the start of one list to the start of the next.
pub fn stride(records: u32) -> usize {
    (records as usize * 4).next_multiple_of(ALIGN)
}

/// Whether every span of one field is within a payload of `payload_bytes` bytes, or absent.
pub fn spans_fit(offsets: &[u32], lengths: &[u32], payload_bytes: u64) -> bool {
    // It never returns early, so that the compiler can vectorize it.
    offsets.iter().zip(lengths).fold(true, |fits, (&offset, &length)| {
        let absent = (offset == ABSENT) & (length == 0);
        fits & (absent | (u64::from(offset) + u64::from(length) <= payload_bytes))
    })
}

fn part<const N: usize>(head: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|i| head[at + i])
}

fn expect(what: &'static str, found: u64, fits: bool, wanted: &str) -> Result<(), LayoutError> {
    match fits {
        true => Ok(()),
        false => Err(LayoutError::Header { what, found, expected: wanted.into() }),
    }
}

fn outside(what: &'static str, at: u64, bytes: u64, memory: &[u8]) -> LayoutError {
    LayoutError::Outside { what, at, bytes, limit: memory.len() as u64 }
}

fn within<'m>(
    what: &'static str,
    at: u64,
    bytes: u64,
    memory: &'m [u8],
) -> Result<&'m [u8], LayoutError> {
    let range = usize::try_from(at).ok().zip(usize::try_from(bytes).ok());
    range
        .and_then(|(at, bytes)| memory.get(at..at.checked_add(bytes)?))
        .ok_or_else(|| outside(what, at, bytes, memory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::column::column_bytes;
    use proptest::prelude::*;

    /// Memory that starts at a multiple of 64, as every slot does.
    #[repr(align(64))]
    struct Aligned([u8; 2048]);

    fn header() -> impl Strategy<Value = Header> {
        (any::<u64>(), any::<u32>(), any::<bool>(), 0..20u32, 0..4u32, 0..300u64, 0..40u32)
            .prop_map(
                |(number, epoch, has_absent, records, fields, payload_bytes, object_bytes)| {
                    let (payload, object) = (payload_bytes as usize, object_bytes as usize);
                    let plan = Plan::new(payload, object, fields as usize, 0, records as usize);
                    let plan = plan.unwrap();
                    Header {
                        batch: number,
                        epoch,
                        has_absent,
                        has_inputs: !has_absent && number % 2 == 1,
                        has_views: number % 3 == 1,
                        records,
                        fields,
                        payload_at: 128,
                        payload_bytes,
                        index_at: plan.index_at as u64,
                        object_at: plan.object_at as u32,
                        object_bytes,
                        first_record: number / 2,
                        object_offset: number / 3,
                        metadata_at: plan.object_at as u32,
                        metadata_bytes: object_bytes,
                        padding: records / 2,
                        restart_header: records / 3,
                        object_number: number / 5,
                        restart_offset: number / 7,
                        restart_records: number / 11,
                        identity_at: plan.object_at as u32,
                        identity_bytes: object_bytes,
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn an_encoded_header_decodes_to_the_same(
            header in header(), is_listed in proptest::collection::vec(any::<bool>(), 4)
        ) {
            let listed = is_listed.iter().take(header.fields as usize).filter(|is| **is).count();
            let table = table_bytes(header.fields as usize);
            let at = header.index_at as usize;
            let end = at + table + 2 * listed * stride(header.records);
            let mut memory = Aligned([0; 2048]);
            memory.0[..HEADER_BYTES].copy_from_slice(&header.encode());
            let mut lists = 0;
            for (field, is_listed) in is_listed.iter().take(header.fields as usize).enumerate() {
                let entry = if *is_listed { [lists, LISTED] } else { [field as u32, 3] };
                lists += u32::from(*is_listed);
                memory.0[at + 8 * field..][..8].copy_from_slice(column_bytes(&entry));
            }
            let memory = &memory.0[..end];
            prop_assert_eq!(Header::decode(memory), Ok(header));
            for field in 0..header.fields {
                match header.place(memory, field as usize).unwrap() {
                    Place::Even(even) => {
                        let records = header.records;
                        prop_assert_eq!(even, Even { first: field, size: 3, records });
                    }
                    Place::Listed { offsets, lengths } => {
                        prop_assert!(is_listed[field as usize]);
                        let records = header.records as usize;
                        prop_assert_eq!((offsets.len(), lengths.len()), (records, records));
                    }
                }
            }
            // With one byte less, some part is outside: the last byte is that of a list.
            if listed > 0 && header.records > 0 {
                prop_assert!(Header::decode(&memory[..end - 1]).is_err());
            }
        }

        /// In a valid header, one number is replaced by garbage.
        #[test]
        fn a_damaged_header_is_an_error_or_names_parts_within_the_memory(
            header in header(), at in 0usize..32, garbage in prop_oneof![any::<u32>(), 0..1100u32]
        ) {
            let mut memory = Aligned([0; 2048]);
            memory.0[..HEADER_BYTES].copy_from_slice(&header.encode());
            memory.0[at * 4..at * 4 + 4].copy_from_slice(&garbage.to_le_bytes());
            if let Ok(read) = Header::decode(&memory.0) {
                prop_assert_eq!(read.payload(&memory.0).unwrap().len() as u64, read.payload_bytes);
                prop_assert_eq!(read.object(&memory.0).unwrap().len(), read.object_bytes as usize);
                let metadata = read.metadata(&memory.0).unwrap();
                prop_assert_eq!(metadata.len(), read.metadata_bytes as usize);
                let identity = read.identity(&memory.0).unwrap();
                prop_assert_eq!(identity.len(), read.identity_bytes as usize);
                for field in 0..(read.fields as usize).min(1000) {
                    let place = read.place(&memory.0, field).unwrap();
                    if let Place::Listed { offsets, lengths } = place {
                        prop_assert_eq!(offsets.len(), read.records as usize);
                        prop_assert_eq!(lengths.len(), read.records as usize);
                    }
                }
            }
        }

        #[test]
        fn index_room_is_what_the_plan_needs(
            payload in 0usize..1000,
            object in 0usize..100,
            fields in 0usize..5,
            records in 0usize..100,
        ) {
            let plan = Plan::new(payload, object, fields, fields, records).unwrap();
            let room = index_room(payload, object, fields, records);
            prop_assert_eq!(HEADER_BYTES + payload + room, plan.end);
            prop_assert!(plan.index_at.is_multiple_of(ALIGN));
            prop_assert!(plan.object_at + object <= plan.index_at);
        }
    }

    #[test]
    fn the_header_has_the_bytes_of_the_contract() {
        let header = Header {
            batch: 0x0807_0605_0403_0201,
            epoch: 7,
            has_absent: true,
            records: 9,
            payload_at: 128,
            object_at: 130,
            metadata_at: 131,
            metadata_bytes: 2,
            padding: 3,
            restart_header: 9,
            object_number: 4,
            restart_offset: 5,
            restart_records: 6,
            identity_at: 7,
            identity_bytes: 8,
            ..Header::default()
        };
        let bytes = header.encode();
        assert_eq!(&bytes[..16], b"PMB3\x80\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08");
        assert_eq!(&bytes[16..28], &[7, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0]);
        assert_eq!((bytes[32], bytes[56], bytes[80], bytes[84]), (128, 130, 131, 2));
        assert_eq!((bytes[88], bytes[92], bytes[96], bytes[104]), (3, 9, 4, 5));
        assert_eq!((bytes[112], bytes[120], bytes[124]), (6, 7, 8));
    }

    #[test]
    fn index_room_is_usize_max_for_a_batch_beyond_the_address_space() {
        assert_eq!(index_room(usize::MAX - 5, 10, 1, 1), usize::MAX);
        assert_eq!(index_room(0, 0, usize::MAX / 4, 100), usize::MAX);
    }
}
