//! A writer of zip archives by the definition of the format. It can also write invalid archives.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use pipemill_plugin::testing::crc32;

/// How a member is written.
#[derive(Debug, Clone)]
pub struct Member {
    pub name: String,
    pub data: Vec<u8>,
    pub method: u16,
    /// Sizes in a zip64 field.
    pub zip64: bool,
    /// Sizes and checksum after the data; with a signature before them or without.
    pub descriptor: Option<bool>,
    pub flags: u16,
    /// XORed with the checksum.
    pub wrong_crc: u32,
    /// Added to the size after decompression.
    pub wrong_size: u64,
}

/// A stored member.
pub fn member(name: &str, data: &[u8]) -> Member {
    Member {
        name: name.to_owned(),
        data: data.to_vec(),
        method: 0,
        zip64: false,
        descriptor: None,
        flags: 0,
        wrong_crc: 0,
        wrong_size: 0,
    }
}

/// The same member, deflated.
pub fn deflated(member: Member) -> Member {
    Member { method: 8, ..member }
}

impl Member {
    fn packed(&self) -> Vec<u8> {
        if self.method != 8 {
            return self.data.clone();
        }
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&self.data).expect("a vector");
        encoder.finish().expect("a vector")
    }

    /// The member, with its header and the bytes after it.
    pub fn bytes(&self) -> Vec<u8> {
        let packed = self.packed();
        let crc = crc32(&self.data) ^ self.wrong_crc;
        let sizes = [(self.data.len() as u64).wrapping_add(self.wrong_size), packed.len() as u64];
        let (known_crc, known) = if self.descriptor.is_some() { (0, [0, 0]) } else { (crc, sizes) };
        let flags = self.flags | if self.descriptor.is_some() { 8 } else { 0 };
        let mut file = b"PK\x03\x04\x2d\0".to_vec();
        file.extend([flags, self.method, 0, 0].map(u16::to_le_bytes).concat());
        file.extend(known_crc.to_le_bytes());
        let short = if self.zip64 { [u32::MAX; 2] } else { known.map(|size| size as u32) };
        file.extend(short[1].to_le_bytes());
        file.extend(short[0].to_le_bytes());
        file.extend((self.name.len() as u16).to_le_bytes());
        // Another extra field is before it, and padding after it.
        let extra = match self.zip64 {
            true => [
                &[9, 0, 1, 0, 7, 1, 0, 16, 0][..],
                &known[0].to_le_bytes(),
                &known[1].to_le_bytes(),
                &[0, 0, 0],
            ]
            .concat(),
            false => Vec::new(),
        };
        file.extend((extra.len() as u16).to_le_bytes());
        file.extend(self.name.as_bytes());
        file.extend(extra);
        file.extend(packed);
        if let Some(signature) = self.descriptor {
            if signature {
                file.extend(b"PK\x07\x08");
            }
            file.extend(crc.to_le_bytes());
            for size in [sizes[1], sizes[0]] {
                match self.zip64 {
                    true => file.extend(size.to_le_bytes()),
                    false => file.extend((size as u32).to_le_bytes()),
                }
            }
        }
        file
    }
}

/// An entry of the directory. Only its sizes matter to the decoder.
fn entry(name: &str) -> Vec<u8> {
    let mut entry = b"PK\x01\x02".to_vec();
    entry.resize(46, 0);
    entry[28] = name.len() as u8;
    entry[32] = 2;
    [&entry, name.as_bytes(), b"ab"].concat()
}

/// The directory of an archive with these members of `size` bytes together.
pub fn directory(names: &[&str], size: usize, zip64: bool) -> Vec<u8> {
    let entries: Vec<_> = names.iter().flat_map(|name| entry(name)).collect();
    let mut end = Vec::new();
    if zip64 {
        end.extend(b"PK\x06\x06");
        end.extend(44u64.to_le_bytes());
        end.extend([0; 12]);
        for number in [names.len(), names.len(), entries.len(), size] {
            end.extend((number as u64).to_le_bytes());
        }
        end.extend(b"PK\x06\x07");
        end.extend([0; 16]);
    }
    end.extend(b"PK\x05\x06\0\0\0\0");
    let short = |number: usize| if zip64 { u16::MAX } else { number as u16 };
    end.extend([short(names.len()); 2].map(u16::to_le_bytes).concat());
    let long = |number: usize| if zip64 { u32::MAX } else { number as u32 };
    end.extend([long(entries.len()), long(size)].map(u32::to_le_bytes).concat());
    end.extend([3, 0]);
    end.extend(b"end");
    [entries, end].concat()
}

/// An archive of these members.
pub fn archive(members: &[Member]) -> Vec<u8> {
    let mut file: Vec<u8> = members.iter().flat_map(Member::bytes).collect();
    let names: Vec<_> = members.iter().map(|member| &*member.name).collect();
    let zip64 = members.iter().any(|member| member.zip64);
    file.extend(directory(&names, file.len(), zip64));
    file
}

/// An array. `descr` and `shape` are Python.
pub fn array(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    [b"\x93NUMPY\x01\0".as_slice(), &(text.len() as u16).to_le_bytes(), text.as_bytes(), data]
        .concat()
}

/// Numbers that differ, as bytes.
pub fn numbers(count: usize) -> Vec<u8> {
    (0..count as u16).flat_map(|n| n.wrapping_mul(31).to_le_bytes()).collect()
}
