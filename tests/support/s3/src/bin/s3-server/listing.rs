//! `ListObjectsV2`: the keys of a bucket in the order of their bytes, page by page. Only the first
//! page walks the folder. The pages after it use the same result, so that listing 100,000 keys is
//! fast.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex};

use s3s::dto::{
    CommonPrefix, EncodingType, ListObjectsV2Input, ListObjectsV2Output, Object, Timestamp,
};
use s3s::{S3Result, s3_error};

use pipemill_s3_test::names;

use crate::store;

/// The objects of a bucket with a prefix, sorted by key.
type SortedObjects = Arc<Vec<Object>>;

/// The last listing of each bucket and prefix.
#[derive(Default)]
pub struct Listings(Mutex<HashMap<(String, String), SortedObjects>>);

impl Listings {
    pub fn page(&self, root: &Path, input: ListObjectsV2Input) -> S3Result<ListObjectsV2Output> {
        let prefix = input.prefix.clone().unwrap_or_default();
        let token = input.continuation_token.as_deref().map(from_token).transpose()?;
        let bucket = root.join(&input.bucket);
        if !bucket.is_dir() {
            return Err(s3_error!(NoSuchBucket));
        }
        let found =
            self.objects((input.bucket.clone(), prefix.clone()), &bucket, token.is_some())?;
        let after = token.or_else(|| input.start_after.clone().map(Bound::Excluded));
        let mut page = page(&found, &prefix, after, &input);
        let is_url = |kind: &EncodingType| kind.as_str() == EncodingType::URL;
        let encodes = input.encoding_type.as_ref().is_some_and(is_url);
        if encodes {
            encode(&mut page);
        }
        Ok(ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: Some(if encodes { encoded(&prefix) } else { prefix }),
            delimiter: input.delimiter,
            encoding_type: input.encoding_type,
            continuation_token: input.continuation_token,
            start_after: input.start_after,
            ..page
        })
    }

    /// The objects of a bucket and a prefix: those of the last listing if `reuse` is true and there
    /// is one, else a new listing.
    fn objects(&self, of: (String, String), bucket: &Path, reuse: bool) -> S3Result<SortedObjects> {
        let mut all = self.0.lock().expect("nothing panics while it is locked");
        if let Some(found) = all.get(&of).filter(|_| reuse) {
            return Ok(Arc::clone(found));
        }
        let mut objects = Vec::new();
        let (folder, _) = of.1.rsplit_once('/').unwrap_or_default();
        let above = if of.1.contains('/') { format!("{folder}/") } else { String::new() };
        walk(&bucket.join(names::folder(&of.1)), &above, &of.1, &mut objects)
            .map_err(|error| s3_error!(error, InternalError))?;
        objects.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let found = Arc::new(objects);
        all.insert(of, Arc::clone(&found));
        Ok(found)
    }
}

/// Adds all objects with `prefix` in a folder. The keys of the folder's files begin with `above`.
fn walk(folder: &Path, above: &str, prefix: &str, objects: &mut Vec<Object>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(());
        }
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let key = format!("{above}{}", names::part(name));
        if entry.file_type()?.is_dir() {
            let inside = format!("{key}/");
            if inside.starts_with(prefix) || prefix.starts_with(&inside) {
                walk(&entry.path(), &inside, prefix, objects)?;
            }
        } else if key.starts_with(prefix) {
            // A file that was removed in the meantime is not listed.
            let Ok(meta) = entry.metadata() else { continue };
            objects.push(Object {
                key: Some(key),
                size: Some(meta.len() as i64),
                last_modified: Some(Timestamp::from(meta.modified()?)),
                e_tag: Some(store::etag(&meta)),
                ..Object::default()
            });
        }
    }
    Ok(())
}

/// One page: the objects and common prefixes after `after`.
fn page(
    found: &[Object],
    prefix: &str,
    after: Option<Bound<String>>,
    input: &ListObjectsV2Input,
) -> ListObjectsV2Output {
    let most = usize::try_from(input.max_keys.unwrap_or(1000)).unwrap_or(0).min(1000);
    let key = |object: &Object| object.key.clone().unwrap_or_default();
    let mut at = match &after {
        Some(Bound::Excluded(after)) => found.partition_point(|object| key(object) <= *after),
        Some(Bound::Included(from)) => found.partition_point(|object| key(object) < *from),
        _ => 0,
    };
    let (mut contents, mut groups) = (Vec::new(), Vec::new());
    while at < found.len() && contents.len() + groups.len() < most {
        let key = found[at].key.as_deref().unwrap_or_default();
        let delimiter = input.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty());
        let group = delimiter.and_then(|delimiter| {
            let end = key[prefix.len()..].find(delimiter)? + prefix.len() + delimiter.len();
            Some(&key[..end])
        });
        if let Some(group) = group {
            let inside =
                |object: &Object| object.key.as_deref().is_some_and(|key| key.starts_with(group));
            at += found[at..].partition_point(inside);
            groups.push(CommonPrefix { prefix: Some(group.to_owned()) });
        } else {
            contents.push(found[at].clone());
            at += 1;
        }
    }
    let truncated = at < found.len() && most > 0;
    ListObjectsV2Output {
        is_truncated: Some(truncated),
        key_count: Some((contents.len() + groups.len()) as i32),
        max_keys: Some(most as i32),
        next_continuation_token: truncated.then(|| to_token(&key(&found[at]))),
        contents: Some(contents),
        common_prefixes: Some(groups),
        ..ListObjectsV2Output::default()
    }
}

/// A continuation token: the first key of the next page, encoded so that no client can take the
/// token for a key.
fn to_token(key: &str) -> String {
    key.bytes().fold("1+/=".to_owned(), |token, byte| format!("{token}{byte:02x}"))
}

fn from_token(token: &str) -> S3Result<Bound<String>> {
    let bytes = token.strip_prefix("1+/=").and_then(|digits| {
        let pair = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        (0..digits.len()).step_by(2).map(pair).collect::<Option<Vec<u8>>>()
    });
    let key = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let wrong = || s3_error!(InvalidArgument, "The continuation token provided is incorrect");
    key.map(Bound::Included).ok_or_else(wrong)
}

fn encode(page: &mut ListObjectsV2Output) {
    for object in page.contents.iter_mut().flatten() {
        object.key = object.key.as_deref().map(encoded);
    }
    for group in page.common_prefixes.iter_mut().flatten() {
        group.prefix = group.prefix.as_deref().map(encoded);
    }
}

/// A key as S3 encodes it: a blank is a plus.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/*".contains(&byte);
    text.bytes().fold(String::new(), |all, byte| match byte {
        b' ' => all + "+",
        byte if plain(byte) => all + char::from(byte).encode_utf8(&mut [0; 4]),
        byte => format!("{all}%{byte:02X}"),
    })
}
