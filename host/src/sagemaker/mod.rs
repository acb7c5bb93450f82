//! What Amazon SageMaker tells a training container about its job.

mod input_data_config;

pub use input_data_config::{InputChannel, InputMode, input_data_config};
