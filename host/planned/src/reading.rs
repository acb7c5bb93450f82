//! How objects are read for a decoder.

use pipemill_decode::Plugin;
use pipemill_source::ReadSettings;

/// These settings for objects of this decoder: whether it chooses their bytes, and the companions
/// that it needs of each. `None`: their decoder is not known yet.
pub fn read_for(plugin: Option<&Plugin>, reading: ReadSettings) -> ReadSettings {
    ReadSettings {
        on_demand: plugin.map(Plugin::plans),
        companions: plugin.map(Plugin::companions).cloned().unwrap_or_default(),
        ..reading
    }
}
