"""Shows how the time of a record is spent, stage by stage, with the profiler perf. Needs only
Python's own library.
"""
