//! Reads and writes the columns of the file.

use std::io::Write;
use std::ops::Range;

use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::RowGroupReader;
use parquet::file::writer::SerializedRowGroupWriter;

use crate::objects::{IndexedObject, Objects, Place};

/// The schema of the file of an index of objects alone.
const OBJECTS_SCHEMA: &str = "
message pipemill_index {
  required binary object (STRING);
  required binary identity (STRING);
  required int64 size;
}";

/// The schema of the file, in Parquet's own language.
const SCHEMA: &str = "
message pipemill_index {
  required binary object (STRING);
  required binary identity (STRING);
  required int64 size;
  required int64 records;
  required int64 errors;
  required group places (LIST) {
    repeated group list {
      required group element {
        required int64 record;
        required int64 offset;
        required int32 header;
        required binary inflate;
      }
    }
  }
}";

/// The schema of an index; of an index of objects alone, it has fewer columns.
pub(crate) fn schema(objects_only: bool) -> &'static str {
    if objects_only { OBJECTS_SCHEMA } else { SCHEMA }
}

/// The columns of some objects.
#[derive(Default)]
struct Columns {
    names: Vec<ByteArray>,
    identities: Vec<ByteArray>,
    sizes: Vec<i64>,
    records: Vec<i64>,
    errors: Vec<i64>,
    places: PlaceColumns,
}

/// The columns of the places, with the levels that say which of them are of one object.
#[derive(Default)]
struct PlaceColumns {
    levels: Levels,
    records: Vec<i64>,
    offsets: Vec<i64>,
    headers: Vec<i32>,
    inflate: Vec<ByteArray>,
}

/// Definition and repetition levels: see the Parquet format.
#[derive(Default, PartialEq)]
struct Levels {
    /// 1 for a place, 0 for an object without places.
    defined: Vec<i16>,
    /// 0 for the first place of an object and for an object without places, 1 for all others.
    repeated: Vec<i16>,
}

impl Columns {
    fn push(&mut self, object: IndexedObject<'_>) {
        self.names.push(object.name.as_bytes().to_vec().into());
        self.identities.push(object.identity.as_bytes().to_vec().into());
        self.sizes.push(signed(object.size));
        self.records.push(signed(object.records));
        self.errors.push(signed(object.errors));
        self.places.push(object.places);
    }
}

impl PlaceColumns {
    fn push(&mut self, places: &[Place]) {
        if places.is_empty() {
            self.levels.defined.push(0);
            self.levels.repeated.push(0);
        }
        for (number, place) in places.iter().enumerate() {
            self.levels.defined.push(1);
            self.levels.repeated.push(i16::from(number > 0));
            self.records.push(signed(place.record));
            self.offsets.push(signed(place.offset));
            self.headers.push(i32::try_from(place.header).unwrap_or(i32::MAX));
            self.inflate.push(place.inflate.to_vec().into());
        }
    }
}

/// No number of an index comes near the limit.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Writes some of the objects as a row group.
pub(crate) fn write_objects<W: Write + Send>(
    mut group: SerializedRowGroupWriter<'_, W>,
    objects: &Objects,
    range: Range<usize>,
    objects_only: bool,
) -> Result<()> {
    let mut columns = Columns::default();
    range.filter_map(|number| objects.get(number)).for_each(|object| columns.push(object));
    let places = &columns.places;
    let levels = Some(&places.levels);
    write::<ByteArrayType, _>(&mut group, &columns.names, None)?;
    write::<ByteArrayType, _>(&mut group, &columns.identities, None)?;
    write::<Int64Type, _>(&mut group, &columns.sizes, None)?;
    if objects_only {
        return group.close().map(drop);
    }
    write::<Int64Type, _>(&mut group, &columns.records, None)?;
    write::<Int64Type, _>(&mut group, &columns.errors, None)?;
    write::<Int64Type, _>(&mut group, &places.records, levels)?;
    write::<Int64Type, _>(&mut group, &places.offsets, levels)?;
    write::<Int32Type, _>(&mut group, &places.headers, levels)?;
    write::<ByteArrayType, _>(&mut group, &places.inflate, levels)?;
    group.close().map(drop)
}

/// Writes the next column.
fn write<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&Levels>,
) -> Result<()> {
    let mut column = group.next_column()?.ok_or_else(|| damage("a column is missing"))?;
    let defined = levels.map(|levels| levels.defined.as_slice());
    let repeated = levels.map(|levels| levels.repeated.as_slice());
    column.typed::<T>().write_batch(values, defined, repeated)?;
    column.close()
}

