"""Random batches against a reference that decodes them with `struct`, record by record.

`test_no_numpy.py` runs this file again without numpy.
"""

from __future__ import annotations

import json
import math
import random
import struct
from typing import Any

import pytest
from fakehost import ABSENT, FakeHost, Peer, Rows, list_value

import pipemill
from pipemill.column import arrays
from pipemill.position import Position
from pipemill.protocol import POSITION_KEYS

#: Bytes of a number, and its letter in `struct`. The test converts bfloat16 itself.
SIZE = {
    "boolean": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2,
    "uint32": 4, "uint64": 8, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
}  # fmt: skip
LETTER = {
    "boolean": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B",
    "uint16": "H", "uint32": "I", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip
CATEGORIES = ["red", "", "grün", "🌾", "red"]
NUMPY = arrays.__name__.endswith("numpy_arrays")

#: Name, scalar, shape and other keys of each field.
Schema = list[tuple[str, str, list[int], dict[str, Any]]]


def pack(scalar: str, numbers: list[Any]) -> bytes:
    if scalar == "bfloat16":  # numbers of at most 8 bits, so that the lower half is zero
        return b"".join(struct.pack("<f", number)[2:] for number in numbers)
    return struct.pack(f"<{len(numbers)}{LETTER[scalar]}", *numbers)


def unpack(scalar: str, raw: bytes) -> list[Any]:
    count = len(raw) // SIZE[scalar]
    if scalar == "bfloat16":
        bits = struct.unpack(f"<{count}H", raw)
        return [struct.unpack("<f", struct.pack("<HH", 0, one))[0] for one in bits]
    return list(struct.unpack(f"<{count}{LETTER[scalar]}", raw))


def some_field(rng: random.Random, name: str) -> tuple[str, str, list[int], dict[str, Any]]:
    scalar = rng.choice(["bytes", "utf8", *SIZE])
    if scalar in ("bytes", "utf8"):
        return name, scalar, rng.choice([[], [], [0], [2]]), {}
    if scalar.startswith("uint") and rng.random() < 0.5:
        return name, scalar, [], {"categories": CATEGORIES}
    shapes = [[], [], [3], [2, 2], [0], [0, 2], [2, 0], [0, 0]]
    return name, scalar, rng.choice(shapes), {}


def some_schema(rng: random.Random) -> Schema:
    return [some_field(rng, f"f{i}") for i in range(rng.randint(1, 4))]


def some_value(rng: random.Random, scalar: str, shape: list[int], more: dict[str, Any]) -> bytes:
    if scalar in ("bytes", "utf8") and shape:
        return list_value(
            [some_value(rng, scalar, [], more) for _ in range(shape[0] or rng.randint(0, 5))]
        )
    if scalar == "bytes":
        return rng.randbytes(rng.randint(0, 9))
    if scalar == "utf8":
        return "".join(rng.choices("aé∀🌾", k=rng.randint(0, 5))).encode()
    if more:
        return pack(scalar, [rng.randrange(len(CATEGORIES))])
    longer = rng.randint(0, 3)
    count = math.prod(size or longer for size in shape)
    bits = 8 * SIZE[scalar]
    if scalar == "boolean":
        numbers = [rng.random() < 0.5 for _ in range(count)]
    elif scalar.startswith("uint"):
        numbers = [rng.randrange(2**bits) for _ in range(count)]
    elif scalar.startswith("int"):
        numbers = [rng.randrange(2**bits) - 2 ** (bits - 1) for _ in range(count)]
    else:
        numbers = [rng.randint(-255, 255) / 8 for _ in range(count)]
    return pack(scalar, numbers)


def some_batch(rng: random.Random, schema: Schema, absent: bool) -> Rows:
    rows = [
        tuple(
            None if absent and rng.random() < 0.2 else some_value(rng, *kind) for _, *kind in schema
        )
        for _ in range(rng.choice([0, 1, 2, 3, 17, 40]))
    ]
    is_mix = rng.random() < 0.3
    inputs = json.dumps([{"input": "ключ", "offset": 2**63, "ended": True}]).encode()
    return Rows(
        rows,
        identity=inputs if is_mix else rng.choice([b"", "etag:\"ключ\"".encode()]),
        is_mix=is_mix,
        gap=rng.choice([b"", b"", b"#", b"gapgap!!"]),
        object=rng.choice(["", "a", "s3://bucket/ключ"]),
        first_record=rng.randint(0, 2**40),
        dedicated=rng.random() < 0.2,
    )


def expected(raw: bytes | None, scalar: str, shape: list[int], more: dict[str, Any]) -> Any:
    """The reference: the value of one field of one record."""
    if raw is None:
        return None
    if scalar in ("bytes", "utf8"):
        values = elements(raw) if shape else [raw]
        values = [one.decode() for one in values] if scalar == "utf8" else values
        return values if shape else values[0]
    if not shape:
        number = unpack(scalar, raw)[0]
        return more["categories"][number] if more else number
    return in_array(raw, scalar, shape)


def elements(raw: bytes) -> list[bytes]:
    """The reference: the elements of a list."""
    count = struct.unpack_from("<I", raw)[0] // 4 - 1
    offsets = struct.unpack_from(f"<{count + 1}I", raw)
    return [raw[offsets[i] : offsets[i + 1]] for i in range(count)]


def in_array(raw: bytes, scalar: str, shape: list[int]) -> Any:
    """The reference: numbers as in an array. bfloat16 is its 16 bits there."""
    flat = unpack("uint16" if scalar == "bfloat16" else scalar, raw)
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


def same(got: Any, wanted: Any) -> None:
    """Whether the package's value, with everything in it, equals the reference's."""
    if isinstance(wanted, bytes):
        assert isinstance(got, memoryview) and got.readonly and bytes(got) == wanted
    elif isinstance(wanted, list):
        assert len(got) == len(wanted)
        for one, value in zip(got if isinstance(got, list) else got.tolist(), wanted):
            same(one, value)
    else:
        assert got == wanted


def check_records(batch: pipemill.Batch, sent: Rows, schema: Schema) -> None:
    assert len(batch) == len(sent.rows) == len(batch.records())
    for row, record in zip(sent.rows, batch):
        wanted = [expected(raw, *kind) for raw, (_, *kind) in zip(row, schema)]
        if len(schema) == 1:
            same(record, wanted[0])
            continue
        assert len(record) == len(schema) and record.keys() == [name for name, *_ in schema]
        for position, ((name, *_), value) in enumerate(zip(schema, wanted)):
            for got in (record[name], getattr(record, name), record[position], record[:][position]):
                same(got, value)
        for got, value in zip(record, wanted):
            same(got, value)
        assert dict(record).keys() == set(record.keys())


def check_columns(batch: pipemill.Batch, sent: Rows, schema: Schema) -> None:
    for position, (name, scalar, shape, more) in enumerate(schema):
        raws = [row[position] for row in sent.rows]
        offsets, lengths = list(batch.offsets(name)), list(batch.lengths(name))
        assert lengths == [len(raw or b"") for raw in raws]
        for raw, at, size in zip(raws, offsets, lengths):
            assert at == ABSENT if raw is None else batch.payload[at : at + size] == raw
        numbers = scalar in SIZE and not more
        if numbers and 0 not in shape:
            if None in raws:
                with pytest.raises(pipemill.AbsentError, match=f"absent in {raws.count(None)} of"):
                    batch[name]
            filler = pack(scalar, [1] * math.prod(shape))
            for got in (batch.column(name, absent=1), batch.dense(name, absent=1)):
                assert not isinstance(got, list)
                same(got, [in_array(filler if raw is None else raw, scalar, shape) for raw in raws])
            continue
        got = batch[name]
        assert isinstance(got, list)
        same(got, [expected(raw, scalar, shape, more) for raw in raws])
        blank = object()
        listed = batch.column(name, absent=blank)
        assert [one is blank for one in listed] == [raw is None for raw in raws]


def check_dense(batch: pipemill.Batch, sent: Rows, schema: Schema) -> None:
    for position, (name, scalar, shape, _) in enumerate(schema):
        raws = [row[position] for row in sent.rows]
        sizes = {-1 if raw is None else len(raw) for raw in raws}
        is_list = scalar not in SIZE and shape
        if len(sizes) > 1 or -1 in sizes or is_list:
            with pytest.raises(ValueError):
                batch.dense(name)
            continue
        array = batch.dense(name)
        data = b"".join(raw or b"" for raw in raws)
        if scalar == "float16" and not NUMPY:
            data = struct.pack(f"{len(data) // 2}f", *unpack(scalar, data))
        assert (array.tobytes() if raws else b"") == data
        assert len(array) == len(raws) or not any(raws)


@pytest.mark.parametrize("seed", range(90))
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
            assert batch.valid == len(sent.rows) - sent.padding
            inputs = json.loads(sent.identity) if sent.is_mix else []
            identity = "" if sent.is_mix else sent.identity.decode()
            place = (sent.object, identity, 7, 11, 2, sent.first_record, inputs)
            assert batch.position == (batch.epoch, batch.number, 5, *place)
            check_records(batch, sent, schema)
            check_columns(batch, sent, schema)
            check_dense(batch, sent, schema)
            count += 1
        assert count == len(batches) and list(stream) == []


def test_a_state_has_all_of_a_position() -> None:
    assert tuple(POSITION_KEYS) == Position._fields
