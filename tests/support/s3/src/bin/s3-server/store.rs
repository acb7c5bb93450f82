//! Objects in files: the requests of a reader, with S3's conditions such as `If-Match`, and those
//! that write an object, by one PUT or in parts. Versions and all else are not supported.
//!
//! The parts of uploads that have not ended are files `.uploads/ID.NUMBER` in the folder of all
//! buckets, so that tests see them.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CreateBucketInput, CreateBucketOutput,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, DeleteObjectInput, DeleteObjectOutput,
    ETag, ETagCondition, GetObjectInput, GetObjectOutput, HeadBucketInput, HeadBucketOutput,
    HeadObjectInput, HeadObjectOutput, ListObjectsV2Input, ListObjectsV2Output, PutObjectInput,
    PutObjectOutput, StreamingBlob, Timestamp, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};

use crate::listing::Listings;
use pipemill_s3_test::names;

/// The largest piece of a body that is read at once, in bytes.
const MAX_PIECE_BYTES: u64 = 256 << 10;
/// S3 refuses smaller parts of an upload, but for the last one.
const MIN_PART_BYTES: usize = 5 << 20;

/// The buckets and objects in a folder.
pub struct Store {
    root: PathBuf,
    listings: Listings,
    written: AtomicU64,
}

/// An ETag that differs for each file, and after each write of it. It is not a checksum: S3's ETags
/// of large objects are not, either.
pub fn etag(meta: &Metadata) -> ETag {
    let time =
        (meta.mtime() as u64).wrapping_mul(1_000_000_000).wrapping_add(meta.mtime_nsec() as u64);
    ETag::Strong(format!("{time:016x}{:08x}{:08x}-1", meta.ino() as u32, meta.len() as u32))
}

impl Store {
    pub fn new(root: PathBuf) -> io::Result<Self> {
        let root = root.canonicalize()?;
        Ok(Self { root, listings: Listings::default(), written: AtomicU64::new(0) })
    }

    fn bucket(&self, name: &str) -> S3Result<PathBuf> {
        let bucket = self.root.join(name);
        if bucket.is_dir() { Ok(bucket) } else { Err(s3_error!(NoSuchBucket)) }
    }

    /// The path of an object, if it may be written: if it has this ETag, if one is required.
    fn writable(&self, bucket: &str, key: &str, only: Option<&ETagCondition>) -> S3Result<PathBuf> {
        let path = self.bucket(bucket)?.join(names::file(key));
        if only.is_some() {
            let (_, meta) = self.open(bucket, key)?;
            check_preconditions(&etag(&meta), only, None)?;
        }
        Ok(path)
    }

    /// The file of a part of an upload.
    fn part(&self, upload: &str, number: i32) -> PathBuf {
        self.root.join(".uploads").join(format!("{upload}.{number}"))
    }

    /// The numbers of the parts of an upload.
    ///
    /// # Errors
    /// There is no such upload.
    fn parts(&self, upload: &str) -> S3Result<Vec<i32>> {
        let folder = fs::read_dir(self.root.join(".uploads"));
        let names = folder.into_iter().flatten().flatten().map(|entry| entry.file_name());
        let number = |name: std::ffi::OsString| {
            let (of, number) = name.to_str()?.split_once('.')?;
            if of == upload { number.parse().ok() } else { None }
        };
        let numbers: Vec<_> = names.filter_map(number).collect();
        if numbers.is_empty() { Err(s3_error!(NoSuchUpload)) } else { Ok(numbers) }
    }

    fn remove_upload(&self, upload: &str) -> S3Result<()> {
        for number in self.parts(upload)? {
            let _ = fs::remove_file(self.part(upload, number));
        }
        Ok(())
    }

    fn open(&self, bucket: &str, key: &str) -> S3Result<(File, Metadata)> {
        let path = self.bucket(bucket)?.join(names::file(key));
        let file = File::open(path).map_err(|error| s3_error!(error, NoSuchKey))?;
        let meta = file.metadata().map_err(|error| s3_error!(error, InternalError))?;
        if meta.is_dir() { Err(s3_error!(NoSuchKey)) } else { Ok((file, meta)) }
    }

    /// Writes a file atomically.
    fn replace(&self, path: &Path, pieces: &[Bytes]) -> io::Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let draft = self.root.join(format!(".{}.{number}", std::process::id()));
        let mut file = File::create(&draft)?;
        pieces.iter().try_for_each(|piece| file.write_all(piece))?;
        fs::create_dir_all(path.parent().expect("it is in a bucket"))?;
        fs::rename(draft, path)
    }
}

/// Checks the conditions `If-Match` and `If-None-Match`.
fn check_preconditions(
    etag: &ETag,
    only: Option<&ETagCondition>,
    not: Option<&ETagCondition>,
) -> S3Result<()> {
    let is = |condition: &ETagCondition| match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(other) => other.value() == etag.value(),
    };
    if only.is_some_and(|condition| !is(condition)) {
        return Err(s3_error!(
            PreconditionFailed,
            "At least one of the preconditions did not hold"
        ));
    }
    if not.is_some_and(is) { Err(s3_error!(NotModified)) } else { Ok(()) }
}

