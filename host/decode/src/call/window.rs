//! The window of a decoder's memory through which it sees chunks without a copy, if the decoder
//! exports one (`wit/0.2`) and the chunks are in memory that can be shared.
//!
//! The host maps a file into the window: the channel's ring, or the buffer of its long chunks. From
//! then on, a chunk is in the decoder's memory as soon as it is read. Everything else works as for
//! a decoder that gets copies: it emits spans of the chunk, which the host checks against its own
//! mapping of the memory. A file that has grown, or another one that fits, is mapped in its place
//! once a long chunk lies in it.

use std::sync::Arc;

use pipemill_types::{Fault, HUGE_PAGE, SharedFile, SharedPart};
use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, Instance, ResourceAny, TypedFunc};

use crate::call::host_state::HostState;
use crate::call::store::begin_call;
use crate::interface::WINDOW;
use crate::interface::wit::exports::pipemill::decoder::decoder as exports;
use crate::sandbox::guest_memory::{GuestMemory, WASM_PAGE};

/// A larger memory is not mapped: a decoder has only 4 GiB of addresses.
const MAX_BYTES: u64 = 2 << 30;

/// The window is used once an instance has been passed this many bytes. Before that, chunks are
/// copied: this is faster than mapping and unmapping the memory, which also interrupts the other
/// cores.
pub(crate) const WINDOW_FROM: usize = 255 << 10;

/// The functions of the window, in a component that exports them.
#[derive(Clone, Copy)]
pub(crate) struct WindowExports {
    set_aside: ComponentExportIndex,
    decode: ComponentExportIndex,
}

impl WindowExports {
    /// `None` if the component has no window.
    pub(crate) fn of(component: &Component) -> Option<Self> {
        let window = component.get_export_index(None, WINDOW)?;
        let function = |name| component.get_export_index(Some(&window), name);
        Some(Self { set_aside: function("set-aside")?, decode: function("decode")? })
    }
}

type SetAside = TypedFunc<(u32,), (u32,)>;
type Decode =
    TypedFunc<(ResourceAny, u32, u32, bool), (Result<exports::Progress, exports::DecodeError>,)>;
/// The result of the window's `decode`, or the reason why it was not called.
pub(crate) type Decoded = wasmtime::Result<Result<exports::Progress, exports::DecodeError>>;

/// The window of an instance.
pub(crate) enum Window {
    /// Chunks are copied.
    None,
    /// The instance has been passed few bytes so far, which were `copied`.
    Unused { set_aside: SetAside, decode: Decode, memory: Arc<GuestMemory>, copied: usize },
    /// The file is mapped at the address `at`, from which on the decoder has set aside `size`
    /// bytes.
    Shown { decode: Decode, memory: Arc<GuestMemory>, file: Arc<SharedFile>, at: u32, size: u64 },
}

/// The address of a chunk in the decoder's memory.
pub(crate) struct InWindow {
    decode: Decode,
    at: u32,
    length: u32,
}

/// The reason why there is no window.
pub(crate) enum NoWindow {
    /// The call of the decoder did not return.
    Trapped(wasmtime::Error),
    /// The decoder has broken its contract.
    Broken(Fault),
}

impl Window {
    /// Finds the window of an instance that was just made, with its memory.
    ///
    /// # Errors
    /// The functions have other types than the interface defines.
    pub(crate) fn new(
        store: &mut Store<HostState>,
        instance: &Instance,
        exports: Option<WindowExports>,
        memory: Option<Arc<GuestMemory>>,
    ) -> wasmtime::Result<Self> {
        let (Some(exports), Some(memory)) = (exports, memory) else { return Ok(Self::None) };
        Ok(Self::Unused {
            set_aside: instance.get_typed_func(&mut *store, exports.set_aside)?,
            decode: instance.get_typed_func(&mut *store, exports.decode)?,
            memory,
            copied: 0,
        })
    }

