//! Decodes objects: reads their bytes, passes them to the decoder, and appends its records to the
//! batch.
//!
//! `object` begins one object, `decode_loop` decodes it. Parts of the loop are: `beginning`, which
//! begins in the middle of an object, `reading`, which reads the bytes, and `skipping`, which
//! handles errors. `learn` finds the fields of the records before that. `background_inflate`
//! inflates an object in a thread of its own. `section_end` is where the section of a worker ends.
//! `added_values` are the values of the fields that the host adds to each record. `record_numbers`
//! leaves out the records that an index skips. `part_counts` compares the records of a plan's parts
//! with the numbers that the plan gives.

pub mod added_values;
pub mod background_inflate;
mod beginning;
pub mod decode_loop;
pub mod learn;
pub mod object;
pub mod part_counts;
mod reading;
pub mod record_numbers;
pub mod section_end;
mod skipping;
