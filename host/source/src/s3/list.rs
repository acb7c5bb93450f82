//! Lists objects by prefix: the bucket's list, page by page, in the order of the keys' bytes.
//!
//! Keys may have characters that XML can't have. So the list is requested with `encoding-type=url`.

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::{ChecksumType, EncodingType, Object};
use pipemill_types::printable;
use tokio::time::timeout;

use super::address::{Address, MAX_KEY_BYTES};
use super::entry::{Entry, EntryList, FoundObject, ListError, ObjectInfo};
use super::error::RequestError;
use super::pages::Pages;
use super::retry::with_retries;
use super::runtime::S3Handle;
use crate::SourceError;

/// Adds all objects whose keys begin with the address's key, and returns their number. `is_last`:
/// the list ends with them.
pub(super) async fn list_prefix(
    s3: &S3Handle,
    address: &Address,
    is_last: bool,
    entries: &mut EntryList,
) -> Result<u64, ListError> {
    let root = address.root();
    let wrong = |message: String| {
        ListError::from(SourceError::new(address.to_string(), message, "use another server"))
    };
    let (mut count, mut token, mut pages) = (0, None, Pages::default());
    loop {
        let request = || list_page(s3, address, token.as_deref());
        let page = with_retries(s3, address, request).await?;
        let mut part = Vec::with_capacity(page.contents().len());
        let is_encoded = page.encoding_type() == Some(&EncodingType::Url);
        let first_key = page.contents().first().and_then(Object::key);
        pages.add(first_key, page.contents().len()).map_err(wrong)?;
        for object in page.contents() {
            let key =
                object.key().ok_or_else(|| wrong("the list has an object without a key".into()))?;
            let key = if is_encoded { decoded(address, key)? } else { key.to_owned() };
            check_key(address, &key).map_err(wrong)?;
            if let Some(found) = found_object(address, &key, object).map_err(wrong)?
                && !entries.leaves_out(address, &found.address.key)
            {
                part.push(Entry::Object(found));
            }
        }
        count += part.len() as u64;
        let goes_on = page.is_truncated() == Some(true);
        entries.push_all(part, root, is_last && !goes_on).await?;
        if !goes_on {
            return Ok(count);
        }
        token = page.next_continuation_token().map(str::to_owned);
        pages.go_on(token.as_deref()).map_err(wrong)?;
    }
}

/// Checks a key of the list of this address.
fn check_key(address: &Address, key: &str) -> Result<(), String> {
    if key.len() > MAX_KEY_BYTES {
        return Err(format!("the list has a key of more than {MAX_KEY_BYTES} bytes"));
    }
    if !key.starts_with(&address.key) {
        return Err(format!("the list has the key `{}`, which has another prefix", printable(key)));
    }
    Ok(())
}

async fn list_page(
    s3: &S3Handle,
    address: &Address,
    token: Option<&str>,
) -> Result<ListObjectsV2Output, RequestError> {
    let client = s3.client(address).await.map_err(RequestError::Fatal)?;
    let request = client
        .list_objects_v2()
        .bucket(&*address.bucket)
        .prefix(&address.key)
        .encoding_type(EncodingType::Url)
        .set_continuation_token(token.map(str::to_owned))
        .set_request_payer(s3.request_payer());
    let page = timeout(s3.stall_timeout, request.send())
        .await
        .map_err(|_| {
            RequestError::retryable(format!("the list had no answer for {:?}", s3.stall_timeout))
        })?
        .map_err(|error| RequestError::from_sdk(&error, address, "the list"))?;
    s3.set_responded();
    Ok(page)
}

/// Whether the object only marks a folder. Consoles and tools for file systems create such objects.
fn is_folder_marker(key: &str, size: u64) -> bool {
    size == 0 && key.ends_with('/')
}

/// The object of a list's key; `None` for a folder's marker.
///
/// # Errors
/// The list does not contain its size.
fn found_object(
    address: &Address,
    key: &str,
    object: &Object,
) -> Result<Option<FoundObject>, String> {
    let size = object.size().and_then(|size| u64::try_from(size).ok());
    let size =
        size.ok_or_else(|| format!("the list does not say the size of `{}`", printable(key)))?;
    if is_folder_marker(key, size) {
        return Ok(None);
    }
    let info = ObjectInfo::Listed {
        size,
        etag: object.e_tag().map(str::to_owned),
        has_checksum: object.checksum_type() == Some(&ChecksumType::FullObject),
    };
    Ok(Some(FoundObject { address: address.with_key(key), info, block: None, first_record: None }))
}

/// Decodes a key from a list with `encoding-type=url`: `%04` is a byte, `+` a blank.
fn decoded(address: &Address, key: &str) -> Result<String, SourceError> {
    unescape(key).ok_or_else(|| {
        let message = format!("the list has the key `{}`, which is no URL", printable(key));
        SourceError::new(address.to_string(), message, "use another server")
    })
}

fn unescape(key: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'%' => {
                let (digits, after) = rest.split_first_chunk::<2>()?;
                rest = after;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                (digit(digits[0])? << 4 | digit(digits[1])?) as u8
            }
            b'+' => b' ',
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn keys_of_a_list_are_decoded() {
        for (encoded, key) in [
            ("a/b.csv", "a/b.csv"),
            ("a%2Fb%04c", "a/b\u{4}c"),
            ("a+b%2Bc%20d", "a b+c d"),
            ("%C3%a4%25", "\u{e4}%"),
            ("", ""),
        ] {
            assert_eq!(unescape(encoded).as_deref(), Some(key), "{encoded}");
        }
        for wrong in ["%", "a%4", "%zz", "%+1", "%FF"] {
            assert_eq!(unescape(wrong), None, "{wrong}");
        }
    }
}
