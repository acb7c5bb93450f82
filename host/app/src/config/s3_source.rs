//! A channel's `source` in S3: what it names, how it is reached, how it is fetched.

use std::time::Duration;

use super::document::Read;
use super::key::Free;
use super::keys::*;
use super::read::Reader;
use super::s3::{Access, Address, PER_CONNECTION, Selection, Settings, check_endpoint};
use super::{Reading, Source};

/// Fewer connections than this don't fill any line.
const LEAST_CONNECTIONS: u64 = 8;
/// SageMaker's limit.
const ATTRIBUTES_MAX: usize = 16;

/// Takes what the source names; one of its four keys is there.
pub(super) fn what(reader: &Reader) -> Read<Selection> {
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
    if attributes.len() > ATTRIBUTES_MAX {
        let found = format!("{} of them", attributes.len());
        return Err(reader.wrong(ATTRIBUTES.name, ATTRIBUTES.expected, &found, String::new()));
    }
    Ok(Selection::Augmented { manifest: manifest?, attributes })
}

fn addresses(reader: &Reader, key: &Free) -> Read<Vec<Address>> {
    let texts = reader.required(key, reader.texts(key))?;
    let parsed = texts.iter().map(|text| {
        text.parse().map_err(|why| {
            let remedy = format!("{why}; write it as s3://bucket/key");
            reader.wrong(key.name, key.expected, &format!("{text:?}"), remedy)
        })
    });
    // First all, so that every fault is found.
    parsed.collect::<Vec<_>>().into_iter().collect()
}

fn address(reader: &Reader, key: &Free) -> Read<Address> {
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

/// Takes all the rest.
pub(super) fn read(reader: &Reader, what: Read<Selection>, reading: Read<Reading>) -> Read<Source> {
    let access = access(reader);
    let part = reader.number(&PART_SIZE);
    let concurrency = concurrency(reader);
    let stall = reader.number(&STALL_TIMEOUT);
    let retry = reader.number(&RETRY_TIMEOUT);
    let verify = reader.choice(&CHECKSUM);
    let on_change = reader.choice(&ON_CHANGE);
    let allow_empty = reader.flag(&ALLOW_EMPTY);
    Ok(Source::S3(Box::new(Settings {
        channel: None,
        what: what?,
        access: access?,
        reading: reading?,
        part_size: part?,
        concurrency: concurrency?,
        stall_timeout: Duration::from_millis(stall?),
        retry_timeout: Duration::from_millis(retry?),
        verify: verify?,
        on_change: on_change?,
        allow_empty: allow_empty?,
    })))
}

fn access(reader: &Reader) -> Read<Access> {
    let region = reader.filled(&REGION);
    let endpoint = endpoint(reader);
    let profile = reader.filled(&PROFILE);
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

fn endpoint(reader: &Reader) -> Read<Option<String>> {
    let Some(given) = reader.text(ENDPOINT.name, ENDPOINT.expected)? else { return Ok(None) };
    if let Err(what) = check_endpoint(&given.text) {
        // Not shown: it may be a password.
        return Err(reader.fault(ENDPOINT.name, what.to_owned(), String::new()));
    }
    Ok(Some(given.text))
}

/// Requests at once: as given, or as many as a rate takes.
fn concurrency(reader: &Reader) -> Read<usize> {
    let fixed = reader.number(&CONCURRENCY);
    let rate = reader.given(&TARGET_RATE);
    if reader.has(&CONCURRENCY) && reader.has(&TARGET_RATE) {
        let message = format!("sets the same as `{}`", CONCURRENCY.name);
        return Err(reader.fault(TARGET_RATE.name, message, "keep one of them".to_owned()));
    }
    let concurrency = match rate? {
        Some(rate) => rate.div_ceil(PER_CONNECTION).max(LEAST_CONNECTIONS).min(CONCURRENCY.max),
        None => fixed?,
    };
    Ok(concurrency as usize)
}
