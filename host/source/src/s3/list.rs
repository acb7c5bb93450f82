//! Lists objects by prefix: the bucket's list, page by page, in the order of the keys' bytes. If a
//! list has more than one page, and its objects lie in several folders, these are listed at once.
//!
//! Keys may have characters that XML can't have. So the list is requested with `encoding-type=url`.

use std::collections::VecDeque;
use std::sync::Arc;

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::{ChecksumType, EncodingType, Object};
use pipemill_types::printable;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::address::{Address, MAX_KEY_BYTES};
use super::entry::{EntryList, FoundObject, ListError, ObjectInfo};
use super::error::RequestError;
use super::pages::Pages;
use super::plan::task_failed;
use super::retry::with_retries;
use super::runtime::{S3Handle, Task};
use crate::SourceError;

/// Adds all objects whose keys begin with the address's key, and returns their number. `is_last`:
/// the list ends with them.
pub(super) async fn list_prefix(
    s3: &Arc<S3Handle>,
    address: &Address,
    is_last: bool,
    entries: &mut EntryList,
) -> Result<u64, ListError> {
    let mut count = 0;
    let mut pages = PageReader::new(s3.clone(), address.clone());
    let mut page = pages.next().await?;
    if pages.goes_on()
        && let Some(groups) = groups(s3, address).await?
    {
        let mut groups = ParallelLists::start(s3, groups);
        while let Some(page) = groups.next().await? {
            count += add_page(address, page, false, entries).await?;
        }
        // Only now is it known that the last page was the last one.
        entries.push_page(address, Vec::new(), is_last).await?;
        return Ok(count);
    }
    loop {
        count += add_page(address, page, is_last && !pages.goes_on(), entries).await?;
        if !pages.goes_on() {
            return Ok(count);
        }
        page = pages.next().await?;
    }
}

/// Adds the objects of a page, and returns their number.
pub(super) async fn add_page(
    address: &Address,
    mut page: Vec<FoundObject>,
    is_whole: bool,
    entries: &mut EntryList,
) -> Result<u64, ListError> {
    page.retain(|found| !entries.leaves_out(address, &found.address.key));
    let count = page.len() as u64;
    entries.push_page(address, page, is_whole).await?;
    Ok(count)
}

/// Reads a list page by page.
struct PageReader {
    s3: Arc<S3Handle>,
    address: Address,
    token: Option<String>,
    pages: Pages,
    goes_on: bool,
}

impl PageReader {
    fn new(s3: Arc<S3Handle>, address: Address) -> Self {
        Self { s3, address, token: None, pages: Pages::default(), goes_on: true }
    }

    /// Whether there are more pages.
    fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// The objects of the next page.
    async fn next(&mut self) -> Result<Vec<FoundObject>, SourceError> {
        let (s3, address) = (&self.s3, &self.address);
        let wrong = |message| wrong(address, message);
        let request = || list_page(s3, address, self.token.as_deref(), None);
        let page = with_retries(s3, address, request).await?;
        let first_key = page.contents().first().and_then(Object::key);
        self.pages.add(first_key, page.contents().len()).map_err(wrong)?;
        let objects = objects(address, &page)?;
        self.goes_on = page.is_truncated() == Some(true);
        if self.goes_on {
            self.token = page.next_continuation_token().map(str::to_owned);
            self.pages.go_on(self.token.as_deref()).map_err(wrong)?;
        }
        Ok(objects)
    }
}

/// The objects of a page.
fn objects(address: &Address, page: &ListObjectsV2Output) -> Result<Vec<FoundObject>, SourceError> {
    let is_encoded = page.encoding_type() == Some(&EncodingType::Url);
    let wrong = |message| wrong(address, message);
    let mut objects = Vec::with_capacity(page.contents().len());
    for object in page.contents() {
        let key =
            object.key().ok_or_else(|| wrong("the list has an object without a key".into()))?;
        let key = if is_encoded { decoded(address, key)? } else { key.to_owned() };
        check_key(address, &key).map_err(wrong)?;
        objects.extend(found_object(address, &key, object).map_err(wrong)?);
    }
    Ok(objects)
}

fn wrong(address: &Address, message: String) -> SourceError {
    SourceError::new(address.to_string(), message, "use another server")
}

/// Largest number of groups that are listed separately. With more, groups may be small, and one
/// list after the other needs fewer requests.
const MAX_GROUPS: usize = 100;
/// Number of groups that are listed at once.
const LISTS_AT_ONCE: usize = 8;
/// Pages of a group that are read ahead.
const PAGES_AHEAD: usize = 2;

/// A part of a list, which follows those before it.
enum Group {
    /// Objects that lie in no folder below the prefix.
    Objects(Vec<FoundObject>),
    /// All objects whose keys begin with this one: those of a folder below the prefix.
    Folder(Address),
}

