//! S3 servers as child processes on free ports. A server is ready when `start` returns. It ends
//! when it is dropped, or with the process that started it.

mod child;
mod folder;
mod moto;
mod rclone;
mod s3s;

pub use moto::Moto;
pub use rclone::Rclone;
pub use s3s::{S3s, program};

/// The access key that all servers accept.
const ACCESS_KEY: &str = "PIPEMILLTESTKEY";
/// The secret key of [`ACCESS_KEY`].
const SECRET_KEY: &str = "a-secret-that-every-test-knows";

/// An S3 server for a test.
pub trait S3Server {
    /// The server's URL, such as `http://127.0.0.1:80`. The first part of a path is the bucket.
    fn endpoint(&self) -> String;

    /// The access key that the server accepts.
    fn access_key(&self) -> &str {
        ACCESS_KEY
    }

    /// The secret key of [`access_key`](Self::access_key).
    fn secret_key(&self) -> &str {
        SECRET_KEY
    }

    /// The server's output so far, for messages of failed tests.
    fn log(&self) -> String;

    /// Creates a bucket, if it does not exist.
    ///
    /// # Panics
    /// If it can't be created.
    fn make_bucket(&self, bucket: &str);

    /// Creates an object or replaces it as a whole. Creates the bucket, if it does not exist.
    ///
    /// # Panics
    /// If it can't be created.
    fn put(&self, bucket: &str, key: &str, bytes: &[u8]);

    /// Removes an object.
    ///
    /// # Panics
    /// If it does not exist.
    fn delete(&self, bucket: &str, key: &str);
}
