//! Objects by prefix: the bucket's list, page after page, in the order of the keys' bytes.

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::{ChecksumType, Object};
use tokio::time::timeout;

use super::error::Trouble;
use super::plan::{Entry, Found, Known, ListError, Outlet};
use super::retry::until_answered;
use super::{Address, S3Handle};
use crate::SourceError;

/// Gives all objects whose keys begin so; says how many there were.
pub(super) async fn prefix(
    reach: &S3Handle,
    address: &Address,
    out: &mut Outlet,
) -> Result<u64, ListError> {
    let (mut count, mut token) = (0, None);
    loop {
        let page = until_answered(reach, address, || ask(reach, address, token.as_deref())).await?;
        for object in page.contents() {
            if let Some(found) = found(address, object) {
                count += 1;
                out.give(Entry::Object(found)).await?;
            }
        }
        if page.is_truncated() != Some(true) {
            return Ok(count);
        }
        let next = page.next_continuation_token().map(str::to_owned);
        if next.is_none() || next == token {
            let message = "the server says that its list goes on, but not where";
            return Err(SourceError::new(address.to_string(), message, "use another server").into());
        }
        token = next;
    }
}

async fn ask(
    reach: &S3Handle,
    address: &Address,
    token: Option<&str>,
) -> Result<ListObjectsV2Output, Trouble> {
    let client = reach.client(address).await.map_err(Trouble::Never)?;
    let request = client
        .list_objects_v2()
        .bucket(&*address.bucket)
        .prefix(&address.key)
        .set_continuation_token(token.map(str::to_owned))
        .set_request_payer(reach.payer());
    let page = timeout(reach.stall_timeout, request.send())
        .await
        .map_err(|_| {
            Trouble::again(format!("the list had no answer for {:?}", reach.stall_timeout))
        })?
        .map_err(|error| Trouble::of(&error, address, "the list"))?;
    reach.got_answer();
    Ok(page)
}

/// What consoles and `mkdir` leave to show a folder is no object to read.
fn is_marker(key: &str, size: u64) -> bool {
    size == 0 && key.ends_with('/')
}

fn found(address: &Address, object: &Object) -> Option<Found> {
    let (key, size) = (object.key()?, object.size().unwrap_or_default().max(0) as u64);
    if is_marker(key, size) {
        return None;
    }
    let known = Known::Listed {
        size,
        etag: object.e_tag().map(str::to_owned),
        has_sum: object.checksum_type() == Some(&ChecksumType::FullObject),
    };
    Some(Found { address: address.with_key(key), known })
}