impl Group {
    /// The first key that it may have.
    fn first_key(&self) -> &str {
        match self {
            Self::Objects(objects) => objects.first().map_or("", |first| &first.address.key),
            Self::Folder(address) => &address.key,
        }
    }
}

/// The groups of a list in the order of their keys, if they are several folders, and not too many.
async fn groups(s3: &S3Handle, address: &Address) -> Result<Option<Vec<Group>>, SourceError> {
    let request = || list_page(s3, address, None, Some("/"));
    let page = with_retries(s3, address, request).await?;
    let folders = page.common_prefixes();
    if page.is_truncated() == Some(true) || !(2..=MAX_GROUPS).contains(&folders.len()) {
        return Ok(None);
    }
    let is_encoded = page.encoding_type() == Some(&EncodingType::Url);
    let mut groups = Vec::with_capacity(folders.len());
    for folder in folders {
        let key = folder.prefix().unwrap_or_default();
        let key = if is_encoded { decoded(address, key)? } else { key.to_owned() };
        check_key(address, &key).map_err(|message| wrong(address, message))?;
        groups.push(Group::Folder(address.with_key(&key)));
    }
    // No object of a folder lies between two objects of one key, so each is a group.
    groups.extend(objects(address, &page)?.into_iter().map(|object| Group::Objects(vec![object])));
    groups.sort_by(|one, other| one.first_key().cmp(other.first_key()));
    Ok(Some(groups))
}

/// Lists several groups at once, and gives their pages in order.
struct ParallelLists {
    s3: Arc<S3Handle>,
    /// The groups that are not listed yet.
    groups: std::vec::IntoIter<Group>,
    /// The groups that are being listed.
    listed: VecDeque<ListedGroup>,
}

/// A group that is being listed.
enum ListedGroup {
    Objects(Vec<FoundObject>),
    Folder(mpsc::Receiver<Result<Vec<FoundObject>, SourceError>>, Task<()>),
}

impl ParallelLists {
    fn start(s3: &Arc<S3Handle>, groups: Vec<Group>) -> Self {
        Self { s3: s3.clone(), groups: groups.into_iter(), listed: VecDeque::new() }
    }

    /// The objects of the next page.
    async fn next(&mut self) -> Result<Option<Vec<FoundObject>>, SourceError> {
        loop {
            while self.listed.len() < LISTS_AT_ONCE
                && let Some(group) = self.groups.next()
            {
                self.listed.push_back(self.list(group));
            }
            match self.listed.front_mut() {
                None => return Ok(None),
                Some(ListedGroup::Objects(objects)) => {
                    let objects = std::mem::take(objects);
                    self.listed.pop_front();
                    return Ok(Some(objects));
                }
                Some(ListedGroup::Folder(pages, task)) => {
                    if let Some(page) = pages.recv().await {
                        return page.map(Some);
                    }
                    // A panic of the task would look like the end of the list.
                    (&mut task.0).await.map_err(|error| task_failed(&error))?;
                    self.listed.pop_front();
                }
            }
        }
    }

    fn list(&self, group: Group) -> ListedGroup {
        let address = match group {
            Group::Objects(objects) => return ListedGroup::Objects(objects),
            Group::Folder(address) => address,
        };
        let (sender, pages) = mpsc::channel(PAGES_AHEAD);
        let mut reader = PageReader::new(self.s3.clone(), address);
        let task = Task(tokio::spawn(async move {
            while reader.goes_on() {
                let page = reader.next().await;
                let is_error = page.is_err();
                if sender.send(page).await.is_err() || is_error {
                    return;
                }
            }
        }));
        ListedGroup::Folder(pages, task)
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
    delimiter: Option<&str>,
) -> Result<ListObjectsV2Output, RequestError> {
    let client = s3.client(address).await.map_err(RequestError::Fatal)?;
    let request = client
        .list_objects_v2()
        .bucket(&*address.bucket)
        .prefix(&address.key)
        .encoding_type(EncodingType::Url)
        .set_continuation_token(token.map(str::to_owned))
        .set_delimiter(delimiter.map(str::to_owned))
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
pub(super) fn is_folder_marker(key: &str, size: u64) -> bool {
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
    Ok(Some(FoundObject::new(address.with_key(key), info)))
}

/// Decodes a key from a list with `encoding-type=url`: `%04` is a byte, `+` a blank.
fn decoded(address: &Address, key: &str) -> Result<String, SourceError> {
    unescape(key).ok_or_else(|| {
        let message = format!("the list has the key `{}`, which is no URL", printable(key));
        SourceError::new(address.to_string(), message, "use another server")
    })
}

/// As [`decoded`]; `None` if the key is no URL.
pub(super) fn unescape(key: &str) -> Option<String> {
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
