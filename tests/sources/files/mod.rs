//! Files that are not what they were when they were opened or listed, and lists that lead elsewhere.

mod changed;
mod selected;
