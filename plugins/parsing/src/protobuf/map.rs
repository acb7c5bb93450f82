//! A `map<string, message>` of which only some keys are wanted.

use std::ops::Range;

use super::{MessageReader, Pieces, WireError};

/// The index of a key that is not wanted.
const NOT_WANTED: usize = usize::MAX;

/// The values of the wanted keys of one map. One value serves many records, so that its memory is
/// reused.
#[derive(Debug)]
pub struct MessageMap {
    /// The wanted keys. All indexes below count in this list.
    keys: Vec<Vec<u8>>,
    /// The indexes of the keys, sorted by the bytes of the keys.
    sorted: Vec<usize>,
    /// The value of each key.
    values: Vec<MapValue>,
    /// The value of the entry that is being read.
    value: Pieces,
    /// For each entry of the previous map, the index of its key: a guess for the next map, because
    /// the records of a file almost always have their keys in the same order.
    previous_order: Vec<usize>,
    /// Entries of this map so far.
    entries: usize,
}

#[derive(Debug, Default)]
struct MapValue {
    found: bool,
    message: Pieces,
}

impl MessageMap {
    /// A map of which only these keys are wanted.
    pub fn new<'a>(keys: impl Iterator<Item = &'a str>) -> Self {
        let keys: Vec<_> = keys.map(|key| key.as_bytes().to_vec()).collect();
        let mut sorted: Vec<_> = (0..keys.len()).collect();
        sorted.sort_by(|a, b| keys[*a].cmp(&keys[*b]));
        let values = keys.iter().map(|_| MapValue::default()).collect();
        let (value, previous_order) = (Pieces::default(), Vec::new());
        Self { keys, sorted, values, value, previous_order, entries: 0 }
    }

    /// Starts the next map.
    #[inline(always)]
    pub fn clear(&mut self) {
        for value in &mut self.values {
            value.found = false;
        }
        self.entries = 0;
    }

    /// Adds one entry of the map. If several entries have the same key, the last one counts.
    ///
    /// # Errors
    /// The entry is invalid.
    #[inline]
    pub fn add(&mut self, bytes: &[u8], entry: Range<usize>) -> Result<(), WireError> {
        let key = read_entry(bytes, entry, &mut self.value)?;
        let index = self.find(&bytes[key]);
        if let Some(value) = self.values.get_mut(index) {
            value.found = true;
            std::mem::swap(&mut value.message, &mut self.value);
        }
        Ok(())
    }

    /// The value of the wanted key with this index; `None` if the map does not have it.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&Pieces> {
        let value = &self.values[index];
        value.found.then_some(&value.message)
    }

    /// The value of each wanted key; `None` if the map does not have it.
    #[inline(always)]
    pub fn values(&self) -> impl Iterator<Item = Option<&Pieces>> {
        self.values.iter().map(|value| value.found.then_some(&value.message))
    }

    /// The index of the key of the next entry.
    #[inline(always)]
    fn find(&mut self, key: &[u8]) -> usize {
        let entry = self.entries;
        self.entries += 1;
        if let Some(guess) = self.previous_order.get(entry)
            && self.keys.get(*guess).is_some_and(|guessed| guessed == key)
        {
            return *guess;
        }
        let found = self.sorted.binary_search_by(|index| self.keys[*index].as_slice().cmp(key));
        let index = found.map_or(NOT_WANTED, |place| self.sorted[place]);
        // The limit keeps a huge map in the input from using unlimited memory.
        if entry < 4 * self.keys.len() {
            self.previous_order.resize(self.previous_order.len().max(entry + 1), NOT_WANTED);
            self.previous_order[entry] = index;
        }
        index
    }
}

/// Reads one entry of a map: returns the range of its key and puts its value into `value`.
#[inline(always)]
fn read_entry(
    bytes: &[u8],
    entry: Range<usize>,
    value: &mut Pieces,
) -> Result<Range<usize>, WireError> {
    let mut key = entry.start..entry.start;
    value.clear();
    let mut reader = MessageReader::new(bytes, entry);
    while let Some(field) = reader.next()? {
        match field.number {
            1 => key = field.bytes()?,
            2 => value.push(field.bytes()?),
            _ => {}
        }
    }
    Ok(key)
}

/// Reads one entry of a map, wanted or not: the range of its key, and its value.
///
/// # Errors
/// The entry is invalid.
pub fn read_map_entry(
    bytes: &[u8],
    entry: Range<usize>,
) -> Result<(Range<usize>, Pieces), WireError> {
    let mut value = Pieces::default();
    let key = read_entry(bytes, entry, &mut value)?;
    Ok((key, value))
}
