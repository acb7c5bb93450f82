//! Checks the first bytes of an object: a decoder refuses an object that clearly has another
//! format. See [`foreign`](crate::foreign) for the known formats.
//!
//! A decoder that accepts any bytes calls [`Head::check`] before it decodes, and has the option
//! [`option`]. A decoder whose format has its own marks passes its first result to
//! [`Head::explain`]: it reads everything that is valid, and only its error message is improved.

use pipemill_plugin::{DecodeError, OptionSpec, Options, Progress, StreamInfo};

use crate::foreign::{foreign, is_undecided};

/// The name of the [`option`].
const SNIFF: &str = "sniff";

/// The option that [`Head::sniffing`] reads.
pub fn option() -> OptionSpec {
    OptionSpec::bool(
        SNIFF,
        true,
        "refuse an object that begins like another format (gzip, zstd, Parquet, .npy, HTML, a \
         pointer of Git LFS, …); false reads it as it is",
    )
}

/// Whether the first bytes of an object are still to be examined.
#[derive(Debug)]
pub struct Head {
    is_pending: bool,
    /// Number of bytes that are skipped first, for a decoder that has an option for that.
    header: Option<u64>,
    /// The decoder's name, if its own format is one of the known ones.
    decoder: &'static str,
}

/// The result of [`Head::check`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    /// The object may be decoded.
    Decode,
    /// More bytes are needed: `decode` returns this.
    Wait(Progress),
}

impl Head {
    /// For a stream whose decoder does not have the [`option`].
    pub fn new(info: &StreamInfo) -> Self {
        // In the middle of an object, any bytes are possible.
        let is_pending = info.restart().is_none_or(|at| at.place == 0);
        Self { is_pending, header: None, decoder: "" }
    }

    /// For a stream whose decoder has the [`option`].
    pub fn sniffing(options: &Options, info: &StreamInfo) -> Self {
        let head = Self::new(info);
        Self { is_pending: head.is_pending && options.is_on(SNIFF), ..head }
    }

    /// A head that is not examined.
    pub fn unchecked() -> Self {
        Self { is_pending: false, header: None, decoder: "" }
    }

    /// The same, for the decoder of this name, whose own format is accepted.
    pub fn of_decoder(self, decoder: &'static str) -> Self {
        Self { decoder, ..self }
    }

    /// The same, for a decoder with the option `header`, which skips that many bytes: the header of
    /// NumPy or of llm.c may be there.
    pub fn skipping(self, header: u64) -> Self {
        Self { header: Some(header), ..self }
    }

    /// Examines the first bytes, once. `chunk` must be the beginning of the object until the result
    /// is [`Checked::Decode`].
    ///
    /// # Errors
    /// The object clearly has another format.
    #[inline]
    pub fn check(&mut self, chunk: &[u8], end: bool) -> Result<Checked, DecodeError> {
        // If there are no bytes, the decoder itself says how many it needs.
        let looks = self.is_pending && !chunk.is_empty();
        if looks { self.check_first(chunk, end) } else { Ok(Checked::Decode) }
    }

    #[cold]
    fn check_first(&mut self, chunk: &[u8], end: bool) -> Result<Checked, DecodeError> {
        if !end && is_undecided(chunk) {
            return Ok(Checked::Wait(Progress::wants(chunk.len() + 1)));
        }
        self.is_pending = false;
        let Some(what) = foreign(chunk) else { return Ok(Checked::Decode) };
        match self.header.filter(|_| has_array_after_header(chunk)) {
            Some(1..) => Ok(Checked::Decode),
            Some(0) => {
                let remedy = "; or set the option `header` to the bytes before its values";
                Err(refused(what, remedy))
            }
            None => Err(refused(what, "; if it is not, set sniff = false")),
        }
    }

    /// The result of `decode` for the first bytes of an object, with a better error if the object
    /// clearly has another format.
    ///
    /// # Errors
    /// The same as `result`, or that the object has another format.
    #[inline]
    pub fn explain(
        &mut self,
        chunk: &[u8],
        end: bool,
        result: Result<Progress, DecodeError>,
    ) -> Result<Progress, DecodeError> {
        if self.is_pending { self.explain_first(chunk, end, result) } else { result }
    }

    #[cold]
    fn explain_first(
        &mut self,
        chunk: &[u8],
        end: bool,
        result: Result<Progress, DecodeError>,
    ) -> Result<Progress, DecodeError> {
        let is_wrong = match &result {
            Ok(progress) if progress.consumed > 0 || progress.more => false,
            // The decoder waits, or the object ends in what it takes for a record.
            Ok(_) if !end || chunk.is_empty() => return result,
            Ok(_) => true,
            Err(error) => error.offset == 0,
        };
        if is_wrong && !end && (is_undecided(chunk) || chunk.len() < ZLIB_HEADER) {
            return Ok(Progress::wants(chunk.len() + 1));
        }
        self.is_pending = false;
        match foreign(chunk).filter(|what| is_wrong && !self.is_own(what)) {
            Some(what) => Err(refused(what, "")),
            None if is_wrong && is_zlib(chunk) => Err(maybe_zlib(result)),
            None => result,
        }
    }

