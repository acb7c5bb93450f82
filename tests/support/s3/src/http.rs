//! As much of HTTP/1.1 as a proxy and a small client need: heads, and how long a body is. It does not
//! know what a header means beyond that.

use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Arc;

/// More than any head of S3 has.
const LONGEST_HEAD: usize = 64 << 10;
const HEADERS: usize = 128;

/// The head of a request.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// As it came, with the empty line at its end.
    pub raw: Vec<u8>,
    /// `GET`, `HEAD` and so on.
    pub method: String,
    /// Path and query, as they came.
    pub target: String,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
}

/// The head of an answer.
#[derive(Debug, Clone)]
pub struct AnswerHead {
    /// As it came, with the empty line at its end.
    pub raw: Vec<u8>,
    /// Three digits.
    pub status: u16,
    /// Whether another request may follow on this connection.
    pub stays: bool,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
}

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// After so many bytes.
    Bytes(u64),
    /// After its last chunk.
    Chunked,
    /// Where the connection ends.
    Open,
}

/// A header's value, of the first of that name.
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

impl RequestHead {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// How long the request's body is.
    ///
    /// # Errors
    /// If it is chunked or no number: the clients there are send neither.
    pub fn length(&self) -> io::Result<u64> {
        if self.header("transfer-encoding").is_some() {
            return Err(bad("a request with a chunked body"));
        }
        let length = self.header("content-length").map_or(Ok(0), str::parse);
        length.map_err(|_| bad("a content-length that is no number"))
    }

    /// Whether the client wants to send more requests on this connection.
    pub fn stays(&self) -> bool {
        !self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    fn parse(raw: Vec<u8>) -> io::Result<Self> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        request.parse(&raw).map_err(bad)?;
        let method = request.method.unwrap_or_default().to_owned();
        let target = request.path.unwrap_or_default().to_owned();
        let headers = owned(request.headers);
        Ok(Self { raw, method, target, headers })
    }
}

impl AnswerHead {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Where the body of this answer to a request of this method ends.
    ///
    /// # Errors
    /// If its length is no number.
    pub fn length(&self, method: &str) -> io::Result<Length> {
        if method == "HEAD" || matches!(self.status, 100..=199 | 204 | 304) {
            return Ok(Length::Bytes(0));
        }
        if self.header("transfer-encoding").is_some_and(|value| value.ends_with("chunked")) {
            return Ok(Length::Chunked);
        }
        self.header("content-length").map_or(Ok(Length::Open), |value| {
            value.parse().map(Length::Bytes).map_err(|_| bad("a content-length that is no number"))
        })
    }

    fn parse(raw: Vec<u8>) -> io::Result<Self> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut answer = httparse::Response::new(&mut headers);
        answer.parse(&raw).map_err(bad)?;
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

/// One side of a connection, of which heads and bodies are read in turn.
pub struct Reader {
    stream: Arc<TcpStream>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Reader {
    /// Reads `stream`, `capacity` bytes at a time.
    pub fn new(stream: Arc<TcpStream>, capacity: usize) -> Self {
        Self { stream, buffer: vec![0; capacity], start: 0, end: 0 }
    }

    /// What is read from, to write to it.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The next request. None where the other side has ended.
    ///
    /// # Errors
    /// What reading says, and what is no request.
    pub fn request(&mut self) -> io::Result<Option<RequestHead>> {
        self.head()?.map(RequestHead::parse).transpose()
    }

    /// The next answer. None where the other side has ended.
    ///
    /// # Errors
    /// What reading says, and what is no answer.
    pub fn answer(&mut self) -> io::Result<Option<AnswerHead>> {
        self.head()?.map(AnswerHead::parse).transpose()
    }

    /// How many bytes were read already that nobody has taken.
    pub fn buffered(&self) -> u64 {
        (self.end - self.start) as u64
    }

    /// The next bytes, at most `most` and at most what one read gives. None at the end.
    ///
    /// # Errors
    /// What reading says.
    pub fn bytes(&mut self, most: u64) -> io::Result<Option<&[u8]>> {
        // None are there without waiting for any.
        if most > 0 && self.start == self.end && !self.fill()? {
            return Ok(None);
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let from = self.start;
        self.start += most.min(self.end - self.start);
        Ok(Some(&self.buffer[from..self.start]))
    }

    /// The next line, with its end.
    ///
    /// # Errors
    /// What reading says, and an end within the line.
    pub fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let byte = self.bytes(1)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            line.extend_from_slice(byte);
            if line.len() > LONGEST_HEAD {
                return Err(bad("a line without an end"));
            }
        }
        Ok(line)
    }

    fn head(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut raw: Vec<u8> = Vec::new();
        loop {
            let Some(piece) = self.bytes(LONGEST_HEAD as u64)? else {
                return if raw.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            };
            let (piece, before) = (piece.len(), raw.len());
            raw.extend_from_slice(&self.buffer[self.start - piece..self.start]);
            let from = before.saturating_sub(3);
            if let Some(at) = raw[from..].windows(4).position(|four| four == b"\r\n\r\n") {
                let end = from + at + 4;
                // What follows the head is for the next who reads.
                self.start -= raw.len() - end;
                raw.truncate(end);
                return Ok(Some(raw));
            }
            if raw.len() > LONGEST_HEAD {
                return Err(bad("a head without an end"));
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

fn bad(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
