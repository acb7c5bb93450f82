//! WebDataset by the crate `tar`: it writes an archive of the members that the fuzzer's bytes name,
//! and reads them back; the decoder must find the same.

use std::io::Read;

use pipemill_plugin::testing::{Setup, decode_whole};
use pipemill_webdataset::WebDataset;

/// A member: its path and its data.
type Member = (Vec<u8>, Vec<u8>);

/// Compares the decoder with the crate.
///
/// # Panics
/// If a sample that the crate reads is not a record, or has other bytes.
pub(crate) fn compare(bytes: &[u8]) {
    let archive = write(bytes);
    let members = read(&archive);
    let setup = Setup::new(&[("fields", "jpg,meta.json")]);
    let outcome = decode_whole::<WebDataset>(&setup, &archive);
    assert_eq!(outcome.errors, [], "of an archive that the crate has written");
    let expected: Vec<_> = members
        .chunks(2)
        .map(|pair| {
            let key = pair[0].0.strip_suffix(b".jpg").expect("it was written so");
            [key, &pair[0].1, &pair[1].1].map(|field| Some(field.to_vec())).to_vec()
        })
        .collect();
    assert_eq!(expected, outcome.records, "the crate `tar`, then the decoder");
}

/// Samples of two members each. Each byte of the fuzzer's determines the length of the next key, or
/// of the next data; the rest follows from it.
fn write(bytes: &[u8]) -> Vec<u8> {
    let gnu = bytes.first().is_some_and(|byte| byte & 1 == 1);
    // A name that does not fit into a header needs GNU's long names.
    let longest = if gnu { 255 } else { 60 };
    let mut builder = tar::Builder::new(Vec::new());
    for (number, sample) in bytes.chunks_exact(3).take(20).enumerate() {
        let length = usize::from(sample[0]) % longest;
        let mut key = format!("{number:03}");
        key.extend(b"ab-/c d\xc3".iter().cycle().take(length).map(|byte| char::from(*byte)));
        for (suffix, size) in [("jpg", sample[1]), ("meta.json", sample[2])] {
            let data = vec![size; usize::from(size) * 5];
            let mut header = if gnu { tar::Header::new_gnu() } else { tar::Header::new_ustar() };
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            let path = format!("{key}x.{suffix}");
            builder.append_data(&mut header, path, &data[..]).expect("memory can be written to");
        }
    }
    builder.into_inner().expect("memory can be written to")
}

fn read(archive: &[u8]) -> Vec<Member> {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().expect("the crate wrote it");
    let member = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.expect("the crate wrote it");
        let path = entry.path_bytes().into_owned();
        let mut data = Vec::new();
        entry.read_to_end(&mut data).expect("memory can be read");
        (path, data)
    };
    entries.map(member).collect()
}
