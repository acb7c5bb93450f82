"""The texts of the page."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Words:
    title: str
    #: What grows, and what stays.
    about: str
    #: Where it is not flat, and why.
    why: str


AXES = {
    "workers": Words(
        "Workers",
        "The number of [workers](configuration.md#several-cores) of one channel, up to the cores of the machine: 256 MiB of CSV in rows "
        "of 100 bytes with all fields, and of TFRecord in records of 1 KiB.",
        "With more than one worker, the records of a section wait in slots of the ring until it is their turn: that is more memory "
        "than the caches of a core hold. A section also costs a quarter of a millisecond in addition to its records, because its worker looks "
        "for the first record, and threads wake each other. With `batch`, each record is copied once more, which costs about as "
        "much as to decode TFRecord. So workers help where the decoder has work to do for each byte. They share the cores with the "
        "thread that hands over their records, and with the consumer.",
    ),
    "channels": Words(
        "Channels",
        "The number of channels of one host, each with its own ring and consumer. All read the same file of TFRecord, 64 MiB in records "
        "of 1 KiB.",
        "A channel is a thread, so time falls until all cores are busy. A consumer that is quick leaves a channel with few slots in use, "
        "which stay in the processor's cache. With more channels than cores, consumers wait for their turn, the rings fill up, and "
        "their memory is read from outside of the cache. The start grows, because channels that started early fill their rings, "
        "64 MiB each, before the last one has its first batch.",
    ),
    "records": Words(
        "Size of records",
        "TFRecord, 256 MiB, in records of this size. The largest is the largest that a configuration allows: one record of 1 GiB, whose "
        "decoder has 2 GiB of memory.",
        "A record that is larger than a slot, 4 MiB, gets a buffer of its own, which is used again once the record is "
        "released, as slots are. What was read of the record is moved there, and its decoder gets a copy of it, because only "
        "slots are mapped into the sandbox. The larger the records, the fewer of them are read before each buffer was made "
        "once: the kernel makes its pages, and those of the decoder's memory.",
    ),
    "objects": Words(
        "Objects",
        "64 MiB of TFRecord in records of 1 KiB, as this number of files of a folder: 10,000 have 6.7 KiB each.",
        "An object is opened, its decoder begins a stream, and its last records are granted without those of the next one. "
        "That takes the same time for each object, whatever their number: as much as some 80 KiB of TFRecord. So it can be "
        "seen where objects are smaller than a MiB. An object of a plugin that is not built in takes some 10 us more, because "
        "it gets an instance of its own. With several workers, objects also pass from thread to thread.",
    ),
    "plugins": Words(
        "Plugins",
        "As many channels as plugins, each of them a file of its own with the decoder of TFRecord in it. For comparison, as many "
        "channels of the built-in decoder. All read the same file of 64 MiB.",
        "Plugins cost a byte nothing: they cost the start. A plugin is read and its machine code loaded from "
        "[the cache](cli.md#the-cache); the first start, which is not in the table, also compiles each of them. The rest is what "
        "channels cost.",
    ),
}


def point_name(axis: str, place: int) -> str:
    """A point of an axis."""
    if axis != "records":
        return f"{place:,}"
    for size, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if place >= size:
            return f"{place // size} {name}"
    return f"{place} B"


INTRODUCTION = """\
# Benchmarks

<!-- `make bench-peers`, `make bench-scaling` and `make bench-stages` write this page from bench/results. Its text is in bench/python/pages. -->

This page compares pipemill with the readers that people use for the same records. It says what a byte costs when there are more \
workers, channels, objects and plugins, and larger records, and where the time of a record goes. Three commands measure and write it:

    make bench-peers      # compared with other readers; 15 GB the first time, then 12 minutes; QUICK=1: two minutes, into the target folder
    make bench-scaling    # 6 minutes; QUICK=1: one minute
    make bench-stages     # one minute; needs perf

