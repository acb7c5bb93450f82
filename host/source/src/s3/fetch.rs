//! Fetches a range of one object, through every fault: goes on at the byte that was reached, and sees to it that all
//! bytes are of the same object.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use super::checksum::{Checksum, Given};
use super::error::{Trouble, causes};
use super::retry::{Tries, until_answered};
use super::window::Window;
use super::{Address, S3Handle};
use crate::SourceError;

/// One object, pinned: all its bytes come from the state in which it was found.
pub(super) struct Target {
    pub(super) address: Address,
    pub(super) size: u64,
    /// From where it was found first, else from its first answer.
    etag: OnceLock<String>,
    /// Its `Content-Encoding`, known with the first byte.
    pub(super) encoding: OnceLock<String>,
    /// The checksum of the whole object, known with the first byte if the server keeps one.
    pub(super) checksum: OnceLock<Checksum>,
}

impl Target {
    pub(super) fn new(address: Address, size: u64, etag: Option<&str>) -> Self {
        let target = Self {
            address,
            size,
            etag: OnceLock::new(),
            encoding: OnceLock::new(),
            checksum: OnceLock::new(),
        };
        if let Some(etag) = etag.filter(|etag| !etag.is_empty()) {
            let _ = target.etag.set(etag.to_owned());
        }
        target
    }

    /// Keeps what an answer says of the object, and refuses what is said of another one.
    fn pin(&self, etag: Option<&str>, encoding: Option<&str>) -> Result<(), Trouble> {
        if let Some(etag) = etag {
            let pinned = self.etag.get_or_init(|| etag.to_owned());
            if bare(pinned) != bare(etag) {
                let what = format!("its ETag was {pinned} and is {etag} now");
                return Err(Trouble::Changed(what));
            }
        }
        if let Some(encoding) = encoding {
            let _ = self.encoding.set(encoding.to_owned());
        }
        Ok(())
    }
}

/// Servers differ in whether they quote an ETag.
fn bare(etag: &str) -> &str {
    etag.trim_start_matches("W/").trim_matches('"')
}

/// What it takes to fetch.
pub(super) struct Fetch {
    pub(super) reach: Arc<S3Handle>,
    pub(super) window: Arc<Window>,
    pub(super) target: Arc<Target>,
    pub(super) verify: bool,
}

/// Where fetched bytes go, in order; the last thing there may be a trouble.
pub(super) type Frames = UnboundedSender<Result<Bytes, Trouble>>;

impl Fetch {
    /// Fetches the range, or says as the last thing why it can't be had.
    pub(super) async fn range(&self, range: Range<u64>, frames: &Frames) {
        let mut at = range.start;
        let mut tries = Tries::new();
        loop {
            let before = at;
            let trouble = match self.attempt(&mut at, range.end, frames).await {
                Ok(()) => return self.window.went_well(),
                Err(trouble) => trouble,
            };
            if at > before {
                tries = Tries::new();
            }
            if matches!(trouble, Trouble::Again { slow: true, .. }) {
                self.window.slow_down();
            }
            let failed = tries.failed(trouble, &self.target.address, &self.reach).await;
            if let Err(trouble) = failed {
                // Nobody may want to know any more.
                let _ = frames.send(Err(trouble));
                return;
            }
        }
    }

    async fn attempt(&self, at: &mut u64, end: u64, frames: &Frames) -> Result<(), Trouble> {
        let (from, stall) = (*at, self.reach.stall_timeout);
        let asked = || format!("GET of bytes {from} to {end}");
        let answer = timeout(stall, self.ask(from, end))
            .await
            .map_err(|_| Trouble::again(format!("{} had no answer for {stall:?}", asked())))?
            .map_err(|trouble| trouble(&asked()))?;
        self.reach.got_answer();
        self.check(&answer, from, end)?;
        let mut body = answer.body;
        while *at < end {
            let frame = timeout(stall, body.next()).await;
            let frame = frame.map_err(|_| broken(*at, end, &silent(stall)))?;
            let Some(frame) = frame else { return Err(broken(*at, end, "it ended early")) };
            let bytes = frame.map_err(|error| broken(*at, end, &causes(&error)))?;
            if bytes.len() as u64 > end - *at {
                return Err(broken(*at, end, "more bytes came than were requested"));
            }
            *at += bytes.len() as u64;
            if !bytes.is_empty() && frames.send(Ok(bytes)).is_err() {
                // Nobody wants them any more.
                return Ok(());
            }
        }
        Ok(())
    }

    async fn ask(&self, from: u64, end: u64) -> Result<GetObjectOutput, Why> {
        let target = &self.target;
        let client = self.reach.client(&target.address).await;
        let client =
            client.map_err(|error| Box::new(move |_: &str| Trouble::Never(error)) as Why)?;
        let mut request = client
            .get_object()
            .bucket(&*target.address.bucket)
            .key(&target.address.key)
            .set_version_id(target.address.version.clone())
            .set_if_match(target.etag.get().cloned())
            .set_request_payer(self.reach.payer());
        if (from, end) != (0, target.size) {
            request = request.range(format!("bytes={from}-{}", end - 1));
        }
        let address = target.address.clone();
        let sent = request.customize().mutate_request(ask_for_checksum).send().await;
        sent.map_err(|error| {
            Box::new(move |asked: &str| Trouble::of(&error, &address, asked)) as Why
        })
    }

