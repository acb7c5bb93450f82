"""docs/benchmarks.md and its pictures, from the reports of `peers` and `scaling`. Needs only Python's own library."""
