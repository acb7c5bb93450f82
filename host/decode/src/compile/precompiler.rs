//! Compiles plugins to machine code that a binary can embed.

use crate::compile::builtin::{pack, unpack};
use crate::compile::cache::compatibility;
use crate::compile::machine_code::machine_code;
use crate::sandbox::settings::settings;

/// The machines that the code runs on.
#[cfg(target_arch = "x86_64")]
const TARGET: &str = "x86_64-unknown-linux-gnu";
#[cfg(target_arch = "aarch64")]
const TARGET: &str = "aarch64-unknown-linux-gnu";

/// CPU features beyond the architecture's baseline: those of x86-64-v3, which x86-64 servers have
/// had since 2015.
#[cfg(target_arch = "x86_64")]
const FEATURES: [&str; 11] = [
    "has_sse3",
    "has_ssse3",
    "has_sse41",
    "has_sse42",
    "has_popcnt",
    "has_avx",
    "has_avx2",
    "has_fma",
    "has_bmi1",
    "has_bmi2",
    "has_lzcnt",
];
#[cfg(target_arch = "aarch64")]
const FEATURES: [&str; 0] = [];

/// Compiles plugins to machine code that can be embedded in a binary. On x86-64 the code runs on
/// any machine with x86-64-v3, on 64-bit Arm on any machine; on other architectures, on machines
/// with the features of this one.
pub struct Precompiler(wasmtime::Engine);

impl Precompiler {
    /// A compiler with the settings of the engine that runs plugins.
    ///
    /// # Errors
    /// There is no compiler for this machine.
    pub fn new() -> Result<Self, String> {
        let mut settings = settings();
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        {
            // With an explicit target, the compiler uses only the features that are enabled
            // explicitly.
            settings.target(TARGET).map_err(|why| format!("{why:#}"))?;
            for feature in FEATURES {
                // SAFETY: an engine on a machine without the feature refuses to load the code.
                unsafe { settings.cranelift_flag_enable(feature) };
            }
        }
        wasmtime::Engine::new(&settings).map(Self).map_err(|why| format!("{why:#}"))
    }

    /// A name for the compiler's version and settings: 16 hexadecimal digits. Code of a compiler
    /// with another name can't be loaded.
    pub fn version(&self) -> String {
        compatibility(&self.0)
    }

    /// The machine code of a plugin.
    ///
    /// # Errors
    /// The bytes are not a plugin, or can't be compiled.
    pub fn compile(&self, wasm: &[u8]) -> Result<Vec<u8>, String> {
        machine_code(&self.0, wasm)
    }

    /// Compresses machine code in the form of [`Builtin::code`](crate::Builtin::code). The
    /// dictionary is the code of the first built-in decoder; empty for that one itself. A module in
    /// the form of [`Builtin::wasm`](crate::Builtin::wasm) has none.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn compress(bytes: &[u8], dictionary: &[u8]) -> Result<Vec<u8>, String> {
        pack(bytes, dictionary).map_err(|why| why.to_string())
    }

    /// What [`compress`](Self::compress) has compressed without a dictionary.
    ///
    /// # Errors
    /// It is damaged.
    pub fn decompress(packed: &[u8]) -> Result<Vec<u8>, String> {
        unpack(packed, &[]).map_err(|why| why.to_string())
    }
}