    /// The address of the chunk of `length` bytes in the decoder's memory; the chunk's first byte
    /// is at `start` in the shared part. `None` if it has to be copied. The window is used from
    /// `window_from` bytes on.
    ///
    /// # Errors
    /// The decoder has failed.
    pub(crate) fn place(
        &mut self,
        store: &mut Store<HostState>,
        part: Option<SharedPart<'_>>,
        (start, length): (usize, usize),
        window_from: usize,
    ) -> Result<Option<InWindow>, NoWindow> {
        let Some(part) = part else { return Ok(None) };
        if let Self::Unused { copied, .. } = self {
            *copied = copied.saturating_add(length);
            if *copied >= window_from {
                *self = std::mem::replace(self, Self::None).show(store, part.file)?;
            }
        }
        if length >= window_from {
            self.replace(part.file);
        }
        let Self::Shown { decode, file, at, .. } = self else { return Ok(None) };
        if !Arc::ptr_eq(file, part.file) {
            return Ok(None);
        }
        let start = part.offset.saturating_add(start as u64);
        if start.saturating_add(length as u64) > file.bytes {
            return Ok(None);
        }
        // The window ends before 4 GiB.
        Ok(Some(InWindow { decode: *decode, at: *at + start as u32, length: length as u32 }))
    }

    /// Asks the decoder for memory, and maps the file there.
    fn show(self, store: &mut Store<HostState>, file: &Arc<SharedFile>) -> Result<Self, NoWindow> {
        let Self::Unused { set_aside, decode, memory, .. } = self else { return Ok(self) };
        if file.bytes > MAX_BYTES {
            log::debug!("chunks are copied: {} bytes are too many to be mapped", file.bytes);
            return Ok(Self::None);
        }
        let size = file.most.min(MAX_BYTES).next_multiple_of(WASM_PAGE as u64);
        let (size, align) = match size < HUGE_PAGE as u64 {
            true => (size, WASM_PAGE),
            // The request includes the bytes that are needed to begin at a huge page.
            false => (size + (HUGE_PAGE - WASM_PAGE) as u64, HUGE_PAGE),
        };
        store.data_mut().limiter.allow_window(size);
        begin_call(store, 0);
        let (at,) = set_aside.call(&mut *store, (size as u32,)).map_err(NoWindow::Trapped)?;
        if at == 0 {
            log::debug!("chunks are copied: the decoder has no memory for {size} bytes of them");
            store.data_mut().limiter.allow_window(0);
            return Ok(Self::None);
        }
        if !memory.has(at, size) {
            return Err(NoWindow::Broken(Fault::contract(format!(
                "set aside {size} bytes of memory at {at}: expected a multiple of {WASM_PAGE}, \
                 with all bytes inside of its memory"
            ))));
        }
        let end = u64::from(at) + size;
        let at = at.checked_next_multiple_of(align as u32).unwrap_or(at);
        // SAFETY: the call has returned, and the store is this function's alone.
        match unsafe { memory.show(at, file) } {
            Ok(()) => {
                let size = end - u64::from(at);
                Ok(Self::Shown { decode, memory, file: file.clone(), at, size })
            }
            Err(error) => {
                log::debug!("chunks are copied: their memory can't be mapped: {error}");
                Ok(Self::None)
            }
        }
    }

    /// Maps another file in place of the one that is shown, if it fits there.
    fn replace(&mut self, other: &Arc<SharedFile>) {
        let Self::Shown { memory, file, at, size, .. } = self else { return };
        if Arc::ptr_eq(file, other) || other.bytes > *size {
            return;
        }
        // SAFETY: no call of the decoder is running, and the store is the caller's alone.
        let shown = unsafe {
            let shown = memory.show(*at, other);
            shown.and_then(|()| memory.hide(*at, other.bytes, file.bytes))
        };
        match shown {
            Ok(()) => *file = other.clone(),
            Err(error) => {
                log::debug!("chunks are copied: their memory can't be mapped: {error}");
                *self = Self::None;
            }
        }
    }
}

impl InWindow {
    /// Passes the chunk to the decoder.
    pub(crate) fn decode(
        self,
        store: &mut Store<HostState>,
        stream: ResourceAny,
        end: bool,
    ) -> Decoded {
        let Self { decode, at, length } = self;
        decode.call(store, (stream, at, length, end)).map(|(result,)| result)
    }
}
