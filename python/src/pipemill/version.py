"""The package's version. HELLO sends it to the host."""

__version__ = "0.1.0"
