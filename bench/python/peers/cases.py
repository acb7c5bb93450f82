"""The cases: their inputs, the readers of each, and the work that each reader does or leaves out.
"""

from __future__ import annotations

import dataclasses
from typing import Any

KIB, MIB = 1 << 10, 1 << 20
#: Writers that make one folder of all records.
FOLDERS = {"mds", "litdata", "hf_arrow", "jpegs"}


@dataclasses.dataclass(frozen=True)
class Input:
    #: A function of `make.py`.
    writer: str
    #: Bytes of a record, or 0 where they differ.
    record: int
    #: Bytes of all files.
    size: int
    files: int = 1
    #: Where files are objects: the bucket's folder is served.
    served: bool = False

    @property
    def rows(self) -> int:
        return max(1, min(512, (3 << 20) // self.record))

    @property
    def name(self) -> str:
        return f"{self.writer}-{self.record}-{self.size >> 10}kib-{self.files}".replace("_", "-")


@dataclasses.dataclass(frozen=True)
class Line:
    name: str
    #: A module of `readers` and a function of it; "rust.NAME" is a reader of `pipemill-bench`.
    reader: str
    does: str
    env: str = "peers"
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    #: The writer of another input than the case's, with the same records.
    writer: str | None = None


@dataclasses.dataclass(frozen=True)
class Bar:
    """The smallest acceptable ratio of two lines."""

    line: str
    peer: str
    least: float
    #: "rate", or "cpu" for bytes by CPU time.
    of: str = "rate"


@dataclasses.dataclass(frozen=True)
class Case:
    key: str
    title: str
    #: The behavior of each line, unless it says something else.
    work: str
    input: Input
    #: The first one is pipemill.
    lines: list[Line]
    bars: list[Bar] = dataclasses.field(default_factory=list)
    #: "GB/s" of records or text, or "images/s".
    unit: str = "GB/s"


OURS, OURS_2 = "pipemill", "pipemill, 2 workers"
#: Writers whose library is in the environment of older libraries.
OLDER_WRITERS = {"recordio", "mds", "recordio_protobuf"}


def size_name(record: int) -> str:
    return f"{record >> 10} KiB" if record >= KIB else f"{record} B"


def batches_of(given: Input) -> str:
    return f"batches of {given.rows} records as `uint8[{given.rows}, {given.record}]`, one byte of each cache line added up"


def ours(reader: str, does: str, workers: int = 1, **options: Any) -> Line:
    more = {} if workers == 1 else {"workers": workers}
    return Line(OURS if workers == 1 else OURS_2, reader, does, options={**options, **more})


def tfrecord(record: int) -> Case:
    given = Input("tfrecord", record, (64 if record < KIB else 256) * MIB, 4)
    return Case(
        f"tfrecord-{record}",
        f"TFRecord, {size_name(record)}",
        f"{given.files} files; {batches_of(given)}",
        given,
        [
            ours("records.pipemill", "checks both CRCs of a record; views of shared memory", decoder="tfrecord"),
            ours("records.pipemill", "the same, two files at a time", 2, decoder="tfrecord"),
            Line(
                "tf.data",
                "records.tf_data",
                "checks both CRCs; `batch`, `decode_raw` with `AUTOTUNE`, `prefetch`: batches are made on several threads",
            ),
            Line(
                "tf.data, 2 files at a time",
                "records.tf_data_files",
                "`interleave` of two files, a batch of each in turn; else the same",
            ),
            Line(
                "tfrecord (Python)", "records.tfrecord", "checks no CRC; records come one by one, a join makes a batch"
            ),
        ],
    )


def recordio(record: int) -> Case:
    given = Input("recordio", record, (64 if record < KIB else 256) * MIB, 4)
    return Case(
        f"recordio-{record}",
        f"MXNet RecordIO, {size_name(record)}",
        f"{given.files} files; {batches_of(given)}",
        given,
        [
            ours("records.pipemill", "views of shared memory", decoder="recordio"),
            ours("records.pipemill", "the same, two files at a time", 2, decoder="recordio"),
            Line("MXNet", "records.mxnet", "`MXRecordIO.read`, one by one; a join makes a batch", "older"),
        ],
    )


def webdataset(record: int) -> Case:
    given = Input("webdataset", record, 256 * MIB, 4)
    return Case(
        f"webdataset-{record}",
        f"tar archives of webdataset, members of {size_name(record)}",
        f"{given.files} files; {batches_of(given)}",
        given,
        [
            ours("records.pipemill", "also gives the keys; views of shared memory", decoder="webdataset", fields="bin"),
            ours("records.pipemill", "the same, two files at a time", 2, decoder="webdataset", fields="bin"),
            Line("webdataset", "records.webdataset", "`batched` with a join; also gives the keys"),
            Line(
                "webdataset, 2 workers", "records.webdataset_workers", "the same in the two processes of a `WebLoader`"
            ),
            Line(
                "Hugging Face datasets",
                "records.hf_webdataset",
                '`load_dataset("webdataset", streaming=True)`; a join makes a batch',
            ),
            Line("NVIDIA DALI, CPU", "records.dali", "`fn.readers.webdataset` with two threads; gives no keys"),
        ],
        # These are limits that pipemill has to reach since its first release.
        [Bar(OURS, "webdataset", 20.0 if record == KIB else 2.0)],
    )


def own_formats(record: int) -> Case:
    given = Input("tfrecord", record, 256 * MIB, 4)
    return Case(
        f"formats-{record}",
        f"the same records in the formats of other loaders, {size_name(record)}",
        f"each reads its own format, in order; {batches_of(given)}",
        given,
        [
            ours("records.pipemill", "TFRecord: checks both CRCs of a record", decoder="tfrecord"),
            Line(
                "grain, ArrayRecord",
                "records.grain",
                "ArrayRecord without compression, groups of one record, two threads",
                options={"threads": 2},
                writer="array_record",
            ),
            Line("mosaicml-streaming", "records.mosaicml", "MDS without compression or hashes", "older", writer="mds"),
            Line("litdata", "records.litdata", "chunks of 64 MB without compression", writer="litdata"),
            Line(
                "Hugging Face datasets",
                "records.hf_arrow",
                'a mapped Arrow file, `with_format("arrow").iter`: nothing is decoded or checked; views of the page cache',
                writer="hf_arrow",
            ),
        ],
    )


def numbers() -> Case:
    return Case(
        "numbers",
        "CSV of numbers",
        "one file of rows of 20 numbers with four decimals; one `float32[rows, 20]` of all rows",
        Input("numbers", 0, 64 * MIB),
        [
            ours(
                "tables.pipemill_array",
                "copies each batch into the array",
                decoder="csv",
                options={"emit": "dense"},
                field="x",
            ),
            ours(
                "tables.pipemill_array",
                "the same; two sections of the file at a time",
                2,
                decoder="csv",
                options={"emit": "dense"},
                field="x",
            ),
            Line("pandas", "tables.pandas_array", '`read_csv(engine="c", dtype="float32")`, one thread'),
            Line(
                "pyarrow, 1 thread",
                "tables.pyarrow_array",
                "`csv.read_csv` of float32, then `column_stack`",
                options={"threads": 1},
            ),
            Line("pyarrow, 2 threads", "tables.pyarrow_array", "the same with threads", options={"threads": 2}),
            Line(
                "polars, 1 thread",
                "tables.polars_array",
                "`read_csv` of Float32, then `to_numpy`",
                options={"threads": 1},
            ),
            Line("polars, 2 threads", "tables.polars_array", "the same with threads", options={"threads": 2}),
        ],
        [
            Bar(OURS, "pandas", 3.0),
            Bar(OURS, "pyarrow, 1 thread", 2.0),
            Bar(OURS_2, "pandas", 5.0),
            Bar(OURS_2, "pyarrow, 1 thread", 10.0),
            Bar(OURS_2, "pyarrow, 2 threads", 2.5),
        ],
    )


def fields() -> Case:
    return Case(
        "fields",
        "CSV of text",
        "one file of rows of eight fields, 100 bytes; all fields as text, their lengths added up",
        Input("fields", 0, 64 * MIB),
        [
            ours("tables.pipemill_fields", "columns of views of shared memory; checks UTF-8", decoder="csv"),
            ours("tables.pipemill_fields", "the same; two sections of the file at a time", 2, decoder="csv"),
            Line(
                "pipemill to Arrow",
                "tables.pipemill_arrow",
                "the same as Arrow arrays of string views, without a copy",
                options={"decoder": "csv"},
            ),
            Line(
                "pyarrow, 1 thread",
                "tables.pyarrow_fields",
                "`csv.read_csv` of strings; checks UTF-8, copies",
                options={"threads": 1},
            ),
            Line("pyarrow, 2 threads", "tables.pyarrow_fields", "the same with threads", options={"threads": 2}),
            Line("polars, 1 thread", "tables.polars_fields", "`read_csv` of strings", options={"threads": 1}),
            Line("polars, 2 threads", "tables.polars_fields", "the same with threads", options={"threads": 2}),
            Line(
                "Rust csv",
                "rust.csv",
                "`read_byte_record`: bytes, UTF-8 is not checked; no Python, and no other process",
                "rust",
            ),
            Line("Python csv", "tables.python_fields", "`csv.reader`: each field a `str`"),
        ],
        [Bar(OURS, "Rust csv", 3.0, "cpu")],
    )


def jsonl() -> Case:
    selected = "/id:int64,/score:float64,/text:utf8"
    return Case(
        "jsonl",
        "JSON Lines",
        "one file of lines of six keys, 200 bytes; three of them as columns of int64, float64 and text, all values added up",
        Input("jsonl", 0, 64 * MIB),
        [
            ours("tables.pipemill_jsonl", "validates the whole line", decoder="jsonl", fields=selected),
            ours(
                "tables.pipemill_jsonl",
                "the same; two sections of the file at a time",
                2,
                decoder="jsonl",
                fields=selected,
            ),
            Line(
                "pyarrow, 1 thread",
                "tables.pyarrow_jsonl",
                "`json.read_json` with a schema, others ignored",
                options={"threads": 1},
            ),
            Line("pyarrow, 2 threads", "tables.pyarrow_jsonl", "the same with threads", options={"threads": 2}),
            Line(
                "polars, 2 threads",
                "tables.polars_jsonl",
                "`scan_ndjson` with a schema, then `select`",
                options={"threads": 2},
            ),
            Line(
                "Hugging Face datasets",
                "tables.hf_jsonl",
                '`load_dataset("json", streaming=True)`: reads all keys, then selects three',
            ),
            Line(
                "Rust serde_json", "rust.jsonl", "into a struct line by line; no Python, and no other process", "rust"
            ),
            Line("Python json", "tables.python_jsonl", "`json.loads` line by line"),
        ],
        [Bar(OURS, "pyarrow, 1 thread", 1.8, "cpu")],
    )


def protobuf() -> Case:
    return Case(
        "recordio-protobuf",
        "recordio-protobuf",
        "one file of records of 100 values; one `float32[rows, 100]` of all records",
        Input("recordio_protobuf", 0, 24 * MIB),
        [
            ours(
                "tables.pipemill_array",
                "copies each batch into the array",
                decoder="recordio-protobuf",
                field="features",
            ),
            ours(
                "tables.pipemill_array",
                "the same; two sections of the file at a time",
                2,
                decoder="recordio-protobuf",
                field="features",
            ),
            Line("SageMaker SDK", "tables.sagemaker_array", "`read_records`, then one array of all", "older"),
        ],
        [Bar(OURS, "SageMaker SDK", 20.0)],
    )


def s3() -> Case:
    given = Input("tfrecord", 100 * KIB, 512 * MIB, served=True)
    return Case(
        "s3",
        "S3, one object of TFRecord of 100 KiB",
        f"from the tests' S3 server on this machine, over HTTP without TLS; {batches_of(given)}",
        given,
        [
            ours("objects.pipemill", "checks both CRCs of a record", decoder="tfrecord"),
            Line(
                "s3torchconnector",
                "objects.s3torchconnector",
                "its client; records by `struct`, no CRC is checked; a join makes a batch",
            ),
            Line("boto3", "objects.boto3", "one GET; records by `struct`, no CRC is checked; a join makes a batch"),
        ],
        [Bar(OURS, "s3torchconnector", 1.5)],
    )


def jpeg() -> Case:
    return Case(
        "jpeg",
        "JPEG",
        "four archives of images of 500 x 375 pixels, 81 KiB; each is decoded, resized to 224 pixels, and cut to "
        "`uint8[224, 224, 3]`. What the decoder is: [jpeg](../plugins/jpeg/README.md)",
        Input("jpegs", 0, 32 * MIB),
        [
            Line(OURS, "images.pipemill", "one worker; the start of a host is in it", options={"workers": 1}),
            Line(
                OURS_2,
                "images.pipemill",
                "two archives at a time; the start of a host is in it",
                options={"workers": 2},
            ),
            Line("Pillow", "images.pillow", "one thread"),
            Line("torchvision", "images.torchvision", "one thread"),
            Line("DataLoader with Pillow", "images.data_loader", "two workers; their start is in it"),
            Line(
                "DataLoader with torchvision", "images.data_loader_of_torchvision", "two workers; their start is in it"
            ),
            Line("SPDL with Pillow", "images.spdl", "two threads; their start is in it"),
        ],
        [
            Bar(OURS, "Pillow", 0.7, "cpu"),
            Bar(OURS_2, "DataLoader with Pillow", 1.0),
            Bar(OURS_2, "DataLoader with torchvision", 1.0),
        ],
        unit="images/s",
    )


def cases() -> list[Case]:
    return [
        tfrecord(100),
        tfrecord(KIB),
        tfrecord(100 * KIB),
        recordio(KIB),
        recordio(100 * KIB),
        webdataset(KIB),
        webdataset(100 * KIB),
        own_formats(KIB),
        own_formats(100 * KIB),
        numbers(),
        fields(),
        jsonl(),
        protobuf(),
        s3(),
        jpeg(),
    ]
