//! The identity of a channel's input: the text that travels with each batch as the identity of its
//! object, and that a state keeps.
//!
//! The text is `list:…;CONTENT`. The first part identifies the list of the epoch's objects, see
//! [`ListIdentity`]; it is missing if the source has no list. CONTENT identifies the bytes of the
//! object: `etag:"…"` in S3, or `size:BYTES,mtime:SECONDS.NANOSECONDS,blocks:HEX` for a file. It is
//! empty for a pipe. The content of each companion of the object follows after `;with:`. The
//! identity in a position may have `saved:BASE64;` between the two parts: what the decoder has
//! saved at its place.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Identifies the list of an epoch's objects, before it is shuffled and divided among machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListIdentity {
    /// Number of objects that were listed.
    pub objects: u64,
    /// Whether these are all objects. The first objects of a long list in S3 are read before the
    /// list is complete.
    pub is_whole: bool,
    /// Digest of the names below the list's root, each with its size or entity tag, in their order.
    pub contents: u64,
    /// Digest of the modification times in the order of the list; 0 if the objects have no
    /// modification times or they are not compared.
    pub times: u64,
    /// Digest of sizes and modification times, independent of the order.
    pub unordered: u64,
}

impl ListIdentity {
    /// Whether the objects that were listed `then` are the objects that are listed now. Both have
    /// the same number of objects.
    ///
    /// # Errors
    /// The difference, for people.
    pub fn check(then: &Self, now: &Self) -> Result<(), String> {
        let Self { objects, contents, times, unordered, .. } = *then;
        if objects != now.objects {
            return Err(format!(
                "the list had {objects} objects when the state was taken, and has {} now",
                now.objects
            ));
        }
        if contents != now.contents {
            return Err(format!(
                "the list has {objects} objects, as when the state was taken, but other names or \
                 sizes, or other entity tags"
            ));
        }
        if times != now.times && unordered == now.unordered {
            return Err(
                "objects of the list have changed places with each other since the state was \
                        taken"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

impl fmt::Display for ListIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { objects, is_whole, contents, times, unordered } = self;
        let more = if *is_whole { "" } else { "+" };
        write!(f, "list:{objects}{more}/{contents:016x}/{times:016x}/{unordered:016x}")
    }
}

impl FromStr for ListIdentity {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.strip_prefix("list:").ok_or(())?.split('/');
        let count = parts.next().ok_or(())?;
        let (objects, is_whole) = match count.strip_suffix('+') {
            Some(count) => (count, false),
            None => (count, true),
        };
        let mut digest = || u64::from_str_radix(parts.next().unwrap_or_default(), 16).map_err(drop);
        let (contents, times, unordered) = (digest()?, digest()?, digest()?);
        let objects = objects.parse().map_err(drop)?;
        Ok(Self { objects, is_whole, contents, times, unordered })
    }
}

/// The list and the content of an identity's text. What a decoder has saved is left out.
pub fn split_identity(text: &str) -> (Option<ListIdentity>, &str) {
    let (list, rest) = split_list(text);
    (list, split_saved(rest).1)
}

fn split_list(text: &str) -> (Option<ListIdentity>, &str) {
    match text.split_once(';') {
        Some((list, rest)) if let Ok(list) = list.parse() => (Some(list), rest),
        _ => (None, text),
    }
}

/// What stands before the state that a decoder has saved. A `;` follows the state.
const SAVED: &str = "saved:";

fn split_saved(rest: &str) -> (Option<&str>, &str) {
    match rest.strip_prefix(SAVED).and_then(|rest| rest.split_once(';')) {
        Some((saved, content)) => (Some(saved), content),
        None => (None, rest),
    }
}

/// An identity's text with what the decoder has saved at the place of a position.
#[must_use]
pub fn with_saved(text: &str, saved: &[u8]) -> String {
    let content = split_list(text).1;
    let list = &text[..text.len() - content.len()];
    format!("{list}{SAVED}{};{content}", STANDARD_NO_PAD.encode(saved))
}

/// Whether the decoder has saved something at the place of a position with this identity.
pub fn has_saved(text: &str) -> bool {
    split_saved(split_list(text).1).0.is_some()
}

/// What the decoder has saved at the place of a position with this identity, if it has.
///
/// # Errors
/// It is no Base64.
pub fn saved_in(text: &str) -> Result<Option<Vec<u8>>, base64::DecodeError> {
    let saved = split_saved(split_list(text).1).0;
    saved.map(|saved| STANDARD_NO_PAD.decode(saved)).transpose()
}

/// What stands before the content of each companion.
const WITH: &str = ";with:";

/// The content of an object with those of its companions.
#[must_use]
pub fn with_companions(mut content: String, companions: impl Iterator<Item = String>) -> String {
    for companion in companions {
        content += WITH;
        content += &companion;
    }
    content
}

/// The content of an object alone, and those of its companions.
pub fn split_companions(content: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut contents = content.split(WITH);
    (contents.next().unwrap_or_default(), contents)
}

/// Whether two identities are of the same object in the same list. A list that was not read to its
/// end counts as the same if `unknown_is_same` and no difference is known.
pub fn is_same_identity(then: &str, now: &str, unknown_is_same: bool) -> bool {
    is_same_list(then, now, unknown_is_same)
        && is_same_content(split_identity(then).1, split_identity(now).1)
}

/// Whether two identities are of objects in the same list: see [`is_same_identity`].
pub fn is_same_list(then: &str, now: &str, unknown_is_same: bool) -> bool {
    match (split_identity(then).0, split_identity(now).0) {
        (Some(then), Some(now)) if then.is_whole && now.is_whole => {
            ListIdentity::check(&then, &now).is_ok()
        }
        (Some(then), Some(now)) => then == now || unknown_is_same,
        (then, now) => then == now,
    }
}

/// Whether two contents are the same. A file with another modification time is the same if its size
/// and its blocks are: it may be a copy, or was touched. Both have the same companions.
pub fn is_same_content(then: &str, now: &str) -> bool {
    let (mut then, mut now) = (then.split(WITH), now.split(WITH));
    loop {
        match (then.next(), now.next()) {
            (None, None) => return true,
            (Some(then), Some(now)) if is_same_single(then, now) => {}
            _ => return false,
        }
    }
}

/// Whether the contents of two objects, or of two companions, are the same.
fn is_same_single(then: &str, now: &str) -> bool {
    then == now
        || match (without_time(then), without_time(now)) {
            (Some(then), Some(now)) => then == now,
            _ => false,
        }
}

/// Size and blocks of a file.
fn without_time(content: &str) -> Option<(&str, &str)> {
    let (size, rest) = content.strip_prefix("size:")?.split_once(",mtime:")?;
    let (_, blocks) = rest.split_once(",blocks:")?;
    Some((size, blocks))
}

/// The identity of an object, whose text is made on first use: the text of a file needs some of its
/// blocks. Cheap to clone.
#[derive(Clone)]
pub struct ObjectIdentity(Arc<LazyLock<String, MakeText>>);

type MakeText = Box<dyn FnOnce() -> String + Send>;

impl ObjectIdentity {
    /// An identity whose text this function makes.
    pub fn later(make: impl FnOnce() -> String + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }

