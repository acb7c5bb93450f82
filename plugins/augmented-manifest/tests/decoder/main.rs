//! Tests of the augmented-manifest decoder: options, any split, damage in each record of a group.

mod errors;
mod groups;
mod other_formats;
mod splits;
