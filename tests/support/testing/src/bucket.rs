//! A bucket of a test's own, on a server that asks for no signatures.

use pipemill_s3_test::proxy::{Plan, Proxy};
use pipemill_s3_test::servers::{S3Server, S3s};

use crate::test_dir::TestDir;
use crate::until;

/// The name of all buckets.
pub const BUCKET: &str = "bucket";

/// A server with a folder of its own that asks for no signatures.
pub struct Bucket {
    /// Where the server has its folder.
    pub place: TestDir,
    /// The server.
    pub server: S3s,
}

impl Bucket {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "each is another server")]
    pub fn new() -> Self {
        let place = TestDir::new();
        let server = S3s::start_open(&place.make_folder("s3"));
        server.make_bucket(BUCKET);
        Self { place, server }
    }

    /// One with these objects.
    pub fn with<K: AsRef<str>, B: AsRef<[u8]>>(objects: impl IntoIterator<Item = (K, B)>) -> Self {
        let bucket = Self::new();
        for (key, bytes) in objects {
            bucket.server.put(BUCKET, key.as_ref(), bytes.as_ref());
        }
        bucket
    }

    /// A proxy before the server.
    ///
    /// # Panics
    /// If no port is free.
    pub fn proxy(&self, plan: Plan) -> Proxy {
        Proxy::start(&self.server.endpoint(), plan).expect("a port is free")
    }

    /// A proxy so slow that a part of a mebibyte, which nobody lets go, takes far longer than a test
    /// waits.
    pub fn slow_proxy(&self) -> Proxy {
        self.proxy(Plan { throttle: Some(2_000), ..Plan::default() })
    }
}

/// Waits until requests go through the proxy.
///
/// # Panics
/// If none do.
#[track_caller]
pub fn until_asked(proxy: &Proxy) {
    until("there are three requests", || proxy.in_flight() >= 3);
}

/// Waits until none does any more.
///
/// # Panics
/// If one goes on.
#[track_caller]
pub fn until_quiet(proxy: &Proxy) {
    until("no request goes on", || proxy.in_flight() == 0);
}
