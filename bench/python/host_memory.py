"""Takes all batches, and prints the host's peak memory in MiB. The host is the parent process."""

import os

import pipemill

with pipemill.connect(channel="bench") as stream:
    for batch in stream:
        batch.lengths("data")
with open(f"/proc/{os.getppid()}/status") as status:
    fields = dict(line.split(":", 1) for line in status)
print(int(fields["VmHWM"].split()[0]) / 1024)
