//! A plugin with the options of a channel: they are checked, the files that they name are read, and
//! what the streams have in common is prepared.

use std::path::Path;
use std::sync::Arc;

use pipemill_types::Fault;

use crate::call::prepare::Files;
use crate::compile::digest::Digest;
use crate::files::read_regular;
use crate::plugin::Plugin;
use crate::sandbox::limits::Limits;

/// Size of the largest file that an option may name. The decoder has it in its memory, too.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// A plugin that is ready to decode with its options. Cheap to clone.
#[derive(Clone)]
pub struct ReadyPlugin {
    /// The plugin.
    pub plugin: Plugin,
    /// The options that its streams get: names and values. In place of the path of a file they have
    /// its digest, so the records do not depend on the path, and equal options mean equal records.
    pub options: Vec<(String, String)>,
    /// The content of the files, by the name of their option.
    pub(crate) files: Arc<Files>,
}

impl ReadyPlugin {
    /// The plugin without options.
    pub fn without_options(plugin: Plugin) -> Self {
        Self { plugin, options: Vec::new(), files: Arc::default() }
    }

    /// The same, without the content of the files: what was prepared has it. A host that runs for
    /// long would keep it twice.
    pub fn without_files(self) -> Self {
        Self { files: Arc::default(), ..self }
    }

    /// The same plugin, but each of its instances calls `prepare` for itself, so that the result
    /// can be compared. `None` if the decoder prepares nothing.
    pub fn prepared_each_time(&self) -> Option<Plugin> {
        self.plugin.clone().prepare_each_time(&self.options, self.files.clone())
    }
}

/// What is wrong with the options: the index of the one that is wrong, if it is one, and why.
pub type OptionFaults = Vec<(Option<usize>, String)>;

impl Plugin {
    /// Makes the plugin ready for these options: names and values.
    ///
    /// # Errors
    /// Options are unknown, missing or wrong, a file can't be read, or the decoder can't be
    /// prepared with them.
    pub fn with_options(
        self,
        given: &[(String, String)],
        limits: &Limits,
    ) -> Result<ReadyPlugin, OptionFaults> {
        let faults = self.check_options(given);
        if !faults.is_empty() {
            return Err(faults);
        }
        let (mut options, mut files, mut faults) = (given.to_vec(), Vec::new(), Vec::new());
        for (index, (name, value)) in options.iter_mut().enumerate() {
            let is_file = self.options().iter().any(|spec| spec.name == *name && spec.is_file());
            if !is_file {
                continue;
            }
            match read(name, value) {
                Ok(bytes) => {
                    *value = format!("sha256:{}", Digest::of(&bytes));
                    files.push((name.clone(), bytes));
                }
                Err(why) => faults.push((Some(index), why)),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let name = self.name().to_owned();
        let files: Arc<Files> = files.into();
        let failed = |Fault { message, remedy, .. }| {
            vec![(None, format!("decoder `{name}`: {message}; {remedy}"))]
        };
        let plugin = self.prepare(&options, &files, limits).map_err(failed)?;
        let companions = plugin.ask_companions(&options, limits).map_err(failed)?;
        let plugin = plugin.with_companions(companions);
        Ok(ReadyPlugin { plugin, options, files })
    }
}

/// The content of the file at `path`, which the option `name` names.
fn read(name: &str, path: &str) -> Result<Vec<u8>, String> {
    read_regular(Path::new(path), MAX_FILE_BYTES, "files of options").map_err(|why| {
        let hint = match path.starts_with("sha256:") {
            true => ": give the path of the file with this digest",
            false => "",
        };
        format!("option `{name}`: the file {path:?} can't be read: {why}{hint}")
    })
}
