//! S3 servers as child processes on free ports. Each is ready when `start` returns and ends when it is
//! dropped, or with the process that started it.

mod child;
mod folder;
mod moto;
mod rclone;
mod s3s;

pub use moto::Moto;
pub use rclone::Rclone;
pub use s3s::S3s;

/// What every server here lets in.
const ACCESS_KEY: &str = "PIPEMILLTESTKEY";
const SECRET_KEY: &str = "a-secret-that-every-test-knows";

/// A server of S3 for a test.
pub trait S3Server {
    /// Where it is, such as `http://127.0.0.1:80`. Buckets are the first part of the path.
    fn endpoint(&self) -> String;

    /// The key it lets in.
    fn access_key(&self) -> &str {
        ACCESS_KEY
    }

    /// The secret to that.
    fn secret_key(&self) -> &str {
        SECRET_KEY
    }

    /// All it has said so far, for failures.
    fn log(&self) -> String;

    /// Makes a bucket. One that is there already stays.
    ///
    /// # Panics
    /// If it cannot be made.
    fn make_bucket(&self, bucket: &str);

    /// Makes an object, or replaces it as a whole, and makes the bucket if need be.
    ///
    /// # Panics
    /// If it cannot be made.
    fn put(&self, bucket: &str, key: &str, bytes: &[u8]);

    /// Removes an object.
    ///
    /// # Panics
    /// If there is none.
    fn delete(&self, bucket: &str, key: &str);
}
