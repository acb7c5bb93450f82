//! The servers, the proxy and the credentials as a client sees them.

mod credentials;
mod faults;
mod pace;
mod passing;
mod repeat;
mod servers;
mod store;

use pipemill_s3_test::proxy::{Plan, Proxy};
use pipemill_s3_test::servers::{S3Server, S3s};
use tempfile::TempDir;

/// A server that needs no signatures, with the object `/bucket/object` of `SIZE` bytes.
struct Fixture {
    server: S3s,
    _folder: TempDir,
}

const SIZE: usize = 1 << 20;

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let server = S3s::start_open(folder.path());
        server.put("bucket", "object", &object());
        Self { server, _folder: folder }
    }

    fn proxy(&self, plan: Plan) -> Proxy {
        Proxy::start(&self.server.endpoint(), plan).expect("a port")
    }
}

/// The object's bytes. Each aligned word of 4 bytes is unique, so a wrong offset is noticed.
fn object() -> Vec<u8> {
    (0..SIZE as u32 / 4)
        .flat_map(|number| (number.wrapping_mul(0x9e37_79b1)).to_le_bytes())
        .collect()
}
