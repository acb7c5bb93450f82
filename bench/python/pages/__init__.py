"""Makes docs/benchmarks.md and its pictures from the reports of `peers` and `scaling`. It needs
only Python's own library.
"""
