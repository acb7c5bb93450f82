//! Reads the indexes of a configuration: a channel whose source is an index gets the objects, the
//! decoder and the fields that the index knows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipemill_config::{
    self as config, Config, DecoderRef, Fault, IndexSource, Indexed, IndexedData, show_size,
};
use pipemill_index::{Header, Index, IndexedList, Storage};
use pipemill_source::s3::{self, Selection};
use pipemill_source::{KnownList, Location, Pattern, ReadSettings};
use pipemill_types::{AddedField, Field, Tail};

use crate::skip_lists;

/// The configuration, with the objects of its indexes. It is the same if it has no index.
///
/// # Errors
/// The faults of all channels: an index can't be read, or does not fit to its channel.
pub fn with_indexes(config: &Config) -> Result<Config, Vec<Fault>> {
    let (mut config, mut faults) = (config.clone(), Vec::new());
    let file = config.file.clone();
    for channel in config.channels.iter_mut().flat_map(config::Channel::decoded_mut) {
        let config::Source::Index(source) = &channel.source else { continue };
        let source = source.clone();
        if let Err((message, remedy)) = resolve(channel, *source) {
            faults.push(Fault {
                file: file.clone(),
                place: channel.decoder_place,
                channel: Some(channel.name.clone()),
                path: String::new(),
                message,
                remedy: Some(remedy),
            });
        }
    }
    if faults.is_empty() { Ok(config) } else { Err(faults) }
}

/// What is wrong, and what to do.
pub(crate) type Wrong = (String, String);

/// Replaces the source of a channel by the objects that its index knows.
fn resolve(channel: &mut config::Channel, source: IndexSource) -> Result<(), Wrong> {
    let IndexSource { file, root, data, skip, settings } = source;
    let mut storage = Storage::new(settings.clone());
    let (index, _) = storage.read(&file).map_err(|error| {
        let remedy = match &data {
            Some(data) if error.missing => {
                format!("make it with `pipemill index {data} --out {file}`, or leave out `indexed`")
            }
            _ => error.remedy,
        };
        (format!("the index {}: {}", error.file, error.message), remedy)
    })?;
    let root = match &data {
        Some(data) => root_of(data, &index.header, &file)?,
        None => root,
    };
    let index = Arc::new(index);
    let (header, file) = (&index.header, file.to_string());
    if channel.added_fields.is_empty() {
        channel.added_fields = header.added().map_err(|word| {
            let message = format!("the index {file} adds the field `{word}`, which is not known");
            (message, "a later version of pipemill has made it: use that version".to_owned())
        })?;
    }
    let options = check(channel, header, &file)?;
    if !header.objects_only {
        if channel.decoder.is_none() {
            channel.decoder = Some(DecoderRef::of(&header.decoder));
        }
        channel.options = options;
        channel.option_places.resize(channel.options.len(), channel.decoder_place);
    }
    let reading = ReadSettings { compression: header.compression, ..settings.reading };
    let is_in_s3 = header.root.is_empty();
    let root = root.map(|root| root.to_string_lossy().into_owned());
    let all = KnownList::new(Arc::new(IndexedList::new(index.clone(), root)));
    let skipped = skip_lists::read(skip, &mut storage, header, &file)?;
    let list = skip_lists::without(&all, &skipped, channel);
    channel.indexed = if header.objects_only {
        None
    } else {
        Some(Arc::new(Indexed {
            file: file.clone(),
            decoder: header.decoder_identity.clone(),
            options: header.options.clone(),
            fields: fields(channel, header)?,
            value_bytes: value_bytes(channel, &index),
            places: header.places_digest.clone(),
            list: list.clone(),
            skipped,
            all,
        }))
    };
    channel.source = if is_in_s3 {
        let selection = Selection::Known { list, index: file };
        config::Source::S3(Box::new(s3::Settings { selection, reading, ..settings }))
    } else {
        config::Source::Files { pattern: Pattern::Known { list, index: file }, reading }
    };
    channel.divide_into_shards();
    check_shards(channel)
}

