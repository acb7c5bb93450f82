"""The time until a program has data: ``first_batch.py FILE``. Prints the seconds for importing the
package, and from there to the first batch of a TFRecord file."""

import sys
import time

began = time.perf_counter()
import pipemill  # noqa: E402

imported = time.perf_counter()
with pipemill.open(sys.argv[1], "tfrecord", batch=256) as stream:
    batch = next(stream)
    got = time.perf_counter()
print(len(batch), imported - began, got - imported)
