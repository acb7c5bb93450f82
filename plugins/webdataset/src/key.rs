//! Splits the path of a member into the key of its sample and its extension, by the rules of
//! webdataset's `base_plus_ext` and `tar_file_iterator`.

/// Offset of the dot between key and extension: the first dot of the file name. `None` for a member
/// that belongs to no sample. Files that macOS adds are not data: see [`is_of_macos`].
///
/// If the file name starts with a dot, its folder is the key, unless the name of the folder has a
/// dot.
pub(crate) fn dot(path: &[u8]) -> Option<usize> {
    let name = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
    let dot = name + memchr::memchr(b'.', &path[name..])?;
    if dot == name {
        if is_of_macos(path) {
            return None;
        }
        let folder = path[..name].strip_suffix(b"/")?;
        let start = memchr::memrchr(b'/', folder).map_or(0, |slash| slash + 1);
        if memchr::memchr(b'.', &folder[start..]).is_some() {
            return None;
        }
    }
    (!is_meta(path)).then_some(dot)
}

/// Whether the file is one that macOS adds: `._a.jpg` has the attributes of `a.jpg`, `.DS_Store`
/// has those of a folder. webdataset makes a sample of them if they are in a folder.
pub(crate) fn is_of_macos(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.starts_with(b"._") || name == b".DS_Store"
}

/// Whether the first component of a path is `__…__`: webdataset treats such members as metadata.
fn is_meta(path: &[u8]) -> bool {
    let first = path.split(|byte| *byte == b'/').next().unwrap_or(path);
    first.len() >= 4 && first.starts_with(b"__") && first.ends_with(b"__")
}

/// Whether an extension is the wanted one, which is in lower case. Case does not matter.
pub(crate) fn is_same(found: &[u8], wanted: &str) -> bool {
    if found.is_ascii() {
        return found.eq_ignore_ascii_case(wanted.as_bytes());
    }
    lower(found) == wanted.as_bytes()
}

/// An extension in lower case.
pub(crate) fn lower(extension: &[u8]) -> Vec<u8> {
    match str::from_utf8(extension) {
        Ok(text) => text.to_lowercase().into_bytes(),
        Err(_) => extension.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::{dot, is_same};

    /// The expected values are those of `base_plus_ext` in webdataset 1.0.2.
    #[test]
    fn keys_and_extensions_are_those_of_webdataset() {
        let cases = [
            ("a.jpg", Some(("a", "jpg"))),
            ("a.seg.png", Some(("a", "seg.png"))),
            ("./a.jpg", Some(("./a", "jpg"))),
            ("dir.v1/a.jpg", Some(("dir.v1/a", "jpg"))),
            ("a.", Some(("a", ""))),
            ("a..b", Some(("a", ".b"))),
            ("a", None),
            ("dir.v1/a", None),
            ("", None),
            (".", None),
            (".hidden", None),
            ("./.hidden", None),
            ("dir/.hidden", Some(("dir/", "hidden"))),
            ("x.y/dir/.hidden.txt", Some(("x.y/dir/", "hidden.txt"))),
            ("dir.v1/.hidden", None),
            ("/.hidden", Some(("/", "hidden"))),
            ("//.hidden", Some(("//", "hidden"))),
            ("__meta__/a.jpg", None),
            ("__a.json__", None),
            ("____/a.jpg", None),
            ("___/a.jpg", Some(("___/a", "jpg"))),
            ("x/__meta__/a.jpg", Some(("x/__meta__/a", "jpg"))),
            ("__a.jpg", Some(("__a", "jpg"))),
            // This differs from webdataset.
            ("._a.jpg", None),
            ("dir/._a.jpg", None),
            ("a/b/._a.jpg", None),
            ("dir/.DS_Store", None),
            ("dir._/a.jpg", Some(("dir._/a", "jpg"))),
        ];
        for (path, wanted) in cases {
            let found = dot(path.as_bytes()).map(|at| (&path[..at], &path[at + 1..]));
            assert_eq!(found, wanted, "{path}");
        }
    }

    #[test]
    fn upper_and_lower_case_are_the_same() {
        assert!(is_same(b"JPG", "jpg") && is_same("É".as_bytes(), "é"));
        assert!(!is_same(b"jpeg", "jpg") && !is_same(b"\xff", "jpg"));
    }
}
