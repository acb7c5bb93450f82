//! The part of HTTP/1.1 that a proxy and a small client need: it parses heads and finds the length
//! of bodies.

use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;

/// The largest head, in bytes. No head of S3 is that large.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// The largest number of headers in a head.
const MAX_HEADERS: usize = 128;

/// The head of a request: its first line and headers.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// The unchanged bytes, including the empty line at the end.
    pub raw: Vec<u8>,
    /// `GET`, `HEAD` and so on.
    pub method: String,
    /// Path and query, unchanged.
    pub target: String,
    /// Names, in lower case, and values.
    pub headers: Vec<(String, String)>,
}

/// The head of an answer: its first line and headers.
#[derive(Debug, Clone)]
pub struct AnswerHead {
    /// The unchanged bytes, including the empty line at the end.
    pub raw: Vec<u8>,
    /// The HTTP status.
    pub status: u16,
    /// Whether the server keeps the connection open for another request.
    pub stays: bool,
    /// Names, in lower case, and values.
    pub headers: Vec<(String, String)>,
}

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// The body has this many bytes.
    Bytes(u64),
    /// The body ends after its last chunk.
    Chunked,
    /// The body ends when the connection ends.
    Open,
}

/// The value of the first header with this name, which is given in lower case.
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

impl RequestHead {
    /// The value of a header, whose name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The length of the request's body, in bytes.
    ///
    /// # Errors
    /// If the body is chunked, or its length is not a number. The clients in use send neither.
    pub fn length(&self) -> io::Result<u64> {
        if self.header("transfer-encoding").is_some() {
            return Err(invalid_data("a request with a chunked body"));
        }
        let length = self.header("content-length").map_or(Ok(0), str::parse);
        length.map_err(|_| invalid_data("a content-length that is no number"))
    }

    /// Whether the client keeps the connection open for another request.
    pub fn stays(&self) -> bool {
        !self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    fn parse(raw: Vec<u8>) -> io::Result<Self> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        request.parse(&raw).map_err(invalid_data)?;
        let method = request.method.unwrap_or_default().to_owned();
        let target = request.path.unwrap_or_default().to_owned();
        let headers = owned(request.headers);
        Ok(Self { raw, method, target, headers })
    }
}

impl AnswerHead {
    /// The value of a header, whose name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// How the body of this answer ends, if the request had this method.
    ///
    /// # Errors
    /// If its length is not a number.
    pub fn length(&self, method: &str) -> io::Result<Length> {
        if method == "HEAD" || matches!(self.status, 100..=199 | 204 | 304) {
            return Ok(Length::Bytes(0));
        }
        if self.header("transfer-encoding").is_some_and(|value| value.ends_with("chunked")) {
            return Ok(Length::Chunked);
        }
        self.header("content-length").map_or(Ok(Length::Open), |value| {
            value
                .parse()
                .map(Length::Bytes)
                .map_err(|_| invalid_data("a content-length that is no number"))
        })
    }

    fn parse(raw: Vec<u8>) -> io::Result<Self> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut answer = httparse::Response::new(&mut headers);
        answer.parse(&raw).map_err(invalid_data)?;
        let status = answer.code.unwrap_or_default();
        let new = answer.version == Some(1);
        let headers = owned(answer.headers);
        let stays = match header(&headers, "connection") {
            Some(value) if value.eq_ignore_ascii_case("close") => false,
            Some(value) if value.eq_ignore_ascii_case("keep-alive") => true,
            _ => new,
        };
        Ok(Self { raw, status, stays, headers })
    }
}

/// Reads heads and bodies, in turn, from one side of a connection.
pub struct Reader {
    stream: Arc<TcpStream>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Reader {
    /// Reads from `stream`, at most `capacity` bytes at once.
    pub fn new(stream: Arc<TcpStream>, capacity: usize) -> Self {
        Self { stream, buffer: vec![0; capacity], start: 0, end: 0 }
    }

    /// The stream that this reads from, for writing.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The next request. `None` if the other side has closed the connection.
    ///
    /// # Errors
    /// If reading fails, or the bytes are not a request.
    pub fn request(&mut self) -> io::Result<Option<RequestHead>> {
        self.head()?.map(RequestHead::parse).transpose()
    }

    /// The next answer. `None` if the other side has closed the connection.
    ///
    /// # Errors
    /// If reading fails, or the bytes are not an answer.
    pub fn answer(&mut self) -> io::Result<Option<AnswerHead>> {
        self.head()?.map(AnswerHead::parse).transpose()
    }

    /// The number of bytes in the buffer: read from the stream, but not returned yet.
    pub fn buffered(&self) -> u64 {
        (self.end - self.start) as u64
    }

    /// The next bytes: at most `most`, and at most those of one read. `None` at the end.
    ///
    /// # Errors
    /// If reading fails.
    pub fn bytes(&mut self, most: u64) -> io::Result<Option<&[u8]>> {
        // If no bytes are wanted, do not wait for any.
        if most > 0 && self.start == self.end && !self.fill()? {
            return Ok(None);
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let from = self.start;
        self.start += most.min(self.end - self.start);
        Ok(Some(&self.buffer[from..self.start]))
    }

    /// The next line, with its line end.
    ///
    /// # Errors
    /// If reading fails, or the stream ends within the line.
    pub fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let byte = self.bytes(1)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            line.extend_from_slice(byte);
            if line.len() > MAX_HEAD_BYTES {
                return Err(invalid_data("a line without an end"));
            }
        }
        Ok(line)
    }

    fn head(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut raw: Vec<u8> = Vec::new();
        loop {
            let Some(piece) = self.bytes(MAX_HEAD_BYTES as u64)? else {
                return if raw.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            };
            let (piece, before) = (piece.len(), raw.len());
            raw.extend_from_slice(&self.buffer[self.start - piece..self.start]);
            let from = before.saturating_sub(3);
            if let Some(at) = raw[from..].windows(4).position(|window| window == b"\r\n\r\n") {
                let end = from + at + 4;
                // The bytes after the head stay in the buffer for the next read.
                self.start -= raw.len() - end;
                raw.truncate(end);
                return Ok(Some(raw));
            }
            if raw.len() > MAX_HEAD_BYTES {
                return Err(invalid_data("a head without an end"));
            }
        }
    }

    fn fill(&mut self) -> io::Result<bool> {
        (self.start, self.end) = (0, 0);
        self.end = loop {
            match (&*self.stream).read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done?,
            }
        };
        Ok(self.end > 0)
    }
}

fn owned(headers: &[httparse::Header<'_>]) -> Vec<(String, String)> {
    let text = |header: &httparse::Header<'_>| {
        (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned())
    };
    headers.iter().map(text).collect()
}

fn invalid_data(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