/// Reads a row group, and adds its objects.
///
/// # Errors
/// The columns don't fit together.
pub(crate) fn read_objects(
    group: &dyn RowGroupReader,
    objects: &mut Objects,
    objects_only: bool,
) -> Result<()> {
    let expected = if objects_only { 3 } else { 9 };
    if group.num_columns() != expected {
        return Err(damage("it has other columns"));
    }
    let rows = usize::try_from(group.metadata().num_rows()).map_err(|_| damage("its length"))?;
    let names = read::<ByteArrayType>(group, 0, rows)?.0;
    let identities = read::<ByteArrayType>(group, 1, rows)?.0;
    let sizes = read::<Int64Type>(group, 2, rows)?.0;
    let (mut records, mut errors) = (vec![0; rows], vec![0; rows]);
    let mut places = Vec::new();
    let texts = names.iter().chain(&identities).map(ByteArray::len).sum();
    objects.reserve(rows, texts);
    if !objects_only {
        records = read::<Int64Type>(group, 3, rows)?.0;
        errors = read::<Int64Type>(group, 4, rows)?.0;
        if !has_no_places(group, rows) {
            places = read_places(group, rows)?;
        }
    }
    let mut places = places.into_iter();
    for row in 0..rows {
        let places = places.next().unwrap_or_default();
        let object = IndexedObject {
            name: text(&names[row])?,
            identity: text(&identities[row])?,
            size: unsigned(sizes[row])?,
            records: unsigned(records[row])?,
            errors: unsigned(errors[row])?,
            places: &places,
        };
        check_places(&object)?;
        objects.push(object);
    }
    Ok(())
}

/// Whether no object has a place, as small ones: four columns need not be read then.
fn has_no_places(group: &dyn RowGroupReader, rows: usize) -> bool {
    let column = group.metadata().column(5);
    let absent = column.statistics().and_then(|statistics| statistics.null_count_opt());
    // An object without places has one value that is absent.
    absent == Some(rows as u64) && usize::try_from(column.num_values()) == Ok(rows)
}

/// Reads the places of each object.
fn read_places(group: &dyn RowGroupReader, rows: usize) -> Result<Vec<Vec<Place>>> {
    let (records, levels) = read::<Int64Type>(group, 5, rows)?;
    let (offsets, of_offsets) = read::<Int64Type>(group, 6, rows)?;
    let (headers, of_headers) = read::<Int32Type>(group, 7, rows)?;
    let (inflate, of_inflate) = read::<ByteArrayType>(group, 8, rows)?;
    if levels != of_offsets || levels != of_headers || levels != of_inflate {
        return Err(damage("columns of places don't fit together"));
    }
    let mut all = Vec::with_capacity(rows);
    let mut number = 0;
    for (defined, repeated) in levels.defined.iter().zip(&levels.repeated) {
        if *repeated == 0 {
            all.push(Vec::new());
        }
        if *defined == 1 {
            let place = Place {
                record: unsigned(records[number])?,
                offset: unsigned(offsets[number])?,
                header: headers[number].try_into().map_err(|_| damage("a negative number"))?,
                inflate: inflate[number].data().into(),
            };
            all.last_mut().ok_or_else(|| damage("a place without an object"))?.push(place);
            number += 1;
        }
    }
    if all.len() != rows {
        return Err(damage("objects without a list of places"));
    }
    Ok(all)
}

/// Places are in order, and inside of their object.
fn check_places(object: &IndexedObject<'_>) -> Result<()> {
    let mut before = (0, 0);
    for place in object.places {
        let is_later = place.offset > before.1 && place.record >= before.0;
        let is_inside = place.record <= object.records && u64::from(place.header) <= place.offset;
        if !is_later || !is_inside {
            return Err(damage("a place is out of order"));
        }
        before = (place.record, place.offset);
    }
    Ok(())
}

/// Reads a column.
fn read<T: DataType>(
    group: &dyn RowGroupReader,
    column: usize,
    rows: usize,
) -> Result<(Vec<T::T>, Levels)> {
    let reader = group.get_column_reader(column)?;
    let mut reader = get_typed_column_reader::<T>(reader);
    let (mut values, mut levels, mut read) = (Vec::with_capacity(rows), Levels::default(), 0);
    while read < rows {
        let defined = Some(&mut levels.defined);
        let repeated = Some(&mut levels.repeated);
        let (records, _, _) = reader.read_records(rows - read, defined, repeated, &mut values)?;
        if records == 0 {
            return Err(damage("a column is shorter than others"));
        }
        read += records;
    }
    let expected = match levels.defined.is_empty() {
        true => rows,
        false => levels.defined.iter().filter(|level| **level == 1).count(),
    };
    if values.len() != expected || levels.defined.len() != levels.repeated.len() {
        return Err(damage("a column has another length than it says"));
    }
    Ok((values, levels))
}

fn text(bytes: &ByteArray) -> Result<&str> {
    std::str::from_utf8(bytes.data()).map_err(|_| damage("a text is not UTF-8"))
}

fn unsigned(number: i64) -> Result<u64> {
    number.try_into().map_err(|_| damage("a negative number"))
}

fn damage(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}
