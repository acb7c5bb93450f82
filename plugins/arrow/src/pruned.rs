//! A batch with the buffers of wanted columns alone: its metadata, changed so that it names their
//! new places.

use std::ops::Range;

use crate::blocks::Block;
use crate::columns::{Layout, ListForm, Storage};
use crate::message::{BatchHeader, Framing, Message, MessageKind, Prefix};
use crate::plan::Buffers;
use crate::stream::VERSIONS;

/// Buffers that are no further apart are read together with what is between them: padding.
const NEAR: u64 = 64;
/// A batch is read as a whole if more of its body is wanted, in sixteenths.
const MOST: u64 = 15;
/// Bytes of a buffer's place in the metadata, and of a number.
const PAIR: usize = 16;
const NUMBER: usize = 8;

/// A batch without the columns that nobody wants.
pub(crate) struct Pruned {
    /// Its metadata, without a prefix. The body has these buffers alone.
    pub(crate) metadata: Vec<u8>,
    /// The places of the buffers in the file.
    pub(crate) places: Vec<Range<u64>>,
    /// Bytes of the buffers.
    pub(crate) bytes: u64,
}

impl Pruned {
    /// The batch with this prefix and metadata. `None` if it has to be read as a whole: little is
    /// left out, or the metadata does not say what the footer says.
    pub(crate) fn of(head: &[u8], block: &Block, layout: &Layout) -> Option<Self> {
        let Prefix::Metadata(place) = Framing::Marked.read(head, head.len()) else { return None };
        let before = head.get(place.clone())?;
        let message = sound(before)?;
        let body = block.size() - block.head;
        if place.end != head.len() || message.body != body {
            return None;
        }
        let batch = BatchHeader::read(&message.header, layout.size).ok()?;
        let mut wanted = Vec::new();
        for number in buffers(layout, &batch) {
            let (offset, length) = batch.place(number);
            let (offset, length) = (u64::try_from(offset).ok()?, u64::try_from(length).ok()?);
            if offset.checked_add(length)? > body {
                return None;
            }
            wanted.push((offset..offset + length, number));
        }
        wanted.sort_by_key(|(range, number)| (range.start, *number));
        let mut places: Vec<Range<u64>> = Vec::new();
        let (mut moved, mut bytes) = (Vec::new(), 0);
        for (range, number) in wanted {
            match places.last_mut() {
                _ if range.is_empty() => {
                    moved.push((number, 0, 0));
                    continue;
                }
                Some(last) if (last.start..=last.end + NEAR).contains(&range.start) => {
                    let end = last.end.max(range.end);
                    bytes += end - last.end;
                    last.end = end;
                }
                _ => {
                    bytes += range.end - range.start;
                    places.push(range.clone());
                }
            }
            let last = places.last()?;
            let start = bytes - (last.end - last.start) + (range.start - last.start);
            moved.push((number, start, range.end - range.start));
        }
        if bytes > body / 16 * MOST || places.is_empty() {
            return None;
        }
        let mut metadata = before.to_vec();
        let first = message.header.elements(2, PAIR).ok()?.start;
        let mut put = |at: usize, value: u64| {
            let bytes = metadata.get_mut(at..)?.first_chunk_mut::<NUMBER>()?;
            *bytes = value.to_le_bytes();
            Some(())
        };
        for number in 0..batch.count() {
            put(first + number * PAIR, 0)?;
            put(first + number * PAIR + NUMBER, 0)?;
        }
        for (number, offset, length) in &moved {
            put(first + number * PAIR, *offset)?;
            put(first + number * PAIR + NUMBER, *length)?;
        }
        put(message.place_of_body()?, bytes)?;
        // In a damaged file, the numbers may lie in what other facts are read from.
        let now = sound(&metadata)?;
        let now_batch = BatchHeader::read(&now.header, layout.size).ok()?;
        let is_moved = |(number, offset, length): &(usize, u64, u64)| {
            now_batch.place(*number) == (*offset as i64, *length as i64)
        };
        let is_same = now_batch.is_same_but_for_places(&batch) && now.version == message.version;
        let is_sound = is_same && now.body == bytes && moved.iter().all(is_moved);
        let places = places.into_iter().map(|range| {
            let start = block.place.start + block.head;
            start + range.start..start + range.end
        });
        is_sound.then(|| Self { places: places.collect(), bytes, metadata })
    }
}

/// Number of rows of the batch with this prefix and metadata, if they are sound.
pub(crate) fn rows(head: &[u8], layout: &Layout) -> Option<u64> {
    let Prefix::Metadata(place) = Framing::Marked.read(head, head.len()) else { return None };
    let message = sound(head.get(place)?)?;
    BatchHeader::read(&message.header, layout.size).ok().map(|batch| batch.rows as u64)
}

/// The metadata of a batch.
fn sound(metadata: &[u8]) -> Option<Message<'_>> {
    let message = Message::read(metadata).ok()?;
    let is_batch = message.kind == MessageKind::Batch && VERSIONS.contains(&message.version);
    is_batch.then_some(message)
}

/// The numbers of the buffers that the columns need.
fn buffers(layout: &Layout, batch: &BatchHeader) -> Buffers {
    let mut all = Buffers::new();
    for column in &layout.columns {
        let structs = column.structs.iter().map(|slot| (*slot, 1));
        let lists = column.lists.iter().map(|list| {
            let count = match list.form {
                ListForm::Offsets { .. } => 2,
                ListForm::View { .. } => 3,
                ListForm::Fixed(_) => 1,
            };
            (list.slot, count)
        });
        let leaf = &column.values;
        let count = match leaf.storage {
            Storage::None => 0,
            Storage::Bits | Storage::Fixed(_) => 2,
            Storage::Offsets { .. } => 3,
            Storage::Views => 2 + batch.long_buffers(leaf.slot),
        };
        for (slot, count) in structs.chain(lists).chain([(leaf.slot, count)]) {
            let first = batch.first_buffer(slot);
            all.extend(first..first + count);
        }
    }
    all
}
