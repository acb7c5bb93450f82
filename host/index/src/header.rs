//! The facts about the whole index.

use std::ops::RangeInclusive;
use std::path::Path;

use pipemill_source::Compression;
use pipemill_types::{AddedField, Companions, Field};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::objects::Objects;

/// The version of the format. In version 1, some places were such that decoding could not begin
/// there, and which ones could not always be told.
const VERSION: u32 = 3;
/// The version of the format of an index of objects alone, which lacks columns that version 3 has.
const OBJECTS_VERSION: u32 = 2;
/// The versions that are read.
pub(crate) const VERSIONS: RangeInclusive<u32> = OBJECTS_VERSION..=VERSION;

/// The facts about the whole index. In the file, they are JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format.
    pub version: u32,
    /// Whether only the objects are known: their names, sizes and identities, but no records. The
    /// index has no decoder and no fields then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub objects_only: bool,
    /// The decoder: a built-in decoder's name, or the path of a plugin.
    pub decoder: String,
    /// Identifies the decoder by its content: the digest of a plugin, or the name of a built-in
    /// decoder with a number that grows when its records change.
    pub decoder_identity: String,
    /// The decoder's options.
    pub options: Vec<(String, String)>,
    /// Fields that a channel adds to the records if its configuration names none, as texts of
    /// [`AddedField::from_word`]. Each object has their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_fields: Vec<String>,
    /// The fields of the records, with all that was learned.
    pub fields: Vec<Field>,
    /// The lengths of the values of each field, in the order of the fields; empty if they are not
    /// known. After an update, those
    /// of objects that were replaced or removed are among them.
    pub lengths: Vec<ValueLengths>,
    /// Whether records of at least one object were counted by its plan: none of them was read, and
    /// `lengths` is empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_plan: bool,
    /// The companions of each object: its identity has their contents, in the order of these rules.
    #[serde(default, skip_serializing_if = "Companions::is_empty")]
    pub companions: Companions,
    /// How the objects are compressed.
    pub compression: Compression,
    /// Whether errors of objects were skipped. Otherwise the index has none.
    pub skips_errors: bool,
    /// Largest record in bytes.
    pub max_record: u64,
    /// The sources as they were named: files, folders, addresses in S3. Paths are absolute.
    pub sources: Vec<String>,
    /// The part of the sources, if these are not all objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// The folder to which names are relative; empty for objects in S3.
    pub root: String,
    /// Number of objects.
    pub objects: u64,
    /// Number of records.
    pub records: u64,
    /// Stored bytes of all objects.
    pub bytes: u64,
    /// Identifies the data: the decoder, its options, the fields, the objects and their records,
    /// but not the root, no modification times and no places. SHA-256 in hexadecimal digits.
    pub digest: String,
    /// Identifies the places: where they are depends on how the objects were read. SHA-256 in
    /// hexadecimal digits.
    pub places_digest: String,
}

/// A part of the objects of some sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its number, from 0.
    pub index: u32,
    /// Number of parts.
    pub count: u32,
    /// Identifies the list of all objects. SHA-256 in hexadecimal digits.
    pub list: String,
}

impl Part {
    /// A part of a list of objects: of their names and identities.
    pub(crate) fn of<'a>(
        index: u32,
        count: u32,
        list: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut digest = Sha256::new();
        for (name, identity) in list {
            for text in [name, &without_time(identity)] {
                digest.update((text.len() as u64).to_le_bytes());
                digest.update(text);
            }
        }
        Self { index, count, list: hex::encode(digest.finalize()) }
    }
}

/// The lengths of the values of a field in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueLengths {
    /// The smallest one. 0 if there is no value.
    pub min: u32,
    /// The largest one.
    pub max: u32,
    /// Their sum.
    pub sum: u64,
    /// Number of records that lack the field.
    pub absent: u64,
}

