//! Proposes fields by the first members of a tar archive of samples: one for each extension.

use super::is_plain;

/// Number of bytes of an archive that are examined.
pub(crate) const SHOWN_BYTES: usize = 4 << 20;
/// Largest number of proposed fields.
const MAX_FIELDS: usize = 64;
const BLOCK: usize = 512;
/// Extensions of numbers in text: classes.
const NUMBERS: [&str; 5] = ["cls", "cls2", "index", "inx", "id"];
/// Extensions of text.
const TEXTS: [&str; 7] = ["txt", "text", "transcript", "caption", "json", "jsn", "xml"];

/// A member of an archive.
struct Member<'a> {
    name: String,
    /// The part of its content that was read.
    content: &'a [u8],
    is_whole: bool,
}

/// The members with one extension.
struct SeenExtension {
    extension: String,
    samples: u64,
    is_int: bool,
    is_text: bool,
}

/// The option `fields` for an archive that begins with these bytes; `None` if it has no samples, or
/// extensions that can't be written in it.
pub(crate) fn fields(start: &[u8]) -> Option<String> {
    let (mut samples, mut open) = (0, None::<String>);
    let mut seen: Vec<SeenExtension> = Vec::new();
    let Members { members, has_ended } = members(start);
    let last = members.last().filter(|_| !has_ended).and_then(|member| split(&member.name));
    let last = last.map(|(key, _)| key);
    for member in &members {
        let Some((key, extension)) = split(&member.name) else { continue };
        // Members of the last sample may be missing, unless it is the only one.
        if Some(&key) == last.as_ref() && samples > 0 {
            break;
        }
        if open.as_ref() != Some(&key) {
            (samples, open) = (samples + 1, Some(key));
        }
        let text = std::str::from_utf8(member.content).ok().filter(|_| member.is_whole);
        let (is_text, is_int) =
            (text.is_some(), text.is_some_and(|text| text.trim().parse::<i64>().is_ok()));
        match seen.iter_mut().find(|it| it.extension == extension) {
            Some(it) => {
                it.samples += 1;
                (it.is_int, it.is_text) = (it.is_int && is_int, it.is_text && is_text);
            }
            None => seen.push(SeenExtension { extension, samples: 1, is_int, is_text }),
        }
    }
    let fits = seen.len() <= MAX_FIELDS && seen.iter().all(|it| is_plain(&it.extension));
    let field = |it: &SeenExtension| {
        let optional = if it.samples < samples { "?" } else { "" };
        format!("{}{}{optional}", it.extension, it.word())
    };
    let fields: Vec<_> = seen.iter().map(field).collect();
    (fits && !fields.is_empty()).then(|| fields.join(","))
}

impl SeenExtension {
    /// The type in a field spec; `None` for bytes.
    fn word(&self) -> &'static str {
        let last = self.extension.rsplit('.').next().unwrap_or_default();
        match () {
            () if NUMBERS.contains(&last) && self.is_int => ":int64",
            () if (NUMBERS.contains(&last) || TEXTS.contains(&last)) && self.is_text => ":utf8",
            () => "",
        }
    }
}

/// The key of a sample and the extension of a member in it, as webdataset splits a name: at the
/// first dot of the file's name. `None` if it is not a member of a sample.
fn split(name: &str) -> Option<(String, String)> {
    let file = name.rfind('/').map_or(0, |slash| slash + 1);
    let dot = file + name[file..].find('.')?;
    let is_hidden = dot == file || name[file..].starts_with("__") || name.starts_with("__");
    (!is_hidden).then(|| (name[..dot].to_owned(), name[dot + 1..].to_lowercase()))
}

/// The members at the start of an archive.
struct Members<'a> {
    members: Vec<Member<'a>>,
    /// Whether the end of the archive was read.
    has_ended: bool,
}

/// The members at the start of an archive, up to the first invalid header.
fn members(start: &[u8]) -> Members<'_> {
    let (mut members, mut at, mut long, mut has_ended) = (Vec::new(), 0, None, false);
    while let Some(header) = start.get(at..at + BLOCK) {
        has_ended = header.iter().all(|byte| *byte == 0);
        let Some(size) = octal(&header[124..136]).filter(|_| !has_ended) else { break };
        if header[0] == 0 || size > u64::MAX / 2 {
            break;
        }
        let from = at + BLOCK;
        let end = from.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
        let content = &start[from.min(start.len())..end.min(start.len())];
        match header[156] {
            b'L' => long = Some(text(content)),
            b'x' => long = path_of_pax(content).or(long),
            b'0' | 0 | b'7' => members.push(Member {
                name: long.take().unwrap_or_else(|| name(header)),
                content,
                is_whole: end <= start.len(),
            }),
            _ => long = None,
        }
        at = end.saturating_add(BLOCK - 1) / BLOCK * BLOCK;
    }
    Members { members, has_ended }
}

/// The name in a header, with the prefix of POSIX tar.
fn name(header: &[u8]) -> String {
    let (name, prefix) = (text(&header[..100]), text(&header[345..500]));
    match &header[257..263] == b"ustar\0" && !prefix.is_empty() {
        true => format!("{prefix}/{name}"),
        false => name,
    }
}

/// The record `path` of a pax header.
fn path_of_pax(content: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(content);
    let mut records = text.lines().filter_map(|line| line.split_once(' ')?.1.split_once('='));
    records.find(|(key, _)| *key == "path").map(|(_, path)| path.to_owned())
}

/// The bytes before the first zero, as text.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// An octal number with blanks around it.
fn octal(bytes: &[u8]) -> Option<u64> {
    u64::from_str_radix(text(bytes).trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, fields};

    fn member(name: &str, content: &[u8]) -> Vec<u8> {
        let mut header = [0; BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = b'0';
        let padding = vec![0; content.len().next_multiple_of(BLOCK) - content.len()];
        [&header[..], content, &padding].concat()
    }

    #[test]
    fn each_extension_becomes_a_field() {
        let archive = [
            member("a/1.jpg", b"\xff\xd8"),
            member("a/1.cls", b"7\n"),
            member("a/1.json", b"{}"),
            member("a/2.jpg", b"\xff\xd8"),
            member("a/2.cls", b"8"),
            member("a/2.seg.png", b"\x89P"),
            member("__meta__/x.txt", b"no sample"),
            member("a/._2.txt", b"no sample"),
            member("a/3.jpg", b"cut off"),
        ];
        let found = fields(&archive.concat());
        assert_eq!(found.as_deref(), Some("jpg,cls:int64,json:utf8?,seg.png?"));
        let found = fields(&[archive.concat(), vec![0; 2 * BLOCK]].concat());
        assert_eq!(found.as_deref(), Some("jpg,cls:int64?,json:utf8?,seg.png?"));
    }

    #[test]
    fn one_sample_is_enough_and_none_is_nothing() {
        assert_eq!(fields(&member("1.txt", b"a")).as_deref(), Some("txt:utf8"));
        assert_eq!(fields(&member("1.cls", b"cat")).as_deref(), Some("cls:utf8"));
        assert_eq!(fields(&member("no extension", b"a")), None);
        assert_eq!(fields(&[0; 2 * BLOCK]), None);
        assert_eq!(fields(b"no archive"), None);
    }
}
