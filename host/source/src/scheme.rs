//! Addresses of stores that are not supported: `gs://`, `https://`, `az://`, `hdfs://` and others.
//! They are not paths: a program that names one gets an error that says what to do.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// An address that is neither a path nor an address in S3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherAddress {
    /// A description, to follow "is".
    pub what: &'static str,
    /// The alternative.
    pub remedy: &'static str,
}

/// The schemes of a store, what their addresses are, and what to do.
const STORES: [(&[&str], &str, &str); 7] = [
    (
        &["gs", "gcs"],
        "an address in Google Cloud Storage, which is not read as such",
        "write it as s3://bucket/key, with `endpoint` = \"https://storage.googleapis.com\" and an \
         HMAC key, copy it with `gcloud storage cp`, or mount the bucket with gcsfuse",
    ),
    (
        &["http", "https", "ftp", "ftps"],
        "an address of the web, from which nothing is read",
        "download it first, as with `curl -O`; an object in a bucket is s3://bucket/key, with the \
         server as `endpoint`",
    ),
    (
        &["az", "azure", "abfs", "abfss", "wasb", "wasbs", "adl"],
        "an address in Azure's storage, which is not read",
        "copy it with `azcopy`, or mount the container with blobfuse2",
    ),
    (
        &["hdfs", "viewfs", "webhdfs", "dbfs"],
        "an address in HDFS or Databricks' file system, which is not read",
        "copy it with `hdfs dfs -get` or `databricks fs cp`, or give the path where it is mounted",
    ),
    (&["s3a", "s3n"], "Hadoop's way to write an address in S3", "write it as s3://bucket/key"),
    (
        &["hf"],
        "an address of the Hugging Face Hub, which is not read",
        "copy it with `hf download`",
    ),
    (&["file"], "a path that is written as a URL", "give the path without file://"),
];

/// Describes a name that has the form of a URL and is not supported. `None` for paths and for
/// `s3://`. A relative path of this form can be given as `./gs://x`.
pub fn other_address(name: impl AsRef<OsStr>) -> Option<OtherAddress> {
    let name = name.as_ref().as_bytes();
    let end = name.windows(3).position(|part| part == b"://")?;
    let scheme = str::from_utf8(&name[..end]).ok()?.to_ascii_lowercase();
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if scheme == "s3" && name.starts_with(b"s3") || !scheme.chars().all(is_scheme) {
        return None;
    }
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let known = STORES.iter().find(|(schemes, ..)| schemes.contains(&scheme.as_str()));
    let (what, remedy) = known.map_or(
        (
            "an address of a store that is not read",
            "give the path of a file, folder or FIFO, or an address in S3, s3://bucket/key",
        ),
        |(_, what, remedy)| (*what, *remedy),
    );
    Some(OtherAddress { what, remedy })
}

#[cfg(test)]
mod tests {
    use super::other_address;

    #[test]
    fn addresses_are_no_paths() {
        for (name, what) in [
            ("gs://b/k", "Google"),
            ("GS://b/k", "Google"),
            ("https://host/x.csv", "the web"),
            ("az://c/k", "Azure"),
            ("abfss://c@a.dfs.core.windows.net/k", "Azure"),
            ("hdfs:///user/x", "HDFS"),
            ("s3a://b/k", "Hadoop"),
            ("S3://b/k", "a store"),
            ("file:///x", "a path"),
            ("oss://b/k", "a store"),
            ("gs://b/*.csv", "Google"),
        ] {
            let found = other_address(name).unwrap_or_else(|| panic!("{name}"));
            assert!(found.what.contains(what), "{name}: {}", found.what);
        }
        for name in
            ["s3://b/k", "a", "./gs://b", "/gs://b", "a b://c", "://x", "1://x", "c:/x", "é://x"]
        {
            assert_eq!(other_address(name), None, "{name}");
        }
    }
}