impl Header {
    /// The full name of an object that the index has under this name. `root` is the folder that the
    /// objects lie in, if they were moved.
    pub(crate) fn full_name(&self, root: Option<&str>, name: &str) -> String {
        // Objects in S3 have no root: they are named by their addresses.
        if self.root.is_empty() {
            return name.to_owned();
        }
        Path::new(root.unwrap_or(&self.root)).join(name).to_string_lossy().into_owned()
    }

    /// The decoder's options for reading the objects again. The index knows the files that options
    /// name by their digests alone, so `given` names their paths; of other options it has all that
    /// the index has, or none.
    ///
    /// # Errors
    /// Other options differ: both, as texts.
    pub fn options_with(
        &self,
        given: &[(String, String)],
    ) -> Result<Vec<(String, String)>, (String, String)> {
        let path = |(name, value): &(String, String)| {
            let is_file = value.starts_with("sha256:");
            let path = given.iter().find(|(other, _)| is_file && name == other);
            (name.clone(), path.map_or(value, |(_, path)| path).clone())
        };
        let options: Vec<_> = self.options.iter().map(path).collect();
        let is_path =
            |one: &&(String, String)| options.contains(one) && !self.options.contains(one);
        let same = |one: &(String, String)| options.contains(one);
        let only_paths = given.iter().filter(is_path).count() == given.len();
        if only_paths || given.len() == options.len() && given.iter().all(same) {
            return Ok(options);
        }
        Err((show(given), show(&self.options)))
    }

    /// The lengths of the values of each field, to which others can be added.
    pub(crate) fn open_lengths(&self) -> Vec<ValueLengths> {
        self.lengths.iter().map(|lengths| lengths.open_again(self.records)).collect()
    }

    /// The fields that a channel adds if its configuration names none. The error is a text that
    /// this version of pipemill does not know.
    ///
    /// # Errors
    /// A later version has written it.
    pub fn added(&self) -> Result<Vec<AddedField>, &str> {
        let field = |word: &String| AddedField::from_word(word);
        let all = self.add_fields.iter();
        all.map(|word| field(word).ok_or(word.as_str())).collect()
    }

    /// Counts the objects, and computes the digest.
    pub(crate) fn complete(&mut self, objects: &Objects) {
        self.version = if self.objects_only { OBJECTS_VERSION } else { VERSION };
        self.objects = objects.count() as u64;
        self.records = objects.records();
        self.bytes = objects.bytes();
        self.digest = digest(self, objects);
        self.places_digest = digest_of_places(objects);
    }
}

/// The options, sorted, as a text.
fn show(options: &[(String, String)]) -> String {
    let mut options = options.to_vec();
    options.sort();
    let words = options.iter().map(|(name, value)| format!("{name} = {value:?}"));
    words.collect::<Vec<_>>().join(", ")
}

/// The digest of the content.
fn digest(header: &Header, objects: &Objects) -> String {
    let mut digest = Sha256::new();
    let mut text = |text: &str| {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    };
    text(&header.decoder_identity);
    text(&serde_json::json!(header.options).to_string());
    text(&serde_json::json!(header.fields).to_string());
    text(&header.compression.to_string());
    text(&format!("{} {}", header.skips_errors, header.max_record));
    if !header.add_fields.is_empty() {
        text(&serde_json::json!(header.add_fields).to_string());
    }
    for object in objects.iter() {
        text(object.name);
        text(&without_time(object.identity));
        text(&format!("{} {} {}", object.size, object.records, object.errors));
    }
    hex::encode(digest.finalize())
}

/// The digest of all places.
fn digest_of_places(objects: &Objects) -> String {
    let mut digest = Sha256::new();
    for object in objects.iter() {
        digest.update((object.places.len() as u64).to_le_bytes());
        for place in object.places {
            digest.update(place.record.to_le_bytes());
            digest.update(place.offset.to_le_bytes());
            digest.update(place.header.to_le_bytes());
        }
    }
    hex::encode(digest.finalize())
}

/// The identity without a modification time.
fn without_time(identity: &str) -> String {
    let is_time = |part: &&str| !part.starts_with("mtime:");
    identity.split(',').filter(is_time).collect::<Vec<_>>().join(",")
}
