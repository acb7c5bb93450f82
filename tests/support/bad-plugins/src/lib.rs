//! A decoder that does whatever wrong its option `do` says, to see that the host takes no harm. It
//! speaks the raw interface, because the SDK would keep it from most of it. Natively it is empty.

#[cfg(target_arch = "wasm32")]
mod blocks;
#[cfg(target_arch = "wasm32")]
mod columns;
#[cfg(target_arch = "wasm32")]
mod framed;
#[cfg(target_arch = "wasm32")]
mod hoards;
#[cfg(target_arch = "wasm32")]
mod misdeeds;
#[cfg(target_arch = "wasm32")]
mod mix;
#[cfg(target_arch = "wasm32")]
mod plans;
#[cfg(target_arch = "wasm32")]
mod plugin;
#[cfg(target_arch = "wasm32")]
mod prepare;
#[cfg(target_arch = "wasm32")]
mod saves;
