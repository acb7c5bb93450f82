//! A `map<string, message>` of which some keys are wanted.

use std::ops::Range;

use super::{Fault, Pieces, Reader};

/// No wanted key.
const OTHER: usize = usize::MAX;

/// The values of the wanted keys in the map that was read last. Kept for its memory.
#[derive(Debug)]
pub struct Map {
    keys: Vec<Vec<u8>>,
    /// The numbers of the keys in the order of their bytes.
    sorted: Vec<usize>,
    values: Vec<Value>,
    /// The value of the entry that is read.
    value: Pieces,
    /// Which key each entry had in the map before: nearly always the same.
    order: Vec<usize>,
    entries: usize,
}

#[derive(Debug, Default)]
struct Value {
    found: bool,
    message: Pieces,
}

impl Map {
    /// A map of which these keys are wanted.
    pub fn new<'a>(keys: impl Iterator<Item = &'a str>) -> Self {
        let keys: Vec<_> = keys.map(|key| key.as_bytes().to_vec()).collect();
        let mut sorted: Vec<_> = (0..keys.len()).collect();
        sorted.sort_by(|a, b| keys[*a].cmp(&keys[*b]));
        let values = keys.iter().map(|_| Value::default()).collect();
        Self { keys, sorted, values, value: Pieces::default(), order: Vec::new(), entries: 0 }
    }

    /// Begins another map.
    #[inline(always)]
    pub fn clear(&mut self) {
        for value in &mut self.values {
            value.found = false;
        }
        self.entries = 0;
    }

    /// Takes one entry of the map. Of several with the same key, the last one counts.
    #[inline]
    pub fn add(&mut self, bytes: &[u8], entry: Range<usize>) -> Result<(), Fault> {
        let key = read_entry(bytes, entry, &mut self.value)?;
        let number = self.find(&bytes[key]);
        if let Some(value) = self.values.get_mut(number) {
            value.found = true;
            std::mem::swap(&mut value.message, &mut self.value);
        }
        Ok(())
    }

    /// The value of the key with this number, if the map has it.
    #[inline(always)]
    pub fn get(&self, number: usize) -> Option<&Pieces> {
        let value = &self.values[number];
        value.found.then_some(&value.message)
    }

    /// The value of each key, if the map has it.
    #[inline(always)]
    pub fn values(&self) -> impl Iterator<Item = Option<&Pieces>> {
        self.values.iter().map(|value| value.found.then_some(&value.message))
    }

    /// Number of a key.
    #[inline(always)]
    fn find(&mut self, key: &[u8]) -> usize {
        let entry = self.entries;
        self.entries += 1;
        if let Some(before) = self.order.get(entry)
            && self.keys.get(*before).is_some_and(|before| before == key)
        {
            return *before;
        }
        let found = self.sorted.binary_search_by(|number| self.keys[*number].as_slice().cmp(key));
        let number = found.map_or(OTHER, |place| self.sorted[place]);
        // A map of any size must not make this grow without end.
        if entry < 4 * self.keys.len() {
            self.order.resize(self.order.len().max(entry + 1), OTHER);
            self.order[entry] = number;
        }
        number
    }
}

/// Reads one entry of a map: where its key lies, and into `value` what it is mapped to.
#[inline(always)]
fn read_entry(
    bytes: &[u8],
    entry: Range<usize>,
    value: &mut Pieces,
) -> Result<Range<usize>, Fault> {
    let mut key = entry.start..entry.start;
    value.clear();
    let mut reader = Reader::new(bytes, entry);
    while let Some(entry) = reader.next()? {
        match entry.number {
            1 => key = entry.bytes()?,
            2 => value.push(entry.bytes()?),
            _ => {}
        }
    }
    Ok(key)
}

/// One entry of a map, wanted or not: where its key lies, and its value.
pub fn entry(bytes: &[u8], entry: Range<usize>) -> Result<(Range<usize>, Pieces), Fault> {
    let mut value = Pieces::default();
    let key = read_entry(bytes, entry, &mut value)?;
    Ok((key, value))
}