#[async_trait::async_trait]
impl S3 for Store {
    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let (file, meta) = self.open(&input.bucket, &input.key)?;
        let etag = etag(&meta);
        check_preconditions(&etag, input.if_match.as_ref(), input.if_none_match.as_ref())?;
        let size = meta.len();
        let range = input.range.map(|range| range.check(size)).transpose()?;
        let content_range =
            range.as_ref().map(|range| format!("bytes {}-{}/{size}", range.start, range.end - 1));
        let range = range.unwrap_or(0..size);
        Ok(S3Response::new(GetObjectOutput {
            content_length: Some((range.end - range.start) as i64),
            content_range,
            accept_ranges: Some("bytes".to_owned()),
            content_type: Some("binary/octet-stream".parse().expect("a media type")),
            last_modified: meta.modified().ok().map(Timestamp::from),
            e_tag: Some(etag),
            body: Some(StreamingBlob::wrap(FileRange { file, at: range.start, end: range.end })),
            ..GetObjectOutput::default()
        }))
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let input = request.input;
        let (_, meta) = self.open(&input.bucket, &input.key)?;
        let etag = etag(&meta);
        check_preconditions(&etag, input.if_match.as_ref(), input.if_none_match.as_ref())?;
        Ok(S3Response::new(HeadObjectOutput {
            content_length: Some(meta.len() as i64),
            accept_ranges: Some("bytes".to_owned()),
            content_type: Some("binary/octet-stream".parse().expect("a media type")),
            last_modified: meta.modified().ok().map(Timestamp::from),
            e_tag: Some(etag),
            ..HeadObjectOutput::default()
        }))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        self.listings.page(&self.root, request.input).map(S3Response::new)
    }

    async fn head_bucket(
        &self,
        request: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        self.bucket(&request.input.bucket)?;
        Ok(S3Response::new(HeadBucketOutput::default()))
    }

    async fn create_bucket(
        &self,
        request: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        let made = fs::create_dir(self.root.join(&request.input.bucket));
        made.map_err(|error| s3_error!(error, BucketAlreadyExists))?;
        Ok(S3Response::new(CreateBucketOutput::default()))
    }

    async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        let pieces = body(input.body).await?;
        let path = self.writable(&input.bucket, &input.key, input.if_match.as_ref())?;
        let written = self.replace(&path, &pieces).and_then(|()| fs::metadata(&path));
        let meta = written.map_err(|error| s3_error!(error, InternalError))?;
        Ok(S3Response::new(PutObjectOutput {
            e_tag: Some(etag(&meta)),
            ..PutObjectOutput::default()
        }))
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        self.bucket(&request.input.bucket)?;
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let upload = format!("upload{number}");
        let path = self.part(&upload, 0);
        // An empty part 0 shows that the upload has begun.
        self.replace(&path, &[]).map_err(|error| s3_error!(error, InternalError))?;
        Ok(S3Response::new(CreateMultipartUploadOutput {
            bucket: Some(request.input.bucket),
            key: Some(request.input.key),
            upload_id: Some(upload),
            ..CreateMultipartUploadOutput::default()
        }))
    }

    async fn upload_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let input = request.input;
        self.parts(&input.upload_id)?;
        let pieces = body(input.body).await?;
        let path = self.part(&input.upload_id, input.part_number);
        let written = self.replace(&path, &pieces).and_then(|()| fs::metadata(&path));
        let meta = written.map_err(|error| s3_error!(error, InternalError))?;
        Ok(S3Response::new(UploadPartOutput {
            e_tag: Some(etag(&meta)),
            ..UploadPartOutput::default()
        }))
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let input = request.input;
        self.parts(&input.upload_id)?;
        let path = self.writable(&input.bucket, &input.key, input.if_match.as_ref())?;
        let mut pieces = Vec::new();
        for part in input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default() {
            let of_part = self.part(&input.upload_id, part.part_number.unwrap_or_default());
            let found = fs::metadata(&of_part).ok().map(|meta| etag(&meta));
            if found.is_none() || found != part.e_tag {
                return Err(s3_error!(InvalidPart));
            }
            let bytes = fs::read(&of_part).map_err(|error| s3_error!(error, InvalidPart))?;
            pieces.push(Bytes::from(bytes));
        }
        let small = pieces.iter().rev().skip(1).any(|piece| piece.len() < MIN_PART_BYTES);
        if small || pieces.is_empty() {
            return Err(s3_error!(EntityTooSmall));
        }
        let written = self.replace(&path, &pieces).and_then(|()| fs::metadata(&path));
        let meta = written.map_err(|error| s3_error!(error, InternalError))?;
        self.remove_upload(&input.upload_id)?;
        Ok(S3Response::new(CompleteMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag: Some(etag(&meta)),
            ..CompleteMultipartUploadOutput::default()
        }))
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        self.remove_upload(&request.input.upload_id)?;
        Ok(S3Response::new(AbortMultipartUploadOutput::default()))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let path = self.bucket(&request.input.bucket)?.join(names::file(&request.input.key));
        // S3 gives the same answer if there was no object.
        let _ = fs::remove_file(path);
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }
}

/// All of a request's body.
async fn body(body: Option<StreamingBlob>) -> S3Result<Vec<Bytes>> {
    let mut pieces = Vec::new();
    if let Some(mut body) = body {
        let mut next = |context: &mut Context<'_>| Pin::new(&mut body).poll_next(context);
        while let Some(piece) = std::future::poll_fn(&mut next).await {
            pieces.push(piece.map_err(|_| s3_error!(IncompleteBody))?);
        }
    }
    Ok(pieces)
}

/// Streams a range of a file. It reads within `poll_next`, because a read from the page cache takes
/// less time than handing it to another thread.
struct FileRange {
    file: File,
    at: u64,
    end: u64,
}

impl Stream for FileRange {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let most = MAX_PIECE_BYTES.min(self.end - self.at);
        if most == 0 {
            return Poll::Ready(None);
        }
        let mut piece = vec![0; most as usize];
        let read = self.file.read_exact_at(&mut piece, self.at);
        self.at += most;
        Poll::Ready(Some(read.map(|()| piece.into())))
    }
}
