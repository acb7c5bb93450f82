"""One rank: reads a folder, and prints its records. Arguments: the folder, or the table of a source as JSON, and the options as JSON;
between two batches it waits for a line."""

import json
import sys

import pipemill

folder, wishes = sys.argv[1], json.loads(sys.argv[2])
source = json.loads(folder) if folder.startswith("{") else folder
with pipemill.open(source, "lines", **wishes) as stream:
    print(json.dumps([stream.mode, stream._host is not None]), flush=True)
    for batch in stream:
        print(json.dumps([batch.number, batch.records()[: batch.valid]]), flush=True)
        sys.stdin.readline()
