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

/// Number of objects of a segment of the list, and of a row group of the file.
pub(crate) const SEGMENT: usize = 1 << 16;

/// The objects of an index, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    /// All segments but the last have [`SEGMENT`] objects. So a list that several threads read is
    /// put together without a copy.
    segments: Vec<Segment>,
}

/// Objects that follow each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Segment {
    /// Number of records of all segments before.
    first_record: u64,
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
    /// Number of records of this object and of all before it in its segment.
    records_end: u64,
    errors: u64,
    /// Number of places of this object and of all before it in its segment.
    places_end: usize,
}

impl Segment {
    fn count(&self) -> usize {
        self.numbers.len()
    }

    fn name(&self, at: usize) -> &str {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before][1]);
        &self.texts[begin..self.ends[at][0]]
    }

    /// Number of records of all objects before this one in the segment.
    fn records_before(&self, at: usize) -> u64 {
        at.checked_sub(1).map_or(0, |before| self.numbers[before].records_end)
    }

    fn records(&self) -> u64 {
        self.records_before(self.count())
    }

    fn object(&self, at: usize) -> IndexedObject<'_> {
        let Numbers { size, records_end, errors, places_end } = self.numbers[at];
        let [name_end, identity_end] = self.ends[at];
        let first_place = at.checked_sub(1).map_or(0, |before| self.numbers[before].places_end);
        IndexedObject {
            name: self.name(at),
            identity: &self.texts[name_end..identity_end],
            size,
            records: records_end - self.records_before(at),
            errors,
            places: &self.places[first_place..places_end],
        }
    }

    fn push(&mut self, object: IndexedObject<'_>) {
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

impl Objects {
    /// Number of objects.
    pub fn count(&self) -> usize {
        let Some(last) = self.segments.last() else { return 0 };
        (self.segments.len() - 1) * SEGMENT + last.numbers.len()
    }

    /// The segment of the object with this number, and the object's number in it. `None` if there
    /// are fewer objects.
    fn find(&self, number: usize) -> Option<(&Segment, usize)> {
        let segment = self.segments.get(number / SEGMENT)?;
        Some((segment, number % SEGMENT)).filter(|(segment, at)| *at < segment.numbers.len())
    }

    /// The object with this number, from 0. `None` if there are fewer.
    pub fn get(&self, number: usize) -> Option<IndexedObject<'_>> {
        self.find(number).map(|(segment, at)| segment.object(at))
    }

    /// The name of the object with this number. `None` if there are fewer.
    pub fn name(&self, number: usize) -> Option<&str> {
        self.find(number).map(|(segment, at)| segment.name(at))
    }

    /// The size of the object with this number. `None` if there are fewer.
    pub fn size(&self, number: usize) -> Option<u64> {
        self.find(number).map(|(segment, at)| segment.numbers[at].size)
    }

    /// Number of records of the object with this number. `None` if there are fewer.
    pub fn records_of(&self, number: usize) -> Option<u64> {
        let (segment, at) = self.find(number)?;
        Some(segment.numbers[at].records_end - segment.records_before(at))
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = IndexedObject<'_>> {
        let of_segment = |segment| (0..Segment::count(segment)).map(move |at| segment.object(at));
        self.segments.iter().flat_map(of_segment)
    }

    /// Number of records of all objects.
    pub fn records(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.first_record.saturating_add(last.records()))
    }

    /// Number of records of all objects before the one with this number.
    pub fn first_record(&self, number: usize) -> u64 {
        let found = self.find(number);
        let before = found
            .map(|(segment, at)| segment.first_record.saturating_add(segment.records_before(at)));
        before.unwrap_or_else(|| self.records())
    }

    /// Stored bytes of all objects.
    pub fn bytes(&self) -> u64 {
        let sizes = self.segments.iter().flat_map(|segment| &segment.numbers).map(|one| one.size);
        sizes.fold(0, u64::saturating_add)
    }

    /// Number of places of all objects.
    pub fn places(&self) -> usize {
        self.segments.iter().map(|segment| segment.places.len()).sum()
    }

    /// Bytes that they take in memory.
    pub fn memory(&self) -> u64 {
        let of_segment = |segment: &Segment| {
            let inflate: usize = segment.places.iter().map(|place| place.inflate.len()).sum();
            let fixed = size_of::<[usize; 2]>() + size_of::<Numbers>();
            let places = segment.places.len() * size_of::<Place>();
            segment.texts.len() + segment.numbers.len() * fixed + places + inflate
        };
        self.segments.iter().map(of_segment).sum::<usize>() as u64
    }

    /// Makes room for this many more objects, whose names and identities have `texts` bytes, if
    /// they are added to the last segment.
    pub(crate) fn reserve(&mut self, objects: usize, texts: usize) {
        if objects == 0 {
            return;
        }
        let segment = self.last_segment();
        segment.texts.reserve(texts);
        segment.ends.reserve(objects);
        segment.numbers.reserve(objects);
    }

    /// All of these objects, one list after the other.
    pub(crate) fn joined(lists: Vec<Self>) -> Self {
        let mut all = Self::default();
        lists.into_iter().for_each(|list| all.append(list));
        all
    }

    /// Adds all of these objects. They are not copied if the last segment is full.
    fn append(&mut self, others: Self) {
        if !self.count().is_multiple_of(SEGMENT) {
            return others.iter().for_each(|object| self.push(object));
        }
        self.segments.retain(|segment| segment.count() > 0);
        for segment in others.segments.into_iter().filter(|segment| segment.count() > 0) {
            let first_record = self.records();
            self.segments.push(Segment { first_record, ..segment });
        }
    }

    /// The segment that the next object is added to.
    fn last_segment(&mut self) -> &mut Segment {
        if self.count().is_multiple_of(SEGMENT)
            && self.segments.last().is_none_or(|last| last.count() > 0)
        {
            let first_record = self.records();
            self.segments.push(Segment { first_record, ..Segment::default() });
        }
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    /// Adds an object.
    pub fn push(&mut self, object: IndexedObject<'_>) {
        self.last_segment().push(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object of a long list. Some have places.
    fn push(objects: &mut Objects, number: usize) {
        let (name, identity) = (format!("folder/{number}"), format!("v1:{}", number * 3));
        let place =
            |record| Place { record, offset: record + 1, header: 0, inflate: Box::default() };
        let places: Vec<_> = (0..number as u64 % 3).map(place).collect();
        let (size, records, errors) = (number as u64, number as u64 % 7, number as u64 % 2);
        let (name, identity) = (&*name, &*identity);
        objects.push(IndexedObject { name, identity, size, records, errors, places: &places });
    }

    fn list(numbers: std::ops::Range<usize>) -> Objects {
        let mut objects = Objects::default();
        objects.reserve(numbers.len(), 0);
        numbers.for_each(|number| push(&mut objects, number));
        objects
    }

    #[test]
    fn lists_of_any_length_are_one_list_afterwards() {
        for lengths in
            [&[SEGMENT, SEGMENT, 3][..], &[SEGMENT, 5, SEGMENT, 9], &[0, SEGMENT, 0, 2], &[7], &[]]
        {
            let mut from = 0;
            let lists = lengths.iter().map(|length| {
                from += length;
                list(from - length..from)
            });
            let joined = Objects::joined(lists.collect());
            assert_eq!(joined, list(0..from), "{lengths:?}");
        }
    }

    #[test]
    fn each_object_is_found_by_its_number() {
        let count = 2 * SEGMENT + 5;
        let objects = list(0..count);
        assert_eq!((objects.count(), objects.iter().count()), (count, count));
        let (mut records, mut bytes, mut places) = (0, 0, 0);
        for (number, object) in objects.iter().enumerate() {
            assert_eq!(objects.first_record(number), records);
            assert_eq!(objects.get(number), Some(object));
            assert_eq!(objects.name(number), Some(object.name));
            assert_eq!((object.name, object.size), (&*format!("folder/{number}"), number as u64));
            assert_eq!(objects.size(number), Some(object.size));
            assert_eq!(objects.records_of(number), Some(object.records));
            records += object.records;
            bytes += object.size;
            places += object.places.len();
        }
        assert_eq!((objects.records(), objects.first_record(count)), (records, records));
        assert_eq!((objects.bytes(), objects.places()), (bytes, places));
        let (name, size) = (objects.name(count), objects.size(count));
        assert_eq!(
            (objects.get(count), name, size, objects.records_of(count)),
            (None, None, None, None)
        );
    }
}
