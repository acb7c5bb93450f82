//! The keys of a channel's `source` in S3: which objects, how to reach them, how to fetch them.

use std::time::Duration;

use pipemill_source::ReadSettings;
use pipemill_source::cache::CacheSettings;
use pipemill_source::s3::{Access, Address, CONNECTION_RATE, Selection, Settings, check_endpoint};

use super::document::ReadResult;
use super::key::FreeForm;
use super::keys::*;
use super::read::Reader;

/// Least number of requests at once for a `target_rate`: with fewer, no network is used fully.
const MIN_CONNECTIONS: u64 = 8;
/// SageMaker's limit for the attributes of an augmented manifest.
const MAX_ATTRIBUTES: usize = 16;

/// Reads the selection of objects. The source has one of the four keys for that.
pub(super) fn selection(reader: &Reader) -> ReadResult<Selection> {
    if reader.has(&S3) {
        let addresses = addresses(reader, &S3)?;
        if addresses.iter().any(|address| address.version.is_some()) {
            let remedy = format!("use `{}` for a version of an object", S3_OBJECT.name);
            return Err(reader.fault(S3.name, "a prefix has no version".to_owned(), remedy));
        }
        return Ok(Selection::Prefixes(addresses));
    }
    if reader.has(&S3_OBJECT) {
        let addresses = addresses(reader, &S3_OBJECT)?;
        if let Some(bucket) = addresses.iter().find(|address| address.key.is_empty()) {
            let remedy = "name an object, or use `s3` for all in the bucket".to_owned();
            let found = format!("`{bucket}`, which has no key");
            return Err(reader.wrong(S3_OBJECT.name, "an object's address", &found, remedy));
        }
        return Ok(Selection::Objects(addresses));
    }
    if reader.has(&MANIFEST) {
        return address(reader, &MANIFEST).map(Selection::Manifest);
    }
    let manifest = address(reader, &AUGMENTED_MANIFEST);
    let attributes = reader.required(&ATTRIBUTES, reader.texts(&ATTRIBUTES))?;
    if attributes.len() > MAX_ATTRIBUTES {
        let found = format!("{} of them", attributes.len());
        return Err(reader.wrong(ATTRIBUTES.name, ATTRIBUTES.expected, &found, String::new()));
    }
    Ok(Selection::Augmented { manifest: manifest?, attributes })
}

/// The only prefix of a source whose index lies below it.
pub(super) fn only_prefix(reader: &Reader) -> ReadResult<Address> {
    let mut addresses = match selection(reader)? {
        Selection::Prefixes(addresses) => addresses,
        _ => Vec::new(),
    };
    match (addresses.pop(), addresses.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => {
            let message = format!("has an index below one prefix only, with `{}`", INDEXED.name);
            Err(reader.fault(S3.name, message, "name one prefix, or the index".to_owned()))
        }
    }
}

fn addresses(reader: &Reader, key: &FreeForm) -> ReadResult<Vec<Address>> {
    let texts = reader.required(key, reader.texts(key))?;
    let parsed = texts.iter().map(|text| {
        reader.refuse_other_address(key, text)?;
        text.parse().map_err(|why| {
            let remedy = format!("{why}; write it as s3://bucket/key");
            reader.wrong(key.name, key.expected, &format!("{text:?}"), remedy)
        })
    });
    // Reads all of them first, to find each fault.
    parsed.collect::<Vec<_>>().into_iter().collect()
}

/// The manifest of the inventory that has the lists.
pub(super) fn inventory(reader: &Reader) -> ReadResult<Option<Address>> {
    if reader.has(&INVENTORY) { address(reader, &INVENTORY).map(Some) } else { Ok(None) }
}

fn address(reader: &Reader, key: &FreeForm) -> ReadResult<Address> {
    let mut addresses = addresses(reader, key)?;
    match (addresses.pop(), addresses.is_empty()) {
        (Some(only), true) if !only.key.is_empty() => Ok(only),
        (Some(bucket), true) => {
            let found = format!("`{bucket}`, which has no key");
            Err(reader.wrong(key.name, "a manifest's address", &found, String::new()))
        }
        _ => Err(reader.wrong(key.name, key.expected, "a list", "give one".to_owned())),
    }
}

