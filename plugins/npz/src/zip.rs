//! Reads the records of a zip archive in the order of the file: local headers, data descriptors,
//! and the directory at the end. It knows only forms and sizes, not the content of a member.
//!
//! Follows APPNOTE.TXT 6.3.10 of PKWARE, with zip64.

/// The position and length of a record: the result of reading one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read<T> {
    Whole(T),
    /// At least `need` bytes from the start of the record must be there.
    Cut {
        need: usize,
    },
}

/// The first bytes of each record.
pub(crate) const SIGNATURE: usize = 4;
pub(crate) const LOCAL_HEADER: [u8; 4] = *b"PK\x03\x04";
pub(crate) const DIRECTORY_ENTRY: [u8; 4] = *b"PK\x01\x02";
pub(crate) const ZIP64_END: [u8; 4] = *b"PK\x06\x06";
pub(crate) const ZIP64_LOCATOR: [u8; 4] = *b"PK\x06\x07";
pub(crate) const END: [u8; 4] = *b"PK\x05\x06";
const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";

/// Bit of the flags: the data is encrypted.
const ENCRYPTED: u16 = 1;
/// Bit of the flags: a data descriptor follows the data.
const HAS_DESCRIPTOR: u16 = 1 << 3;
/// The value that means that a size is in the zip64 field.
const IN_ZIP64: u32 = u32::MAX;
/// The extra field that has sizes of 64 bits.
const ZIP64_FIELD: u16 = 1;

/// The compression of a member.
pub(crate) const STORED: u16 = 0;
pub(crate) const DEFLATED: u16 = 8;

/// The name of a method, for messages.
pub(crate) fn method_name(method: u16) -> String {
    let name = match method {
        9 => "deflate64",
        12 => "bzip2",
        14 => "lzma",
        93 => "zstd",
        95 => "xz",
        other => return format!("method {other}"),
    };
    name.to_owned()
}

/// A header before the data of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalHeader {
    /// Size of the header in bytes. The data follows.
    pub(crate) size: usize,
    /// Length of the name, which is at [`LocalHeader::NAME`].
    pub(crate) name: usize,
    pub(crate) method: u16,
    pub(crate) encrypted: bool,
    /// The form of the data descriptor after the data, if there is one.
    pub(crate) descriptor: Option<Descriptor>,
    pub(crate) sizes: Sizes,
}

/// The checksum and the sizes of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) crc32: u32,
    /// Size of the data in the archive, in bytes.
    pub(crate) compressed: u64,
    /// Size of the data after decompression, in bytes.
    pub(crate) plain: u64,
}

/// The form of a data descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// Size of each of its two sizes, in bytes.
    size_bytes: usize,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

impl LocalHeader {
    /// Size of a header without name and extra fields, in bytes; the offset of the name.
    pub(crate) const NAME: usize = 30;

    /// Reads a header, whose signature was checked. The error says what was expected.
    pub(crate) fn read(bytes: &[u8]) -> Result<Read<Self>, &'static str> {
        if bytes.len() < Self::NAME {
            return Ok(Read::Cut { need: Self::NAME });
        }
        let (name, extra) = (u16_at(bytes, 26).into(), usize::from(u16_at(bytes, 28)));
        let extra_at = Self::NAME + name;
        let size = extra_at + extra;
        let Some(extra) = bytes.get(extra_at..size) else { return Ok(Read::Cut { need: size }) };
        let (flags, compressed, plain) = (u16_at(bytes, 6), u32_at(bytes, 18), u32_at(bytes, 22));
        let zip64 = zip64_field(extra)?;
        let mut wide = zip64.unwrap_or_default().chunks_exact(8).map(|bytes| u64_at(bytes, 0));
        let mut size_of = |field| match field {
            IN_ZIP64 => wide.next().ok_or("a zip64 field with the sizes"),
            size => Ok(u64::from(size)),
        };
        // The zip64 field has them in this order.
        let plain = size_of(plain)?;
        let compressed = size_of(compressed)?;
        let size_bytes = if zip64.is_some() { 8 } else { 4 };
        Ok(Read::Whole(Self {
            size,
            name,
            method: u16_at(bytes, 8),
            encrypted: flags & ENCRYPTED != 0,
            descriptor: (flags & HAS_DESCRIPTOR != 0).then_some(Descriptor { size_bytes }),
            sizes: Sizes { crc32: u32_at(bytes, 14), compressed, plain },
        }))
    }

    /// Whether the sizes are not known before the end of the data.
    pub(crate) fn is_streamed(&self) -> bool {
        self.descriptor.is_some() && self.sizes.compressed == 0
    }
}