`make bench` is another one: it compares each release with its own limits, such as the same decoder without the sandbox.
"""

QUICK = """\
**A quick run**: one round of small files, only to see that all of it works. Don't compare these figures.
"""

HOW = """\
Other machines give other rates, so look at quotients. All readers of a table are ready before the first round, each in a process of \
its own, and only one works at a time: A B C A B C. A round opens the input, reads {warm} s without a clock, then {seconds} s with it. \
Those that read a file at a time into one array or table read whole files for that long. The figures are medians of {rounds} rounds, \
with the lowest and the highest. Files are in the page cache. Before that, each reader reads small files of the same kind, and what it \
read must be what pipemill read.

**GB/s** are 10⁹ bytes of records, or of text, a second. **CPU** is the time of all processes and threads of a reader, in nanoseconds \
for each byte: it says what another core would bring. **Relative** is the rate divided by that of pipemill with one \
worker: above 1, the other reader is faster.
"""

SCALING = """\
A host reads the input once, and then several times; the figures are the differences of the two runs, so that the start is not in them. \
A consumer of each channel takes the batches and does nothing. CPU is the host's; time is that of a clock. Medians of {rounds} rounds in \
which all points take turns. `start` is from the start of the process until each channel had its first batch.
"""

NOT_FAIR = """\
## What was not fair

To pipemill's advantage:

- **Two processes.** The host decodes in one and the program reads in another, so one worker has up to two cores. Readers that work \
inside the program's thread have one. The column CPU has no such advantage.
- **Views.** A batch of pipemill is memory that is used again when the program takes the next one. pandas, pyarrow, polars and boto3 give \
memory that the program keeps; a program that keeps batches of pipemill copies them. Where the work is one array of all rows, pipemill's \
batches are copied into it.
- **Starts are left out.** A host takes some hundredths of a second to start. It also has memory of its own: a ring of \
64 MiB for a channel, and with more than one worker up to 64 MiB for each.
- **What the others are made for.** mosaicml-streaming and litdata shuffle and fetch from object stores, in several processes of a \
DataLoader; grain reads in any order; DALI feeds GPUs. Here they read local files in order, in one process each.
- **Who measures.** These are our benches, on our choice of inputs. The payload is random bytes, and tables and JSON are made up.

To its disadvantage:

- **Checks.** pipemill checks both CRCs of a TFRecord, as TensorFlow does; the Python package tfrecord, and the readers of S3 here, check \
none. Hugging Face datasets in Arrow check nothing and decode nothing: that file is a copy of the memory.
- **The sandbox.** Decoders run as WebAssembly, in a sandbox. No other reader has one.
- **Threads.** pyarrow and polars with two threads keep both cores busy with parsing; with pipemill's two workers, the program takes its \
part of them. Where one worker and the program keep both cores busy already, as with TFRecord and RecordIO, a second worker only adds \
work.
- **A server on the same machine.** In the table of S3, the server has its part of the two cores.
- **JPEG.** The start of a host is in each of its rounds.

To neither:

- **Versions.** MXNet, mosaicml-streaming and the SageMaker SDK need an older NumPy, so they are in an environment of their own.
- **CPU time is counted in steps of 10 ms**, so it is exact to some percent.
"""

STAGES = """\
Nanoseconds of the channel's thread for each record, with one worker and a consumer that drops what it gets. A profiler interrupts the \
thread 4,999 times a second; each sample is of one stage.

- **read**: the kernel copies the file into the ring.
- **decode**: code of the decoder, in the sandbox.
- **checksum**: the CRCs, which the host computes for the decoder.
- **boundary**: calls between host and sandbox, and the loop that makes them.
- **check**: the host checks what the decoder says of its records, and puts it into columns.
- **index**: the columns become the batch's index; bytes that belong to the next batch are moved.
- **grant**: a batch is handed over; most of it is the kernel, which wakes the consumer.
- **other**: the kernel's memory for instances, mostly.
"""
