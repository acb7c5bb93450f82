//! moto's server: knows `If-Match`, any key and much else of S3, and is slow. It takes any signature
//! for right, and keeps all in memory.

use super::S3Server;
use super::child::{Server, mortal};
use crate::client::{request, target};

/// moto's server.
pub struct Moto(Server);

impl Moto {
    /// An `Authorization` with which it lets one in. Any would do; without one, it gives no objects.
    pub const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 \
        Credential=PIPEMILLTESTKEY/20260101/us-east-1/s3/aws4_request, \
        SignedHeaders=host, Signature=0";

    /// Starts one that has nothing yet. None, and a line that says so, where `PIPEMILL_MOTO` does not
    /// name the program.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("PIPEMILL_MOTO") else {
            println!("left out: PIPEMILL_MOTO does not name moto_server (PyPI: moto[server])");
            return None;
        };
        let mut command = mortal(program);
        command.args(["-H", "127.0.0.1", "-p", "0"]);
        Some(Self(Server::start(command)))
    }

    fn ask(&self, method: &str, target: &str, body: &[u8], good: &[u16]) {
        let headers = [("authorization", Self::AUTHORIZATION)];
        let answer = request(&self.endpoint(), method, target, &headers, body).expect("it answers");
        let text = answer.text();
        assert!(good.contains(&answer.status), "{method} {target}: {} {text}", answer.status);
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
        self.ask("PUT", &format!("/{bucket}"), b"", &[200, 409]);
    }

    fn put(&self, bucket: &str, key: &str, bytes: &[u8]) {
        self.make_bucket(bucket);
        self.ask("PUT", &target(bucket, key), bytes, &[200]);
    }

    fn delete(&self, bucket: &str, key: &str) {
        self.ask("DELETE", &target(bucket, key), b"", &[204]);
    }
}
