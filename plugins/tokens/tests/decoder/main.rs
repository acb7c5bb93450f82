//! Tests of the tokens decoder: options, llm.c's header, the last record, any split, files by numpy.

mod damage;
mod llm_c;
mod options;
mod other_formats;
mod real_files;
mod splits;
mod tail;
mod write;
