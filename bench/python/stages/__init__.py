"""Says where the time of a record goes, stage by stage, as the profiler perf sees it. Needs only Python's own library."""
