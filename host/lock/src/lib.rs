//! Plugins by their names: `pipemill.lock` says which file a name stands for, by its SHA-256, and
//! the folder next to it has the files. `pipemill plugin add` writes both. A host only reads them:
//! it never fetches a plugin of the lock file. A decoder that comes with data is fetched from where
//! these say, if it is trusted.
//!
//! - `data_decoder`: the decoder that comes with data, if it is trusted.
//! - `decoder_file`: the content of the file `decoder.toml` that names it.
//! - `fetch`: reads a plugin from its origin.
//! - `lock_file`: the content of `pipemill.lock`.
//! - `lookup`: from a decoder's name to a plugin: one of the lock file, or any other.
//! - `name`: the names and versions that plugins can have.
//! - `origin`: the place from which a plugin comes.
//! - `store`: changes the lock file and the folder.

#![forbid(unsafe_code)]

mod data_decoder;
mod decoder_file;
mod fetch;
mod lock_file;
mod lookup;
mod name;
mod origin;
mod store;

pub use data_decoder::{DataDecoder, Trust, decoder_of_data};
pub use fetch::fetch;
pub use lock_file::{LOCK_FILE, LockError, LockFile, LockedPlugin};
pub use lookup::{detection_rules, load, locked_path, read};
pub use name::{PluginName, WantedPlugin};
pub use origin::Origin;
pub use store::{Added, Store};
