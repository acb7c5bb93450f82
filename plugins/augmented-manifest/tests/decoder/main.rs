//! Tests of the augmented-manifest decoder: any split, damage in each record of a group, options.

mod errors;
mod groups;
mod splits;
mod write;
