"""`make bench-scaling`: the cost of a byte as things grow. `pipemill-bench scaling` measures."""
