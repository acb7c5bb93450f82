//! The folder that the objects of an index lie in.

use std::path::{Path, PathBuf};

use pipemill_source::s3::Address;

/// The folder that all objects lie in; empty for objects in S3, which are named by their addresses.
pub(crate) struct Root(pub(crate) String);

impl Root {
    /// The root of objects of these names. The error is an object, what is wrong with it, and what
    /// to do.
    pub(crate) fn of(names: &[&str]) -> Result<Self, (String, &'static str, &'static str)> {
        let mut in_s3 = names.iter().filter(|name| Address::is_s3_url(name));
        let Some(first) = in_s3.next() else { return Self::of_files(names) };
        if in_s3.count() + 1 == names.len() {
            return Ok(Self(String::new()));
        }
        let message = "lies in S3, and other objects are files";
        Err(((*first).to_owned(), message, "make an index of each"))
    }

    fn of_files(names: &[&str]) -> Result<Self, (String, &'static str, &'static str)> {
        if let Some(name) = names.iter().find(|name| name.contains('\u{fffd}')) {
            let message = "has a name that is not UTF-8, which an index can't hold";
            return Err(((*name).to_owned(), message, "rename it"));
        }
        let folders = names.iter().filter_map(|name| Path::new(name).parent());
        let common = folders.map(PathBuf::from).reduce(|one, other| {
            let parts = one.components().zip(other.components());
            parts.take_while(|(one, other)| one == other).map(|(part, _)| part).collect()
        });
        Ok(Self(common.unwrap_or_default().to_string_lossy().into_owned()))
    }

    /// The name below the root.
    pub(crate) fn below<'a>(&self, name: &'a str) -> &'a str {
        let below = name.strip_prefix(self.0.as_str()).unwrap_or(name);
        if self.0.is_empty() { name } else { below.trim_start_matches('/') }
    }
}