/// Reads the other keys.
pub(super) fn read(
    reader: &Reader,
    selection: ReadResult<Selection>,
    reading: ReadResult<ReadSettings>,
) -> ReadResult<Settings> {
    let access = access(reader);
    let part_size = reader.number(&PART_SIZE);
    let concurrency = concurrency(reader);
    let stall_timeout = reader.number(&STALL_TIMEOUT);
    let retry_timeout = reader.number(&RETRY_TIMEOUT);
    let verify = reader.choice(&CHECKSUM);
    let on_change = reader.choice(&ON_CHANGE);
    let allow_empty = reader.flag(&ALLOW_EMPTY);
    let caches = caches(reader);
    let (cache, records) = caches?;
    Ok(Settings {
        channel: None,
        selection: selection?,
        access: access?,
        reading: ReadSettings { records, ..reading? },
        part_size: part_size?,
        concurrency: concurrency?,
        stall_timeout: Duration::from_millis(stall_timeout?),
        retry_timeout: Duration::from_millis(retry_timeout?),
        verify: verify?,
        on_change: on_change?,
        allow_empty: allow_empty?,
        cache,
    })
}

/// Reads the cache: one of the bytes of objects, or one of their records.
pub(super) fn caches(
    reader: &Reader,
) -> ReadResult<(Option<CacheSettings>, Option<CacheSettings>)> {
    if !reader.has(&CACHE) {
        return Ok((None, None));
    }
    let remedy = "write cache = { path = \"/nvme/pipemill\", size = \"500GiB\" }";
    let table = reader.table(&CACHE, remedy)?.refuse_unknown_keys(&CACHE_TABLE);
    let path = table.required(&CACHE_PATH, table.path(&CACHE_PATH));
    let size = table.required(&CACHE_SIZE, table.optional_number(&CACHE_SIZE));
    let of = table.choice(&CACHE_OF);
    let settings = Some(CacheSettings { path: path?, size: size? });
    Ok(match of? {
        CacheOf::Bytes => (settings, None),
        CacheOf::Records => (None, settings),
    })
}

fn access(reader: &Reader) -> ReadResult<Access> {
    let region = reader.non_empty_text(&REGION);
    let endpoint = endpoint(reader);
    let profile = reader.non_empty_text(&PROFILE);
    let addressing = reader.choice(&ADDRESSING);
    let anonymous = reader.flag(&ANONYMOUS);
    let requester_pays = reader.flag(&REQUESTER_PAYS);
    Ok(Access {
        region: region?,
        endpoint: endpoint?,
        profile: profile?,
        addressing: addressing?,
        anonymous: anonymous?,
        requester_pays: requester_pays?,
    })
}

fn endpoint(reader: &Reader) -> ReadResult<Option<String>> {
    let Some(given) = reader.text(ENDPOINT.name, ENDPOINT.expected)? else { return Ok(None) };
    if let Err(message) = check_endpoint(&given.text) {
        // The URL is not shown: it may contain a password.
        return Err(reader.fault(ENDPOINT.name, message.to_owned(), String::new()));
    }
    Ok(Some(given.text))
}

/// The number of requests at once: from `concurrency`, or as many as `target_rate` needs.
fn concurrency(reader: &Reader) -> ReadResult<usize> {
    let fixed = reader.number(&CONCURRENCY);
    let rate = reader.optional_number(&TARGET_RATE);
    if reader.has(&CONCURRENCY) && reader.has(&TARGET_RATE) {
        let message = format!("sets the same as `{}`", CONCURRENCY.name);
        return Err(reader.fault(TARGET_RATE.name, message, "keep one of them".to_owned()));
    }
    let concurrency = match rate? {
        Some(rate) => rate.div_ceil(CONNECTION_RATE).max(MIN_CONNECTIONS).min(CONCURRENCY.max),
        None => fixed?,
    };
    Ok(concurrency as usize)
}
