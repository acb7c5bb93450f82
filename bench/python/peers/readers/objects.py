"""Records of TFRecord objects in S3, as batches of numpy. Only pipemill checks the records' checksums."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from ..task import Task
from .records import Items, joined, touched

HEADER = struct.Struct("<QI")
CHUNK = 8 << 20


def place(address: str) -> tuple[str, str]:
    """Bucket and key of ``s3://bucket/key``."""
    bucket, _, key = address.removeprefix("s3://").partition("/")
    return bucket, key


def pipemill(task: Task) -> Items:
    import pipemill

    where = {key: task.options[key] for key in ("endpoint", "region", "anonymous")}
    kept = {key: value for key, value in task.options.items() if key not in where}
    source = {"s3_object": task.files[0], **where}
    with pipemill.open(source, batch=task.rows, epochs=None, **kept) as stream:
        for batch in stream:
            yield touched(batch.dense("data"))


def s3torchconnector(task: Task) -> Items:
    """The client under its datasets, without torch."""
    from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client

    options = task.options
    client = MountpointS3Client(options["region"], endpoint=options["endpoint"], unsigned=True, force_path_style=True)
    while True:
        yield from joined(records(client.get_object(*place(task.files[0]))), task)


def boto3(task: Task) -> Items:
    from boto3 import client
    from botocore import UNSIGNED
    from botocore.config import Config

    config = Config(signature_version=UNSIGNED, response_checksum_validation="when_required")
    options = task.options
    s3 = client("s3", endpoint_url=options["endpoint"], region_name=options["region"], config=config)
    bucket, key = place(task.files[0])
    while True:
        yield from joined(records(s3.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(CHUNK)), task)


def records(chunks: Iterable[Any]) -> Iterator[memoryview]:
    """Records of TFRecord. A record in two chunks is joined."""
    rest = b""
    for chunk in chunks:
        view = memoryview(rest + chunk if rest else chunk)
        at = 0
        while at + 12 <= len(view):
            length, _ = HEADER.unpack_from(view, at)
            if at + length + 16 > len(view):
                break
            yield view[at + 12 : at + 12 + length]
            at += length + 16
        rest = bytes(view[at:])
    assert not rest
