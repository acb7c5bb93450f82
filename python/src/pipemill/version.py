"""The package's version, which the host is told."""

__version__ = "0.1.0"
