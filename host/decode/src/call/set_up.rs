//! Measures the work of a decoder before it gets its first bytes, in instructions: the count is the
//! same on every machine, whatever else runs there.

use std::time::Duration;

use pipemill_types::StreamInfo;

use super::stream::Stream;
use crate::engine::Engine;
use crate::plugin::Plugin;
use crate::sandbox::limits::Limits;

/// The set-up needs no time limit: it has ended with the usual engine already.
const NO_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

impl Plugin {
    /// Instructions of WebAssembly that a new instance and its stream take. The plugin is compiled
    /// again for it. `None` for decoders that come with the host's binary, whose set-up is
    /// negligible, and if the stream can't be opened.
    pub fn set_up_instructions(
        &self,
        options: &[(String, String)],
        info: &StreamInfo,
        limits: &Limits,
    ) -> Option<u64> {
        if self.is_builtin() {
            return None;
        }
        let wasm = Self::file(&self.inner.engine, self.name()).ok()?;
        let plugin = Self::compile(&Engine::that_counts().ok()?, self.name(), &wasm).ok()?;
        let limits = Limits { call_timeout: NO_TIMEOUT, ..limits.clone() };
        Stream::open(&plugin, options, info, &limits).ok()?.instructions()
    }
}
