//! Decodes objects: reads their bytes, passes them to the decoder, and appends its records to the
//! batch.
//!
//! `object` begins one object, `decode_loop` reads and decodes it. `learn` finds the fields of the
//! records before that. `background_inflate` inflates an object in a thread of its own.
//! `section_end` is where the section of a worker ends. `added_values` are the values of the fields
//! that the host adds to each record. `record_numbers` leaves out the records that an index skips.
//! `part_counts` compares the records of a plan's parts with the numbers that the plan gives.

pub mod added_values;
pub mod background_inflate;
pub mod decode_loop;
pub mod learn;
pub mod object;
pub mod part_counts;
pub mod record_numbers;
pub mod section_end;