/// Checks that each shard has a record, if hosts fill up their last batches: a host without any has
/// none to copy.
fn check_shards(channel: &config::Channel) -> Result<(), Wrong> {
    let records = channel.indexed.as_ref().map_or(0, |indexed| indexed.list.total_records());
    let pads = channel.batch.is_some_and(|batch| batch.tail == Tail::Pad);
    match channel.shuffle.and_then(|shuffle| shuffle.shards).filter(|_| pads) {
        Some(shards) if records < u64::from(shards) => {
            let message = format!(
                "{records} records are too few for {shards} shards: with tail = \"pad\", each \
                 shard needs one to fill its last batch with"
            );
            Err((message, format!("set `shards` to {records} or less, or tail = \"keep\"")))
        }
        _ => Ok(()),
    }
}

/// The folder that the files of an index lie in which lies beside them; `None` for objects in S3. A
/// folder may have been moved with its index.
fn root_of(data: &IndexedData, header: &Header, file: &Location) -> Result<Option<PathBuf>, Wrong> {
    let found = match (data, header.sources.as_slice()) {
        (IndexedData::Folder(folder), [source]) => {
            let below = Path::new(&header.root).strip_prefix(source);
            below.ok().filter(|_| !header.root.is_empty()).map(|below| Some(folder.join(below)))
        }
        (IndexedData::Prefix(address), [source]) => {
            let (source, address) = (source.trim_end_matches('/'), address.to_string());
            (source == address.trim_end_matches('/')).then_some(None)
        }
        _ => None,
    };
    found.ok_or_else(|| {
        let message = format!(
            "the index {file} is of {}, and not of the data beside it, {data}",
            header.sources.join(", ")
        );
        (message, format!("make it again with `pipemill index {data} --out {file}`"))
    })
}

/// The fields of the channel's records. None if there is no record.
fn fields(channel: &config::Channel, header: &Header) -> Result<Vec<Field>, Wrong> {
    if header.fields.is_empty() {
        return Ok(Vec::new());
    }
    let own = header.fields.as_slice().into();
    let all = AddedField::after(&own, &channel.added_fields);
    all.map(|all| all.to_vec()).map_err(|fault| (fault.message, fault.remedy))
}

/// Bytes of all values of all of the channel's records, if each has a value of its own. `None` if
/// the index does not know them.
fn value_bytes(channel: &config::Channel, index: &Index) -> Option<u64> {
    if index.header.by_plan {
        return None;
    }
    let own: u64 = index.header.lengths.iter().map(|lengths| lengths.sum).sum();
    let added = |field: &AddedField| -> u64 {
        match field {
            AddedField::Index => 8 * index.objects.records(),
            // A folder's value is a part of the name.
            AddedField::Object | AddedField::Partition(_) => {
                index.objects.iter().map(|one| one.records * one.name.len() as u64).sum()
            }
        }
    };
    Some(own + channel.added_fields.iter().map(added).sum::<u64>())
}

/// Checks that the channel decodes as the index was made. Returns the decoder's options.
fn check(
    channel: &config::Channel,
    header: &Header,
    file: &str,
) -> Result<Vec<(String, String)>, Wrong> {
    if header.objects_only {
        let blocks = channel.shuffle.and_then(|shuffle| shuffle.blocks);
        let (lacks, key) = if blocks.is_some() {
            ("where their blocks begin", "`blocks`")
        } else if channel.added_fields.contains(&AddedField::Index) {
            ("how many records they have", "`__index__`")
        } else {
            return Ok(Vec::new());
        };
        let message = format!("the index {file} has objects only, and does not know {lacks}");
        let remedy = format!("make it again without `--objects-only`, or leave out {key}");
        return Err((message, remedy));
    }
    let options = header.options_with(&channel.options).map_err(|(own, indexed)| {
        let message = format!(
            "its `options` are {{ {own} }}, and the index {file} was made with {{ {indexed} }}"
        );
        (message, "leave `options` out, or make the index again".to_owned())
    })?;
    // Records above the limit are skipped as errors, so the limit is part of what was counted.
    if header.skips_errors && channel.max_record != header.max_record {
        let (own, limit) = (show_size(channel.max_record), show_size(header.max_record));
        let message = format!(
            "its `max_record` is {own}, and the index {file} was made with {limit}: longer records \
             were skipped, and are not counted in the index"
        );
        let remedy = format!("set max_record = \"{limit}\", or make the index again");
        return Err((message, remedy));
    }
    Ok(options)
}
