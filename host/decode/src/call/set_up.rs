//! Measures the work of a decoder before it gets its first bytes, in instructions: the count is the
//! same on every machine, whatever else runs there.

use std::time::Duration;

use pipemill_types::StreamInfo;

use super::stream::Stream;
use crate::engine::Engine;
use crate::plugin::Plugin;
use crate::sandbox::limits::Limits;
use crate::with_options::ReadyPlugin;

/// The set-up needs no time limit: it has ended with the usual engine already.
const NO_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

impl ReadyPlugin {
    /// Instructions of WebAssembly that a new instance and its stream take. The plugin is compiled
    /// again for it. `None` for decoders that come with the host's binary, whose set-up is
    /// negligible, and if the stream can't be opened.
    pub fn set_up_instructions(&self, info: &StreamInfo, limits: &Limits) -> Option<u64> {
        if self.plugin.is_builtin() {
            return None;
        }
        let (engine, name) = (&self.plugin.inner.engine, self.plugin.name());
        let wasm = Plugin::file(engine, name).ok()?;
        let plugin = Plugin::compile(&Engine::that_counts().ok()?, name, &wasm).ok()?;
        let limits = Limits { call_timeout: NO_TIMEOUT, ..limits.clone() };
        let plugin = plugin.prepare(&self.options, &self.files, &limits).ok()?;
        Stream::open(&plugin, &self.options, info, &limits).ok()?.instructions()
    }
}
