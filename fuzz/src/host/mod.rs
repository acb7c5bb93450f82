//! Targets of the host: input from consumers, servers, platforms and users.

mod block;
mod component;
mod config;
mod emit;
mod guest;
mod hello;
mod inflate;
mod manifest;
mod messages;
mod sagemaker;
mod seek_point;

pub(crate) use block::block;
pub(crate) use component::component;
pub(crate) use config::config;
pub(crate) use emit::{budget, emit};
pub(crate) use hello::hello;
pub(crate) use inflate::inflate;
pub(crate) use manifest::manifest;
pub(crate) use messages::messages;
pub(crate) use sagemaker::sagemaker;
pub(crate) use seek_point::seek_point;
