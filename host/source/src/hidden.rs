//! Names that are not data: hidden files, and the markers that Spark, Hive, Delta Lake and Hadoop
//! write next to their data. Folders, patterns and prefixes leave them out and count them.

/// A mark that makes a name hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// The name begins with this.
    Prefix(&'static [u8]),
    /// The name ends with this.
    Suffix(&'static [u8]),
}

/// The marks of the names that Spark, Hive and Arrow skip, and of Hadoop's checksums.
const MARKS: [Mark; 4] = [
    Mark::Prefix(b"."),
    // `_SUCCESS`, `_committed_1`, `_delta_log`.
    Mark::Prefix(b"_"),
    // A checksum of Hadoop's file system for local files.
    Mark::Suffix(b".crc"),
    // A file that `hdfs dfs -put` has not written to its end.
    Mark::Suffix(b"._COPYING_"),
];

impl Mark {
    /// Whether the name, or a part of a pattern, has the mark.
    fn is_on(self, name: &[u8]) -> bool {
        match self {
            // A folder `_year=2024` has data: the part before `=` is a column's name.
            Self::Prefix(b"_") => name.starts_with(b"_") && !name.contains(&b'='),
            Self::Prefix(prefix) => name.starts_with(prefix),
            Self::Suffix(suffix) => name.ends_with(suffix),
        }
    }
}

/// Whether a file or folder of this name is hidden or a marker.
pub(crate) fn is_hidden(name: &[u8]) -> bool {
    // Keys in S3 may have such parts, which have no special meaning there.
    !matches!(name, b"." | b"..") && MARKS.iter().any(|mark| mark.is_on(name))
}

/// Whether a part of a pattern explicitly names the mark that makes this name hidden: `.*`, `_*`
/// and `*.crc` do.
pub(crate) fn names_hidden(part: &[u8], name: &[u8]) -> bool {
    MARKS.iter().all(|mark| !mark.is_on(name) || mark.is_on(part))
}

/// Name of the index that lies beside the data that it knows. A folder, a prefix or a pattern does
/// not select it, not even with hidden files: it is no data.
pub const INDEX_NAME: &str = "_pipemill.index";

/// Name of the file that lies beside data and names their decoder. As the index, it is no data.
pub const DECODER_FILE: &str = "decoder.toml";

/// Whether a path or a key is that of a file that lies beside data and describes them: an index, or
/// a file that names their decoder.
pub(crate) fn describes_data(path: &[u8]) -> bool {
    let is = |name: &str| {
        path.strip_suffix(name.as_bytes()).is_some_and(|above| matches!(above, [] | [.., b'/']))
    };
    is(INDEX_NAME) || is(DECODER_FILE)
}

/// Whether a key is hidden below a prefix. Names that the prefix itself contains are not hidden:
/// everything in `_delta_log/` is read if the prefix is `_delta_log/` or `_delta`.
pub(crate) fn is_hidden_key(prefix: &str, key: &str) -> bool {
    let folder = prefix.rfind('/').map_or(0, |slash| slash + 1);
    let Some(below) = key.get(folder..) else { return false };
    let mut named = prefix.get(folder..).unwrap_or_default();
    below.split('/').any(|name| {
        let named = std::mem::take(&mut named);
        is_hidden(name.as_bytes()) && !names_hidden(named.as_bytes(), name.as_bytes())
    })
}

/// Names that were left out of a list because they are hidden.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    count: u64,
    /// The first such name.
    example: Option<String>,
}

impl LeftOut {
    pub(crate) fn add(&mut self, name: impl FnOnce() -> String) {
        self.count += 1;
        self.example.get_or_insert_with(name);
    }

    /// Logs how many names the list of this source has left out, if any. `channel` reads from this
    /// source.
    pub fn log(&self, channel: Option<&str>, name: &str) {
        if let Some(what) = self.describe() {
            log::info!(channel = channel, object = name; "{name}: {what}");
        }
    }

    /// Says how many names were left out, and how to read them; `None` if there are none.
    pub fn describe(&self) -> Option<String> {
        let example = self.example.as_ref()?;
        let remedy = "name them or set `hidden = true` to read them";
        Some(match self.count {
            1 => format!("left out 1 hidden file or marker, {example}; {remedy}"),
            count => {
                format!("left out {count} hidden files and markers, one is {example}; {remedy}")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_and_hidden_names() {
        for name in [
            "_SUCCESS",
            "_committed_17",
            "_started_17",
            "_delta_log",
            "._a.jpg",
            ".DS_Store",
            ".part-0.crc",
            "00000000000000000001.crc",
            "part-0.csv._COPYING_",
        ] {
            assert!(is_hidden(name.as_bytes()), "{name}");
        }
        for name in [".", "..", "part-0", "a_b", "_year=2024", "crc", "a.crc.csv", "COPYING_"] {
            assert!(!is_hidden(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn what_describes_data_is_known_by_its_name() {
        for (path, is) in [
            ("_pipemill.index", true),
            ("a/b/_pipemill.index", true),
            ("a_pipemill.index", false),
            ("_pipemill.index/a", false),
            ("_pipemill.indexes", false),
            ("decoder.toml", true),
            ("a/b/decoder.toml", true),
            ("a/my-decoder.toml", false),
            ("decoder.toml/a", false),
            ("decoder.toml.gz", false),
            ("Decoder.toml", false),
        ] {
            assert_eq!(describes_data(path.as_bytes()), is, "{path}");
        }
    }

    #[test]
    fn a_part_of_a_pattern_names_what_is_hidden() {
        for (part, name, named) in [
            ("*", "_a", false),
            ("_*", "_a", true),
            ("*.crc", "a.crc", true),
            ("*.crc", ".a.crc", false),
            (".*.crc", ".a.crc", true),
            ("?a", ".a", false),
            ("*", "a", true),
        ] {
            assert_eq!(names_hidden(part.as_bytes(), name.as_bytes()), named, "{part} {name}");
        }
    }

    #[test]
    fn a_prefix_may_name_what_is_hidden() {
        for (prefix, key, hidden) in [
            ("", "a/b.csv", false),
            ("", "_a/b.csv", true),
            ("", "a/_b.csv", true),
            ("t/", "t/_SUCCESS", true),
            ("t", "t/_SUCCESS", true),
            ("t/_", "t/_SUCCESS", false),
            ("t/_S", "t/_S/_b", true),
            ("_t/", "_t/a", false),
            (".t/a", ".t/a/b", false),
            ("t/", "t/_year=1/a", false),
            ("t/", "t/a.crc", true),
            ("t/a.crc", "t/a.crc", false),
        ] {
            assert_eq!(is_hidden_key(prefix, key), hidden, "{prefix} {key}");
        }
    }

    #[test]
    fn what_was_left_out_is_counted() {
        let mut left_out = LeftOut::default();
        assert_eq!(left_out.describe(), None);
        left_out.add(|| "d/_a".to_owned());
        assert!(left_out.describe().unwrap().starts_with("left out 1 hidden file or marker, d/_a"));
        left_out.add(|| "d/_b".to_owned());
        let text = left_out.describe().unwrap();
        assert!(text.starts_with("left out 2 hidden files and markers, one is d/_a;"), "{text}");
    }
}