    /// An identity with this text.
    pub fn of(text: String) -> Self {
        Self::later(|| text)
    }

    /// The text; empty if the source has none.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl Default for ObjectIdentity {
    fn default() -> Self {
        static NONE: LazyLock<ObjectIdentity> = LazyLock::new(|| ObjectIdentity::of(String::new()));
        NONE.clone()
    }
}

impl fmt::Debug for ObjectIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObjectIdentity")
    }
}

impl PartialEq for ObjectIdentity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.text() == other.text()
    }
}

impl Eq for ObjectIdentity {}

impl Serialize for ObjectIdentity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for ObjectIdentity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: ListIdentity =
        ListIdentity { objects: 3, is_whole: true, contents: 7, times: 8, unordered: 9 };

    #[test]
    fn a_list_is_read_as_it_is_written() {
        for is_whole in [true, false] {
            let list = ListIdentity { is_whole, ..LIST };
            assert_eq!(list.to_string().parse(), Ok(list));
            let text = format!("{list};etag:\"a;b\"");
            assert_eq!(split_identity(&text), (Some(list), "etag:\"a;b\""));
        }
        assert_eq!(split_identity("etag:\"a;b\""), (None, "etag:\"a;b\""));
        assert_eq!(split_identity(""), (None, ""));
    }

    #[test]
    fn lists_differ_by_number_contents_or_places_but_not_by_times() {
        let differs = |now: ListIdentity| ListIdentity::check(&LIST, &now).unwrap_err();
        assert!(differs(ListIdentity { objects: 2, ..LIST }).contains("had 3 objects"));
        assert!(differs(ListIdentity { contents: 1, ..LIST }).contains("other names or sizes"));
        assert!(differs(ListIdentity { times: 1, ..LIST }).contains("changed places"));
        assert_eq!(ListIdentity::check(&LIST, &LIST), Ok(()));
        let touched = ListIdentity { times: 1, unordered: 1, ..LIST };
        assert_eq!(ListIdentity::check(&LIST, &touched), Ok(()));
    }

    #[test]
    fn a_touched_file_is_the_same_and_one_of_other_blocks_is_not() {
        let then = "size:5,mtime:1.000000000,blocks:aa";
        for (now, is_same) in [
            (then, true),
            ("size:5,mtime:2.000000000,blocks:aa", true),
            ("size:5,mtime:2.000000000,blocks:ab", false),
            ("size:6,mtime:1.000000000,blocks:aa", false),
            ("etag:\"aa\"", false),
            ("", false),
        ] {
            assert_eq!(is_same_content(then, now), is_same, "{now}");
        }
        assert!(!is_same_content("etag:\"a\"", "etag:\"b\""));
    }

    #[test]
    fn what_a_decoder_has_saved_is_no_part_of_the_content() {
        for content in ["etag:\"a;b\"", "size:5,mtime:1.0,blocks:aa;with:size:1"] {
            for (text, list) in
                [(content.to_owned(), None), (format!("{LIST};{content}"), Some(LIST))]
            {
                assert_eq!(saved_in(&text), Ok(None));
                for saved in [&b""[..], b"\0", b"ab;", &[0xff; 1000]] {
                    let with = with_saved(&text, saved);
                    assert_eq!(split_identity(&with), (list, content));
                    assert_eq!(saved_in(&with).unwrap().as_deref(), Some(saved));
                    assert!(has_saved(&with) && !has_saved(&text));
                    assert!(is_same_identity(&with, &text, false));
                }
            }
        }
        assert!(saved_in("saved:%;etag:\"a\"").is_err());
        assert_eq!(saved_in("saved:AA"), Ok(None));
    }

    #[test]
    fn companions_are_part_of_the_content() {
        let file =
            |modified: u32, blocks: &str| format!("size:5,mtime:{modified}.0,blocks:{blocks}");
        let content =
            |object, companions: &[String]| with_companions(object, companions.iter().cloned());
        let then = content(file(1, "aa"), &[file(1, "bb")]);
        for (now, is_same) in [
            (content(file(1, "aa"), &[file(1, "bb")]), true),
            (content(file(2, "aa"), &[file(3, "bb")]), true),
            (content(file(1, "aa"), &[file(1, "bc")]), false),
            (content(file(1, "ab"), &[file(1, "bb")]), false),
            (content(file(1, "aa"), &[]), false),
            (content(file(1, "aa"), &[file(1, "bb"), file(1, "bb")]), false),
        ] {
            assert_eq!(is_same_content(&then, &now), is_same, "{now}");
            assert_eq!(is_same_content(&now, &then), is_same, "{now}");
        }
        let listed = format!("{LIST};{then}");
        let (list, found) = split_identity(&listed);
        assert_eq!((list, found), (Some(LIST), then.as_str()));
        let (object, companions) = split_companions(found);
        assert_eq!(object, file(1, "aa"));
        assert_eq!(companions.collect::<Vec<_>>(), [file(1, "bb")]);
    }
}