    /// Whether the remedy for this format is this decoder.
    fn is_own(&self, what: &str) -> bool {
        let named = what.split("decoder = \"").nth(1).and_then(|rest| rest.split('"').next());
        named == Some(self.decoder)
    }
}

/// Bytes of the header of RFC 1950.
const ZLIB_HEADER: usize = 2;

/// Whether the object may be a zlib stream. Its header is too short to be sure of it.
fn is_zlib(chunk: &[u8]) -> bool {
    match chunk.first_chunk() {
        Some(header) => header[0] == 0x78 && u16::from_be_bytes(*header).is_multiple_of(31),
        None => false,
    }
}

/// The error of an object that is invalid from its start, and may be compressed.
fn maybe_zlib(result: Result<Progress, DecodeError>) -> DecodeError {
    let why = "it may be compressed with zlib: set compression = \"zlib\"";
    match result {
        Ok(_) => DecodeError::fatal(0, format!("the object ends inside its first record; {why}")),
        Err(error) => DecodeError { message: format!("{}; {why}", error.message), ..error },
    }
}

/// Whether the object is an array whose values follow a header: of NumPy or of llm.c.
fn has_array_after_header(chunk: &[u8]) -> bool {
    const MAGICS: [&[u8]; 3] = [b"\x93NUMPY", b"\x88\xd8\x34\x01", b"\xa1\xd9\x34\x01"];
    MAGICS.iter().any(|magic| chunk.starts_with(magic))
}

fn refused(what: &str, remedy: &str) -> DecodeError {
    DecodeError::refused(0, format!("the object is {what}{remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head::new(&StreamInfo::default())
    }

    #[test]
    fn another_format_is_refused_at_any_split() {
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n";
        let mut one = head();
        assert_eq!(one.check(b"", false), Ok(Checked::Decode));
        let waits = (1..pointer.len()).take_while(|length| {
            matches!(one.check(&pointer[..*length], false), Ok(Checked::Wait(progress))
                if progress == Progress::wants(length + 1))
        });
        let decided = waits.count() + 1;
        let error = head().check(&pointer[..decided], false).expect_err("it is a pointer");
        assert!(error.message.contains("git lfs pull"), "{}", error.message);
        assert_eq!(head().check(pointer, true).expect_err("it is a pointer"), error);
        // An object that is cut before its format is known may be data.
        assert_eq!(head().check(b"version http", true), Ok(Checked::Decode));
        assert_eq!(Head::unchecked().check(pointer, true), Ok(Checked::Decode));
        let extensions = vec![("restart".to_owned(), "0 12".to_owned())];
        let info = StreamInfo { extensions, ..StreamInfo::default() };
        assert_eq!(Head::new(&info).check(pointer, true), Ok(Checked::Decode));
    }

    #[test]
    fn an_array_may_follow_a_header_that_is_skipped() {
        let array = b"\x93NUMPY\x01\0v\0{'descr': '<u2'}";
        assert!(head().check(array, false).is_err());
        assert_eq!(head().skipping(128).check(array, false), Ok(Checked::Decode));
        let page = b"<!DOCTYPE html><p>not found";
        assert!(head().skipping(128).check(page, false).is_err());
    }

    #[test]
    fn an_error_of_the_first_record_is_explained() {
        let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03abc";
        let bad = || Err(DecodeError::fatal(0, "bad record"));
        let error = head().explain(gzip, false, bad()).expect_err("it is gzip");
        assert!(error.message.contains("compression = \"gzip\""), "{}", error.message);
        // The error stays while the format is unknown, and if it is not another format.
        assert_eq!(head().explain(&gzip[..4], false, bad()), Ok(Progress::wants(5)));
        assert_eq!(head().explain(b"abc", false, bad()), bad());
        // An object that the decoder accepts is decoded; it reports later errors itself.
        let (taken, later) = (Ok(Progress::consumed(3)), Err(DecodeError::fatal(0, "later")));
        let mut one = head();
        assert_eq!(one.explain(gzip, false, taken.clone()), taken);
        assert_eq!(one.explain(gzip, false, later.clone()), later);
        // The decoder waits for a record that never ends.
        assert_eq!(head().explain(gzip, false, Ok(Progress::wants(99))), Ok(Progress::wants(99)));
        assert!(head().explain(gzip, true, Ok(Progress::wants(99))).is_err());
        // zlib has no certain signature: the error stays, and mentions it as possible.
        let error = head().explain(b"\x78\x9c\x13\x62", false, bad()).expect_err("it is bad");
        assert!(error.message.starts_with("bad record; it may be compressed with zlib"));
        assert_eq!(head().explain(b"\x78", false, bad()), Ok(Progress::wants(2)));
        assert_eq!(head().explain(b"\x78\x9d\x13", false, bad()), bad());
        // The decoder knows its own format better.
        let avro = b"Obj\x01\x04";
        assert!(head().explain(avro, true, bad()).is_err_and(|error| error != bad().unwrap_err()));
        assert_eq!(head().of_decoder("avro").explain(avro, true, bad()), bad());
    }
}
