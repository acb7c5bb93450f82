//! A decoder can do no harm, and this is so for code that no compiler makes. What a host makes of
//! such decoders is tested in tests/sandbox.

mod hostile;
mod instance;
mod window;
