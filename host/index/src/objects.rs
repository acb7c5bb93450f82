//! The objects of an index and their places, in memory: some 60 bytes for each object with its name
//! and identity, and 40 bytes for each place.

/// A place in an object at which decoding can begin, other than its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Number of the record that begins there, from 0.
    pub record: u64,
    /// Byte offset in the object, after decompression.
    pub offset: u64,
    /// Bytes at the object's start that its decoder must be shown first; at most `offset`.
    pub header: u32,
    /// What a decompressor needs to begin there; empty for an object that is not compressed.
    pub inflate: Box<[u8]>,
}

/// An object of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexedObject<'a> {
    /// Its name below the root of the index: a path, or an address in S3.
    pub name: &'a str,
    /// Identifies its content, as in states.
    pub identity: &'a str,
    /// Its stored size in bytes.
    pub size: u64,
    /// Number of its records.
    pub records: u64,
    /// Number of decode errors that were skipped.
    pub errors: u64,
    /// Its places, in their order. The start of the object is none of them.
    pub places: &'a [Place],
}

/// The objects of an index, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    /// Names and identities, one after the other.
    texts: String,
    /// For each object, the ends of its name and of its identity in `texts`.
    ends: Vec<[usize; 2]>,
    numbers: Vec<Numbers>,
    places: Vec<Place>,
}

/// The numbers of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    size: u64,
    /// Number of records of this object and of all before it.
    records_end: u64,
    errors: u64,
    /// Number of places of this object and of all before it.
    places_end: usize,
}

impl Objects {
    /// Number of objects.
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    /// The object with this number, from 0. `None` if there are fewer.
    pub fn get(&self, number: usize) -> Option<IndexedObject<'_>> {
        let Numbers { size, records_end, errors, places_end } = *self.numbers.get(number)?;
        let [name_end, identity_end] = self.ends[number];
        let before = number.checked_sub(1);
        let begin = before.map_or(0, |before| self.ends[before][1]);
        let first_place = before.map_or(0, |before| self.numbers[before].places_end);
        Some(IndexedObject {
            name: &self.texts[begin..name_end],
            identity: &self.texts[name_end..identity_end],
            size,
            records: records_end - self.first_record(number),
            errors,
            places: &self.places[first_place..places_end],
        })
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = IndexedObject<'_>> {
        (0..self.count()).filter_map(|number| self.get(number))
    }

    /// Number of records of all objects.
    pub fn records(&self) -> u64 {
        self.first_record(self.count())
    }

    /// Number of records of all objects before the one with this number.
    pub fn first_record(&self, number: usize) -> u64 {
        let before = number.checked_sub(1).and_then(|before| self.numbers.get(before));
        before.map_or(0, |before| before.records_end)
    }

    /// Stored bytes of all objects.
    pub fn bytes(&self) -> u64 {
        self.numbers.iter().fold(0, |sum, one| sum.saturating_add(one.size))
    }

    /// Number of places of all objects.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Bytes that they take in memory.
    pub fn memory(&self) -> u64 {
        let inflate: usize = self.places.iter().map(|place| place.inflate.len()).sum();
        let fixed = size_of::<[usize; 2]>() + size_of::<Numbers>();
        let places = self.places.len() * size_of::<Place>();
        (self.texts.len() + self.count() * fixed + places + inflate) as u64
    }

    /// Makes room for this many more objects, whose names and identities have `texts` bytes.
    pub(crate) fn reserve(&mut self, objects: usize, texts: usize) {
        self.texts.reserve(texts);
        self.ends.reserve(objects);
        self.numbers.reserve(objects);
    }

    /// All of these objects, one list after the other.
    pub(crate) fn joined(mut lists: Vec<Self>) -> Self {
        if lists.len() == 1 {
            return lists.pop().unwrap_or_default();
        }
        let mut all = Self::default();
        let sum = |count: fn(&Self) -> usize| lists.iter().map(count).sum();
        all.reserve(sum(Self::count), sum(|one| one.texts.len()));
        all.places.reserve(sum(Self::places));
        lists.into_iter().for_each(|list| all.append(list));
        all
    }

    /// Adds all of these objects.
    fn append(&mut self, others: Self) {
        let Self { texts, ends, numbers, places } = others;
        let (text, place, record) = (self.texts.len(), self.places.len(), self.records());
        self.texts.push_str(&texts);
        self.ends.extend(ends.into_iter().map(|ends| ends.map(|end| text + end)));
        let moved = |one: Numbers| Numbers {
            records_end: record.saturating_add(one.records_end),
            places_end: place + one.places_end,
            ..one
        };
        self.numbers.extend(numbers.into_iter().map(moved));
        self.places.extend(places);
    }

    /// Adds an object.
    pub fn push(&mut self, object: IndexedObject<'_>) {
        let IndexedObject { name, identity, size, records, errors, places } = object;
        self.texts.push_str(name);
        let name_end = self.texts.len();
        self.texts.push_str(identity);
        self.ends.push([name_end, self.texts.len()]);
        self.places.extend_from_slice(places);
        let places_end = self.places.len();
        let records_end = self.records().saturating_add(records);
        self.numbers.push(Numbers { size, records_end, errors, places_end });
    }
}
