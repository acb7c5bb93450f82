//! All that the records of an object depend on: its content, the bytes of it that are decoded, the
//! decoder, its options and what it is told. The number of the epoch and the name of the channel
//! are not among them.

use std::sync::Arc;

use pipemill_source::cache::{RecordCache, RecordsId};
use pipemill_source::{AskedObject, IsCached};
use pipemill_types::{
    AddedField, planned_extension, restart_extension, schema_extension_of, split_companions,
};

use crate::channel::Channel;
use crate::pump::object::Decoding;

/// What the records of all objects of a channel depend on.
struct OfChannel<'a> {
    /// How the bytes of objects become those that decoders see.
    reading: &'a str,
    plugin: &'a str,
    options: &'a [(String, String)],
    max_record: u64,
    offsets: bool,
}

/// The identity of the records of an object that is decoded from its start, or from that of its
/// block. `schema` has the fields that the decoder gets. `None` if the content of the object is not
/// known for certain.
pub(crate) fn id_of(
    decoding: &Decoding<'_>,
    object: &AskedObject<'_>,
    schema: Option<&str>,
) -> Option<RecordsId> {
    let cache = decoding.cache?;
    let schema = schema.map(|schema| AddedField::removed_from(schema, decoding.added_fields));
    cache.set_schema(schema.as_deref());
    let of_channel = OfChannel {
        reading: cache.reading(),
        plugin: &decoding.plugin.identity(),
        options: decoding.options,
        max_record: decoding.max_record,
        offsets: decoding.offsets,
    };
    id_in(&of_channel, object, schema)
}

/// Says of which objects of a channel the records are in its cache, for its source.
pub(crate) fn is_cached(channel: &Channel, cache: Arc<RecordCache>) -> IsCached {
    let (plugin, options) = (channel.plugin.identity(), channel.options.clone());
    let (max_record, offsets) = (channel.max_record, channel.offsets);
    Box::new(move |object| {
        let (reading, plugin, options) = (cache.reading(), &*plugin, &*options);
        let of_channel = OfChannel { reading, plugin, options, max_record, offsets };
        id_in(&of_channel, object, cache.schema()).is_some_and(|id| cache.has(id))
    })
}

fn id_in(
    channel: &OfChannel<'_>,
    object: &AskedObject<'_>,
    schema: Option<String>,
) -> Option<RecordsId> {
    let AskedObject { name, content, facts, block } = *object;
    let (own, mut companions) = split_companions(content);
    let is_weak = facts.etag.as_deref().is_some_and(|etag| etag.starts_with("W/"));
    if is_weak || !is_known(own) || !companions.all(is_known) {
        return None;
    }
    let restart = block.map(|block| restart_extension(block.header.into(), block.offset));
    let extensions = schema.map(schema_extension_of).into_iter().chain(restart);
    let extensions: Vec<_> = extensions.chain(facts.is_planned.then(planned_extension)).collect();
    let OfChannel { reading, plugin, options, max_record, offsets } = channel;
    let end = block.map(|block| block.end);
    // The numbers of options and extensions keep the two lists apart.
    let numbers = [options.len(), extensions.len()];
    let numbers = format!("{end:?} {max_record} {offsets} {numbers:?}");
    let content_type = facts.content_type.as_deref().unwrap_or_default();
    let texts = [*reading, name, content, &numbers, content_type, *plugin].into_iter();
    let pairs = options.iter().chain(&extensions);
    let pairs = pairs.flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    Some(RecordsId::of(texts.chain(pairs).map(str::as_bytes)))
}

/// Whether a content shows the bytes: by an entity tag, a checksum, or the blocks of a file. A size
/// alone does not.
fn is_known(content: &str) -> bool {
    let count = |what: &str| content.matches(what).count();
    !content.is_empty() && count("size:") == count(",blocks:")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use pipemill_source::Block;
    use pipemill_types::ObjectFacts;

    use super::*;

    #[test]
    fn a_size_alone_is_no_content() {
        for known in ["etag:\"a\"", "size:1,mtime:2.0,blocks:ab", "crc64nvme:00,etag:\"b\""] {
            assert!(is_known(known), "{known}");
        }
        for unknown in ["", "size:1", "etag:\"a\",size:4", "size:1,mtime:2.0,blocks:ab,size:7"] {
            assert!(!is_known(unknown), "{unknown}");
        }
    }

    /// Each part of it counts, and no part can be taken for another.
    #[test]
    fn other_records_have_another_identity() {
        let options = [("a".to_owned(), "b".to_owned())];
        let one = OfChannel {
            reading: "plain",
            plugin: "csv 1",
            options: &options,
            max_record: 10,
            offsets: false,
        };
        let facts = ObjectFacts::default();
        let typed = ObjectFacts { content_type: Some("text/csv".to_owned()), ..facts.clone() };
        let planned = ObjectFacts { is_planned: true, ..facts.clone() };
        let object = AskedObject { name: "x", content: "etag:\"1\"", facts: &facts, block: None };
        let block = Block::rest(5, 2, 3, 9);
        let (other, shorter) = (Block { header: 0, ..block }, block.up_to(7, 4));
        let schema = || Some("int64 a\n".to_owned());
        let ids = [
            id_in(&one, &object, None),
            id_in(&one, &object, schema()),
            id_in(&OfChannel { reading: "", ..one }, &object, None),
            id_in(&OfChannel { plugin: "csv 2", ..one }, &object, None),
            id_in(&OfChannel { options: &[], ..one }, &object, None),
            id_in(&OfChannel { max_record: 11, ..one }, &object, None),
            id_in(&OfChannel { offsets: true, ..one }, &object, None),
            id_in(&one, &AskedObject { name: "y", ..object }, None),
            id_in(&one, &AskedObject { content: "etag:\"2\"", ..object }, None),
            id_in(&one, &AskedObject { facts: &typed, ..object }, None),
            id_in(&one, &AskedObject { facts: &planned, ..object }, None),
            id_in(&one, &AskedObject { block: Some(&block), ..object }, None),
            id_in(&one, &AskedObject { block: Some(&other), ..object }, None),
            id_in(&one, &AskedObject { block: Some(&shorter), ..object }, None),
        ];
        let ids: Vec<_> = ids.into_iter().map(|id| id.expect("it has an identity")).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        assert_eq!(id_in(&one, &object, None), Some(ids[0]));
    }
}