/// The zip64 field in the extra fields.
fn zip64_field(mut extra: &[u8]) -> Result<Option<&[u8]>, &'static str> {
    // Fewer than four bytes at the end are padding of some writers.
    while extra.len() >= 4 {
        let (id, length) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let field = extra.get(4..4 + length).ok_or("extra fields that end with the header")?;
        if id == ZIP64_FIELD {
            return Ok(Some(field));
        }
        extra = &extra[4 + length..];
    }
    Ok(None)
}

impl Descriptor {
    /// Reads the descriptor at the start of `bytes`. Returns its size and its content. The
    /// signature before it is optional.
    pub(crate) fn read(self, bytes: &[u8]) -> Read<(usize, Sizes)> {
        let Some(start) = bytes.get(..SIGNATURE) else { return Read::Cut { need: SIGNATURE } };
        let at = if start == DESCRIPTOR { SIGNATURE } else { 0 };
        let size = at + 4 + 2 * self.size_bytes;
        if bytes.len() < size {
            return Read::Cut { need: size };
        }
        let number = |at| match self.size_bytes {
            8 => u64_at(bytes, at),
            _ => u32_at(bytes, at).into(),
        };
        let crc32 = u32_at(bytes, at);
        let (compressed, plain) = (number(at + 4), number(at + 4 + self.size_bytes));
        Read::Whole((size, Sizes { crc32, compressed, plain }))
    }
}

/// The directory, as the record at its end describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectoryEnd {
    /// Number of entries.
    pub(crate) entries: u64,
    /// Size of the entries in bytes.
    pub(crate) size: u64,
    /// The start of the entries in the archive.
    pub(crate) offset: u64,
}

/// Reads an entry of the directory. Returns its size.
pub(crate) fn read_entry(bytes: &[u8]) -> Read<usize> {
    const FIXED: usize = 46;
    if bytes.len() < FIXED {
        return Read::Cut { need: FIXED };
    }
    let size = FIXED + [28, 30, 32].iter().map(|at| usize::from(u16_at(bytes, *at))).sum::<usize>();
    if bytes.len() < size { Read::Cut { need: size } } else { Read::Whole(size) }
}

/// Longest zip64 record at the end, in bytes: far longer than any that is written.
const MAX_ZIP64_END: u64 = 64 << 10;

/// Reads the zip64 record at the end of the directory. Returns its size, too. The error says what was
/// expected.
pub(crate) fn read_zip64_end(bytes: &[u8]) -> Result<Read<(usize, DirectoryEnd)>, &'static str> {
    const FIXED: usize = 56;
    if bytes.len() < 12 {
        return Ok(Read::Cut { need: 12 });
    }
    let rest = u64_at(bytes, 4);
    if !(FIXED as u64 - 12..MAX_ZIP64_END).contains(&rest) {
        return Err("a record of 56 bytes to 64 KiB");
    }
    let size = 12 + rest as usize;
    if bytes.len() < size {
        return Ok(Read::Cut { need: size });
    }
    let [entries, bytes_of_entries, offset] = [32, 40, 48].map(|at| u64_at(bytes, at));
    Ok(Read::Whole((size, DirectoryEnd { entries, size: bytes_of_entries, offset })))
}

/// Size in bytes of the record that says where the zip64 record is.
pub(crate) const ZIP64_LOCATOR_SIZE: usize = 20;

/// Reads the last record of an archive. Returns its size, too.
pub(crate) fn read_end(bytes: &[u8]) -> Read<(usize, DirectoryEnd)> {
    const FIXED: usize = 22;
    if bytes.len() < FIXED {
        return Read::Cut { need: FIXED };
    }
    let size = FIXED + usize::from(u16_at(bytes, 20));
    if bytes.len() < size {
        return Read::Cut { need: size };
    }
    let end = DirectoryEnd {
        entries: u16_at(bytes, 10).into(),
        size: u32_at(bytes, 12).into(),
        offset: u32_at(bytes, 16).into(),
    };
    Read::Whole((size, end))
}