    /// Compares what the answer says it is with what was asked for.
    fn check(&self, answer: &GetObjectOutput, from: u64, end: u64) -> Result<(), Trouble> {
        let target = &self.target;
        target.pin(answer.e_tag(), answer.content_encoding())?;
        let Some(range) = answer.content_range() else {
            let length = answer.content_length().map(|length| length as u64);
            if length.is_some_and(|length| length != target.size) {
                return Err(resized(target.size, length.unwrap_or_default()));
            }
            if (from, end) != (0, target.size) {
                let message = "the server sent the whole object instead of the requested range";
                let remedy = "use a server that knows ranges";
                return Err(Trouble::Never(self.error(message, remedy)));
            }
            if self.verify
                && let Some(checksum) = Checksum::of(&given_with(answer))
            {
                let _ = target.checksum.set(checksum);
            }
            return Ok(());
        };
        let told = parse_range(range);
        match told {
            Some((_, _, Some(size))) if size != target.size => Err(resized(target.size, size)),
            Some((first, last, _)) if (first, last + 1) == (from, end) => Ok(()),
            _ => {
                let message =
                    format!("bytes {from} to {end} were requested, but the server sent `{range}`");
                Err(Trouble::Never(self.error(&message, "use a server that knows ranges")))
            }
        }
    }

    fn error(&self, message: &str, remedy: &str) -> SourceError {
        SourceError::new(self.target.address.to_string(), message, remedy)
    }
}

/// What makes a trouble of an error, told what was asked for: only then is that put into words.
type Why = Box<dyn FnOnce(&str) -> Trouble + Send>;

/// The SDK would compare it as well, but takes the sum of the whole for that of a range.
fn ask_for_checksum(request: &mut aws_sdk_s3::config::http::HttpRequest) {
    request.headers_mut().insert("x-amz-checksum-mode", "ENABLED");
}

fn silent(stall: Duration) -> String {
    format!("no byte came for {stall:?}")
}

fn broken(at: u64, end: u64, why: &str) -> Trouble {
    Trouble::again(format!("the body broke off at byte {at} of {end}: {why}"))
}

fn resized(before: u64, now: u64) -> Trouble {
    Trouble::Changed(format!("it had {before} bytes and has {now} now"))
}

/// `bytes FIRST-LAST/SIZE`.
fn parse_range(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((
        first.parse().ok()?,
        last.parse().ok().filter(|last| *last < u64::MAX)?,
        size.parse().ok(),
    ))
}

fn given_with(answer: &GetObjectOutput) -> Given<'_> {
    Given {
        crc32: answer.checksum_crc32(),
        crc32c: answer.checksum_crc32_c(),
        crc64nvme: answer.checksum_crc64_nvme(),
        sha256: answer.checksum_sha256(),
    }
}

/// Learns an object's size and state.
pub(super) async fn head(
    reach: &S3Handle,
    address: &Address,
    verify: bool,
) -> Result<Target, SourceError> {
    let answer = until_answered(reach, address, || ask_head(reach, address)).await?;
    Ok(target_of(address, &answer, verify))
}

async fn ask_head(reach: &S3Handle, address: &Address) -> Result<HeadObjectOutput, Trouble> {
    let client = reach.client(address).await.map_err(Trouble::Never)?;
    let request = client
        .head_object()
        .bucket(&*address.bucket)
        .key(&address.key)
        .set_version_id(address.version.clone())
        .set_request_payer(reach.payer())
        .checksum_mode(aws_sdk_s3::types::ChecksumMode::Enabled);
    let answer = timeout(reach.stall_timeout, request.send())
        .await
        .map_err(|_| Trouble::again(format!("HEAD had no answer for {:?}", reach.stall_timeout)))?
        .map_err(|error| Trouble::of(&error, address, "HEAD"))?;
    reach.got_answer();
    Ok(answer)
}

fn target_of(address: &Address, answer: &HeadObjectOutput, verify: bool) -> Target {
    let size = answer.content_length().unwrap_or_default().max(0) as u64;
    let target = Target::new(address.clone(), size, answer.e_tag());
    if let Some(encoding) = answer.content_encoding() {
        let _ = target.encoding.set(encoding.to_owned());
    }
    let given = Given {
        crc32: answer.checksum_crc32(),
        crc32c: answer.checksum_crc32_c(),
        crc64nvme: answer.checksum_crc64_nvme(),
        sha256: answer.checksum_sha256(),
    };
    if verify && let Some(checksum) = Checksum::of(&given) {
        let _ = target.checksum.set(checksum);
    }
    target
}

/// What a checksum that differs means.
pub(super) fn mismatch(found: &str, kept: &Checksum) -> String {
    format!("its bytes have the checksum {found}, and the server keeps {kept}")
}

/// A small object as a whole: a manifest.
pub(super) async fn whole(
    reach: Arc<S3Handle>,
    window: Arc<Window>,
    address: &Address,
    most: u64,
) -> Result<Vec<u8>, SourceError> {
    let target = Arc::new(head(&reach, address, true).await?);
    let size = target.size;
    if size > most {
        let message = format!("has {size} bytes; a manifest has at most {most}");
        return Err(SourceError::new(address.to_string(), message, "split it, or use a prefix"));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    if size > 0 {
        let (sender, mut frames) = tokio::sync::mpsc::unbounded_channel();
        let target = target.clone();
        Fetch { reach, window, target, verify: true }.range(0..size, &sender).await;
        drop(sender);
        while let Some(frame) = frames.recv().await {
            bytes.extend_from_slice(&frame.map_err(|trouble| trouble.into_error(address))?);
        }
    }
    if let Some(checksum) = target.checksum.get() {
        let mut sum = checksum.begin();
        sum.update(&bytes);
        checksum.check(sum).map_err(|found| {
            let message = mismatch(&found, checksum);
            SourceError::new(address.to_string(), message, "store it again")
        })?;
    }
    Ok(bytes)
}
