//! moto's server. It supports `If-Match`, any key and many other features of S3, but is slow. It
//! accepts any signature, and keeps all objects in memory.

use super::S3Server;
use super::child::{Server, killed_with_parent};
use crate::client::{request, target};
use crate::skips::skip_test;

/// moto's server.
pub struct Moto(Server);

impl Moto {
    /// A header `Authorization` that moto accepts. It accepts any, but without one it gives no
    /// objects.
    pub const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 \
        Credential=PIPEMILLTESTKEY/20260101/us-east-1/s3/aws4_request, \
        SignedHeaders=host, Signature=0";

    /// Starts a server without buckets. If `PIPEMILL_MOTO` does not name the program, prints a line
    /// that says so and gives `None`.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("PIPEMILL_MOTO") else {
            skip_test("moto", "PIPEMILL_MOTO, which names moto_server (PyPI: moto[server])");
            return None;
        };
        let mut command = killed_with_parent(program);
        command.args(["-H", "127.0.0.1", "-p", "0"]);
        Some(Self(Server::start(command)))
    }

    /// Sends a request, and panics if the status is not one of `expected`.
    fn send(&self, method: &str, target: &str, body: &[u8], expected: &[u16]) {
        let headers = [("authorization", Self::AUTHORIZATION)];
        let answer = request(&self.endpoint(), method, target, &headers, body).expect("it answers");
        let text = answer.text();
        assert!(expected.contains(&answer.status), "{method} {target}: {} {text}", answer.status);
    }
}

impl S3Server for Moto {
    fn endpoint(&self) -> String {
        self.0.endpoint()
    }

    fn log(&self) -> String {
        self.0.log()
    }

    fn make_bucket(&self, bucket: &str) {
        self.send("PUT", &format!("/{bucket}"), b"", &[200, 409]);
    }

    fn put(&self, bucket: &str, key: &str, bytes: &[u8]) {
        self.make_bucket(bucket);
        self.send("PUT", &target(bucket, key), bytes, &[200]);
    }

    fn delete(&self, bucket: &str, key: &str) {
        self.send("DELETE", &target(bucket, key), b"", &[204]);
    }
}
