//! The places at which a file may lie that names the decoder of data: `decoder.toml`, beside them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::files::folder_of;
use crate::hidden::{DECODER_FILE, describes_data};
use crate::s3::{Address, Selection};
use crate::{Location, Pattern};

/// The places for one folder, prefix or object. The first one with a file counts.
pub type DecoderPlaces = Vec<Location>;

/// The places for a name of the command line: a path, or an address in S3. None for standard input.
pub fn decoder_places(name: &OsStr) -> Option<DecoderPlaces> {
    if name == "-" || describes_data(name.as_bytes()) {
        return None;
    }
    if Address::is_s3_url(name) {
        return Address::of_name(name).ok().map(|address| below(&address));
    }
    let path = Path::new(name);
    Some(vec![if path.is_dir() { in_folder(path) } else { next_to(path) }])
}

impl Pattern {
    /// The places for these files. None for those of an index, which names their decoder.
    pub fn decoder_places(&self) -> Vec<DecoderPlaces> {
        let is_data = |path: &&PathBuf| !describes_data(path.as_os_str().as_bytes());
        match self {
            Self::File(path) => {
                Some(path).filter(is_data).map(|path| vec![next_to(path)]).into_iter().collect()
            }
            Self::Files(paths) => {
                once_each(paths.iter().filter(is_data).map(|path| vec![next_to(path)]))
            }
            Self::Glob(pattern) => vec![vec![in_folder(&folder_of(pattern))]],
            Self::Folder(folder) => vec![vec![in_folder(folder)]],
            Self::Known { .. } => Vec::new(),
        }
    }
}

impl Selection {
    /// The places for these objects. None for those of a manifest, which may lie anywhere, and of
    /// an index.
    pub fn decoder_places(&self) -> Vec<DecoderPlaces> {
        match self {
            Self::Prefixes(addresses) | Self::Named(addresses) => {
                once_each(addresses.iter().map(below))
            }
            Self::Objects(addresses) => once_each(addresses.iter().map(|one| vec![of_root(one)])),
            Self::Manifest(_) | Self::Augmented { .. } | Self::Known { .. } => Vec::new(),
        }
    }
}

fn in_folder(folder: &Path) -> Location {
    Location::File(folder.join(DECODER_FILE))
}

fn next_to(path: &Path) -> Location {
    Location::File(path.with_file_name(DECODER_FILE))
}

/// A prefix without a slash at its end may be a folder, an object, or the start of names.
fn below(address: &Address) -> DecoderPlaces {
    let key = &address.key;
    if key.is_empty() || key.ends_with('/') {
        return vec![of_root(address)];
    }
    let in_it = address.with_key(&format!("{key}/{DECODER_FILE}"));
    vec![Location::S3(in_it), of_root(address)]
}

fn of_root(address: &Address) -> Location {
    Location::S3(address.with_key(&format!("{}{DECODER_FILE}", address.root())))
}

fn once_each(places: impl Iterator<Item = DecoderPlaces>) -> Vec<DecoderPlaces> {
    let mut all: Vec<DecoderPlaces> = Vec::new();
    for places in places {
        if !all.contains(&places) {
            all.push(places);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(places: Vec<DecoderPlaces>) -> Vec<String> {
        let one = |places: &DecoderPlaces| {
            places.iter().map(Location::to_string).collect::<Vec<_>>().join(" ")
        };
        places.iter().map(one).collect()
    }

    #[test]
    fn files_have_it_in_their_folder() {
        let files = |names: &[&str]| Pattern::Files(names.iter().map(PathBuf::from).collect());
        for (pattern, places) in [
            (Pattern::File("a/x.csv".into()), vec!["a/decoder.toml"]),
            (Pattern::File("x.csv".into()), vec!["decoder.toml"]),
            (Pattern::File("a/decoder.toml".into()), vec![]),
            (Pattern::Folder("a".into()), vec!["a/decoder.toml"]),
            (Pattern::Glob("a/b/*/x*.csv".into()), vec!["a/b/decoder.toml"]),
            (files(&["a/1", "a/2", "b/1"]), vec!["a/decoder.toml", "b/decoder.toml"]),
        ] {
            assert_eq!(shown(pattern.decoder_places()), places, "{pattern:?}");
        }
    }

    #[test]
    fn objects_have_it_below_their_prefix() {
        let of = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
        let root = "s3://b/decoder.toml";
        for (selection, places) in [
            (Selection::Prefixes(of(&["s3://b/t/"])), vec!["s3://b/t/decoder.toml"]),
            (Selection::Prefixes(of(&["s3://b"])), vec![root]),
            (
                Selection::Prefixes(of(&["s3://b/t", "s3://b/u/"])),
                vec!["s3://b/t/decoder.toml s3://b/decoder.toml", "s3://b/u/decoder.toml"],
            ),
            (Selection::Objects(of(&["s3://b/1", "s3://b/2"])), vec![root]),
            (Selection::Manifest("s3://b/m".parse().unwrap()), vec![]),
        ] {
            assert_eq!(shown(selection.decoder_places()), places, "{selection}");
        }
        let places = decoder_places(OsStr::new("s3://b/t/x.csv")).unwrap();
        assert_eq!(shown(vec![places]), ["s3://b/t/x.csv/decoder.toml s3://b/t/decoder.toml"]);
        assert_eq!(decoder_places(OsStr::new("-")), None);
    }
}
