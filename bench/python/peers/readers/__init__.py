"""The readers, by kind of input. Each library is used in its fastest way; its import is in its function."""
