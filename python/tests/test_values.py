"""Random batches against a reference that decodes them with `struct`, record by record.

`test_no_numpy.py` runs this file again without numpy.
"""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import pytest
from fakehost import ABSENT, FakeHost, Peer, Rows

import pipemill
from pipemill.column import arrays

SIZE = {"boolean": 1, "int32": 4, "int64": 8, "float32": 4, "float64": 8}
LETTER = {"boolean": "?", "int32": "i", "int64": "q", "float32": "f", "float64": "d"}
NUMPY = arrays.__name__.endswith("numpy_arrays")

Schema = list[tuple[str, str, list[int]]]


def some_schema(rng: random.Random) -> Schema:
    shapes = [[], [], [3], [2, 2], [0], [0, 2], [2, 0], [0, 0]]
    return [
        (f"f{i}", scalar, rng.choice(shapes) if scalar in SIZE else [])
        for i in range(rng.randint(1, 4))
        for scalar in [rng.choice(["bytes", "utf8", *SIZE])]
    ]


def some_value(rng: random.Random, scalar: str, shape: list[int]) -> bytes:
    if scalar == "bytes":
        return rng.randbytes(rng.randint(0, 9))
    if scalar == "utf8":
        return "".join(rng.choices("aé∀🌾", k=rng.randint(0, 5))).encode()
    longer = rng.randint(0, 3)
    count = math.prod(size or longer for size in shape)
    make = {
        "boolean": lambda: rng.random() < 0.5,
        "int32": lambda: rng.randint(-(2**31), 2**31 - 1),
        "int64": lambda: rng.randint(-(2**63), 2**63 - 1),
    }.get(scalar, lambda: rng.randint(-1000, 1000) / 8)
    return struct.pack(f"<{count}{LETTER[scalar]}", *(make() for _ in range(count)))


def some_batch(rng: random.Random, schema: Schema, absent: bool) -> Rows:
    rows = [
        tuple(
            None if absent and rng.random() < 0.2 else some_value(rng, scalar, shape)
            for _, scalar, shape in schema
        )
        for _ in range(rng.choice([0, 1, 2, 3, 17, 40]))
    ]
    return Rows(
        rows,
        gap=rng.choice([b"", b"", b"#", b"gapgap!!"]),
        object=rng.choice(["", "a", "s3://bucket/ключ"]),
        first_record=rng.randint(0, 2**40),
        dedicated=rng.random() < 0.2,
    )


def expected(raw: bytes | None, scalar: str, shape: list[int]) -> Any:
    """The reference: the value of one field of one record."""
    if raw is None:
        return None
    if scalar == "bytes":
        return raw
    if scalar == "utf8":
        return raw.decode()
    flat = list(struct.unpack(f"<{len(raw) // SIZE[scalar]}{LETTER[scalar]}", raw))
    if not shape:
        return flat[0]
    if shape.count(0) > 1:
        return flat
    known = math.prod(size or 1 for size in shape)
    return nested(flat, [size or len(flat) // known for size in shape])


def nested(flat: list[Any], shape: list[int]) -> Any:
    if 0 in shape and not NUMPY:
        return []
    if not shape:
        return flat[0]
    inner = len(flat) // shape[0] if shape[0] else 0
    return [nested(flat[i * inner : (i + 1) * inner], shape[1:]) for i in range(shape[0])]


def plain(value: Any) -> Any:
    """The package's value as lists and plain values."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, memoryview) and value.format == "B":
        assert value.readonly
        return bytes(value) if len(value) or NUMPY else b""
    return value.tolist() if hasattr(value, "tolist") else value


def same(got: Any, wanted: Any) -> None:
    # Without numpy, an array without elements is an empty memoryview of bytes.
    assert plain(got) == wanted or (not NUMPY and plain(got) == b"" and wanted == [])


def check_records(batch: pipemill.Batch, sent: Rows, schema: Schema) -> None:
    assert len(batch) == len(sent.rows) == len(batch.records())
    for row, record in zip(sent.rows, batch):
        wanted = [expected(raw, s, d) for raw, (_, s, d) in zip(row, schema)]
        if len(schema) == 1:
            same(record, wanted[0])
            continue
        assert len(record) == len(schema) and record.keys() == [name for name, _, _ in schema]
        for position, ((name, _, _), value) in enumerate(zip(schema, wanted)):
            for got in (record[name], getattr(record, name), record[position], record[:][position]):
                same(got, value)
        for got, value in zip(record, wanted):
            same(got, value)
        assert dict(record).keys() == set(record.keys())


def check_columns(batch: pipemill.Batch, sent: Rows, schema: Schema) -> None:
    for position, (name, scalar, shape) in enumerate(schema):
        raws = [row[position] for row in sent.rows]
        wanted = [expected(raw, scalar, shape) for raw in raws]
        offsets, lengths = list(batch.offsets(name)), list(batch.lengths(name))
        assert lengths == [len(raw or b"") for raw in raws]
        for raw, at, size in zip(raws, offsets, lengths):
            assert at == ABSENT if raw is None else batch.payload[at : at + size] == raw
        fixed = scalar in SIZE and 0 not in shape
        if fixed and None in raws:
            with pytest.raises(pipemill.AbsentError, match=f"absent in {raws.count(None)} of"):
                batch[name]
            array = batch.column(name, absent=1)
            filler = expected(
                struct.pack("<" + LETTER[scalar], 1) * math.prod(shape), scalar, shape
            )
            same(array, [filler if value is None else value for value in wanted])
        else:
            got = batch[name]
            even = scalar in SIZE and len(set(raws)) > 0 and len(set(lengths)) == 1 and lengths[0]
            array = fixed or (even and None not in raws)
            assert isinstance(got, list) is not bool(array)
            for one, value in zip(plain(got) if array else got, wanted):
                same(one, value)
            assert len(got) == len(wanted)
        if not fixed and None in raws:
            blank = object()
            listed = batch.column(name, absent=blank)
            assert [one is blank for one in listed] == [raw is None for raw in raws]


def check_dense(batch: pipemill.Batch, sent: Rows, schema: Schema) -> None:
    for position, (name, _, _) in enumerate(schema):
        raws = [row[position] for row in sent.rows]
        sizes = {-1 if raw is None else len(raw) for raw in raws}
        if len(sizes) > 1 or -1 in sizes:
            with pytest.raises(ValueError):
                batch.dense(name)
            continue
        array = batch.dense(name)
        assert (array.tobytes() if raws else b"") == b"".join(raw or b"" for raw in raws)
        assert len(array) == len(raws) or not any(raws)


@pytest.mark.parametrize("seed", range(60))
def test_a_random_batch_is_read_as_it_was_sent(path: str, seed: int) -> None:
    rng = random.Random(seed)
    schema = some_schema(rng)
    batches = [some_batch(rng, schema, absent=seed % 2 == 1) for _ in range(8)]

    def script(peer: Peer) -> None:
        peer.welcome(schema)
        peer.epoch(0, batches)
        peer.stream_end()
        peer.linger()

    with FakeHost(path, script), pipemill.connect("train", path) as stream:
        count = 0
        for batch, sent in zip(stream, batches):
            assert (batch.object, batch.first_record) == (sent.object, sent.first_record)
            assert batch.object_offset == 17
            check_records(batch, sent, schema)
            check_columns(batch, sent, schema)
            check_dense(batch, sent, schema)
            count += 1
        assert count == len(batches) and list(stream) == []
