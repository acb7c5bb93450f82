//! A small HTTP client that also accepts answers that break off. It signs nothing: it is for
//! servers without authentication, and for tests of the proxy.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use crate::http::{Length, Reader, header};

/// A guard against a hang; no server takes so long.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// An answer to a request.
#[derive(Debug)]
pub struct DecodeOutcome {
    /// The HTTP status.
    pub status: u16,
    /// Names, in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The bytes of the body that arrived.
    pub body: Vec<u8>,
    /// The error that ended the body early. `None` if the body is complete.
    pub broken: Option<io::Error>,
}

impl DecodeOutcome {
    /// The value of a header, whose name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The body as text. Invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a request to an endpoint such as `http://127.0.0.1:80` on a new connection, and reads the
/// answer.
///
/// # Errors
/// If there is no connection, or no complete head of an answer. A body that breaks off is not an
/// error: see [`DecodeOutcome::broken`].
pub fn request(
    endpoint: &str,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<DecodeOutcome> {
    let mut client = Client::connect(endpoint)?;
    client.request(method, target, headers, body)
}

/// Like [`request`], for `GET`, with a range such as `bytes=0-99`.
///
/// # Errors
/// As [`request`].
pub fn get(endpoint: &str, target: &str, range: Option<&str>) -> io::Result<DecodeOutcome> {
    let headers: &[(&str, &str)] = &[("range", range.unwrap_or_default())];
    request(endpoint, "GET", target, &headers[..usize::from(range.is_some())], b"")
}

/// The path of an object in a request: `/bucket/key`, percent-encoded.
pub fn target(bucket: &str, key: &str) -> String {
    key.bytes().fold(format!("/{bucket}/"), |target, byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
            target + char::from(byte).encode_utf8(&mut [0; 4])
        }
        _ => format!("{target}%{byte:02X}"),
    })
}

/// A connection for several requests, one after the other.
pub struct Client {
    reader: Reader,
    host: String,
}

impl Client {
    /// Connects to an endpoint such as `http://127.0.0.1:80`.
    ///
    /// # Errors
    /// If it can't connect.
    pub fn connect(endpoint: &str) -> io::Result<Self> {
        let host = endpoint.strip_prefix("http://").unwrap_or(endpoint).trim_end_matches('/');
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(Self { reader: Reader::new(Arc::new(stream), 256 << 10), host: host.to_owned() })
    }

    /// Sends a request and reads the answer.
    ///
    /// # Errors
    /// As [`request`].
    pub fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<DecodeOutcome> {
        let mut head = format!("{method} {target} HTTP/1.1\r\nhost: {}\r\n", self.host);
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || method == "PUT" {
            head += &format!("content-length: {}\r\n", body.len());
        }
        head += "\r\n";
        self.reader.stream().write_all(head.as_bytes())?;
        self.reader.stream().write_all(body)?;
        let head = self.reader.answer()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = head.length(method)?;
        let mut body = Vec::new();
        let broken = self.read_body(length, &mut body).err();
        Ok(DecodeOutcome { status: head.status, headers: head.headers, body, broken })
    }

    fn read_body(&mut self, length: Length, body: &mut Vec<u8>) -> io::Result<()> {
        match length {
            Length::Bytes(count) => self.read_exactly(count, body),
            Length::Open => {
                while let Some(bytes) = self.reader.bytes(u64::MAX)? {
                    body.extend_from_slice(bytes);
                }
                Ok(())
            }
            Length::Chunked => loop {
                let size = chunk_size(&self.reader.line()?)?;
                self.read_exactly(size, body)?;
                self.reader.line()?;
                if size == 0 {
                    return Ok(());
                }
            },
        }
    }

    fn read_exactly(&mut self, count: u64, body: &mut Vec<u8>) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            let bytes = self.reader.bytes(left)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            body.extend_from_slice(bytes);
            left -= bytes.len() as u64;
        }
        Ok(())
    }
}

/// The size in bytes that the line before a chunk gives.
///
/// # Errors
/// If it is not a hexadecimal number.
pub(crate) fn chunk_size(line: &[u8]) -> io::Result<u64> {
    let digits = String::from_utf8_lossy(line);
    let digits = digits.split(';').next().unwrap_or_default().trim();
    u64::from_str_radix(digits, 16)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a chunk without its size"))
}
