"""`make bench-scaling`: what a byte costs as things grow. `pipemill-bench scaling` measures."""
