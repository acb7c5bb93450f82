//! Reads a plugin from its origin: at most as many bytes as a plugin may have.

use pipemill_decode::{MAX_PLUGIN_BYTES, read_plugin_file};
use pipemill_source::SourceError;
use pipemill_source::s3::{Access, LazyS3Runtime, Selection, Settings, read_object_within};
use pipemill_source::web::{download, download_artifact};

use crate::origin::Origin;

/// Reads the plugin at this origin. `access` says how S3 is reached.
///
/// # Errors
/// It does not exist, can't be read, or has more bytes than a plugin may have.
pub fn fetch(origin: &Origin, access: &Access) -> Result<Vec<u8>, SourceError> {
    match origin {
        Origin::File(path) => {
            let failed = |why| SourceError::io(path.to_string_lossy(), "can't be read", &why);
            read_plugin_file(path).map_err(failed)
        }
        Origin::S3(address) => {
            let s3 = LazyS3Runtime::new(None).get().map_err(|why| {
                SourceError::new(address.to_string(), format!("can't start: {why}"), "")
            })?;
            let selection = Selection::Objects(vec![address.clone()]);
            let settings = Settings { access: access.clone(), ..Settings::new(selection) };
            let read = read_object_within(&s3, &settings, address, MAX_PLUGIN_BYTES);
            read.map(|object| object.bytes)
        }
        Origin::Web(url) => download(url, MAX_PLUGIN_BYTES),
        Origin::Registry(artifact) => download_artifact(artifact, MAX_PLUGIN_BYTES),
    }
}
