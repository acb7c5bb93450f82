"""Other readers of TFRecords in S3, each used in its fastest way.

``s3_peers.py READER ENDPOINT BUCKET KEY``
"""

import struct
import sys
from typing import Iterable

import numpy  # noqa: F401 - every training process imports it

HEADER = struct.Struct("<QI")
CHUNK = 8 << 20


def s3torchconnector(endpoint: str, bucket: str, key: str) -> "Iterable[bytes]":
    """The client under its datasets, without torch."""
    from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client

    client = MountpointS3Client("us-east-1", endpoint=endpoint, unsigned=True, force_path_style=True)
    return client.get_object(bucket, key)


def boto3(endpoint: str, bucket: str, key: str) -> "Iterable[bytes]":
    from boto3 import client
    from botocore import UNSIGNED
    from botocore.config import Config

    config = Config(signature_version=UNSIGNED, response_checksum_validation="when_required")
    s3 = client("s3", endpoint_url=endpoint, region_name="us-east-1", config=config)
    return s3.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(CHUNK)


def records(chunks: "Iterable[bytes]") -> "tuple[int, int]":
    """Counts records and their bytes. A record that lies in two chunks is joined."""
    count = size = 0
    rest = b""
    for chunk in chunks:
        view = memoryview(rest + chunk if rest else chunk)
        at = 0
        while at + 12 <= len(view):
            length, _ = HEADER.unpack_from(view, at)
            if at + length + 16 > len(view):
                break
            record = view[at + 12 : at + 12 + length]
            count += 1
            size += len(record)
            at += length + 16
        rest = bytes(view[at:])
    assert not rest
    return count, size


reader, *where = sys.argv[1:]
print(*records({"s3torchconnector": s3torchconnector, "boto3": boto3}[reader](*where)))
