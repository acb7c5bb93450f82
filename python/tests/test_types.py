"""Each type of field: single values, shapes, open shapes, categories and lists; and which values
are refused.

`test_no_numpy.py` runs this file again without numpy.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
from fakehost import FakeHost, Peer, Rows, list_value

import pipemill
from pipemill.column import arrays

NUMPY = arrays.__name__.endswith("numpy_arrays")

#: The bytes of the smallest number, of 1 and of the largest number of each type; and the numbers.
NUMBERS: dict[str, tuple[list[bytes], list[Any]]] = {
    "boolean": ([b"\0", b"\1", b"\1"], [False, True, True]),
    "int8": ([b"\x80", b"\1", b"\x7f"], [-128, 1, 127]),
    "int16": ([b"\0\x80", b"\1\0", b"\xff\x7f"], [-32768, 1, 32767]),
    "int32": (
        [b"\0\0\0\x80", b"\1\0\0\0", b"\xff\xff\xff\x7f"],
        [-2147483648, 1, 2147483647],
    ),
    "int64": (
        [b"\0\0\0\0\0\0\0\x80", b"\1\0\0\0\0\0\0\0", b"\xff\xff\xff\xff\xff\xff\xff\x7f"],
        [-9223372036854775808, 1, 9223372036854775807],
    ),
    "uint8": ([b"\0", b"\1", b"\xff"], [0, 1, 255]),
    "uint16": ([b"\0\0", b"\1\0", b"\xff\xff"], [0, 1, 65535]),
    "uint32": ([b"\0\0\0\0", b"\1\0\0\0", b"\xff\xff\xff\xff"], [0, 1, 4294967295]),
    "uint64": (
        [b"\0\0\0\0\0\0\0\0", b"\1\0\0\0\0\0\0\0", b"\xff\xff\xff\xff\xff\xff\xff\xff"],
        [0, 1, 18446744073709551615],
    ),
    "float16": ([b"\xff\xfb", b"\0\x3c", b"\xff\x7b"], [-65504.0, 1.0, 65504.0]),
    "bfloat16": (
        [b"\x7f\xff", b"\x80\x3f", b"\x7f\x7f"],
        [-3.3895313892515355e38, 1.0, 3.3895313892515355e38],
    ),
    "float32": (
        [b"\xff\xff\x7f\xff", b"\0\0\x80\x3f", b"\xff\xff\x7f\x7f"],
        [-3.4028234663852886e38, 1.0, 3.4028234663852886e38],
    ),
    "float64": (
        [
            b"\xff\xff\xff\xff\xff\xff\xef\xff",
            b"\0\0\0\0\0\0\xf0\x3f",
            b"\xff\xff\xff\xff\xff\xff\xef\x7f",
        ],
        [-1.7976931348623157e308, 1.0, 1.7976931348623157e308],
    ),
}
DTYPES = {"boolean": "bool", "bfloat16": "uint16"}
LETTERS = {
    "boolean": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B",
    "uint16": "H", "uint32": "I", "uint64": "Q", "float16": "f", "bfloat16": "H", "float32": "f",
    "float64": "d",
}  # fmt: skip
UNSIGNED = {"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q"}


def serve(path: str, fields: list, *batches: Rows) -> FakeHost:
    def script(peer: Peer) -> None:
        peer.welcome(fields)
        peer.epoch(0, list(batches))
        peer.stream_end()
        peer.linger()

    return FakeHost(path, script)


def in_array(scalar: str, numbers: list[Any]) -> list[Any]:
    """The numbers as they are in an array: without ml_dtypes, bfloat16 has the 16 bits."""
    if scalar != "bfloat16":
        return numbers
    return [struct.unpack("<HH", struct.pack("<f", number))[1] for number in numbers]


def check_array(array: Any, scalar: str, wanted: list[Any]) -> None:
    if NUMPY:
        assert array.dtype.name == DTYPES.get(scalar, scalar) and not array.flags.writeable
    else:
        assert array.format == LETTERS[scalar] and array.readonly
    assert array.tolist() == wanted


# --- numbers


@pytest.mark.parametrize("gap", [b"", b"!", b"gap"])
@pytest.mark.parametrize("scalar", NUMBERS)
def test_single_numbers(path: str, scalar: str, gap: bytes) -> None:
    raw, numbers = NUMBERS[scalar]
    # The third row of the second batch is not evenly spaced.
    uneven = [(raw[0], b""), (raw[1], b""), (raw[2], b"...."), (raw[1], b"")]
    batches = [
        Rows([(one, b"") for one in raw], gap=gap),
        Rows(uneven, gap=gap),
        Rows([], gap=gap),
    ]
    wanted = [numbers, [*numbers, numbers[1]], []]
    with serve(path, [("x", scalar, []), ("y", "bytes", [])], *batches):
        with pipemill.connect("train", path) as stream:
            for batch, expected in zip(stream, wanted):
                records = [record.x for record in batch]
                assert records == expected and list(map(type, records)) == list(map(type, expected))
                if expected or NUMPY:
                    check_array(batch["x"], scalar, in_array(scalar, expected))
                assert batch["x"].tolist() == batch.dense("x").tolist()
            assert list(stream) == []


@pytest.mark.parametrize("scalar", NUMBERS)
def test_numbers_of_a_shape(path: str, scalar: str) -> None:
    raw, numbers = NUMBERS[scalar]
    raw, numbers = [*raw, *raw], [*numbers, *numbers]
    cells = in_array(scalar, numbers)
    rows = [(b"".join(raw),), (b"".join(raw[::-1]),)]
    with serve(path, [("x", scalar, [3, 2])], Rows(rows), Rows(rows, gap=b"!")):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                one = [cells[0:2], cells[2:4], cells[4:6]]
                other = [[cells[5], cells[4]], [cells[3], cells[2]], [cells[1], cells[0]]]
                check_array(batch["x"], scalar, [one, other])
                for record, wanted in zip(batch, [one, other]):
                    check_array(record, scalar, wanted)
                x = batch["x"]
                assert x.shape == (2, 3, 2)
                del x, record


@pytest.mark.parametrize("scalar", NUMBERS)
def test_numbers_of_an_open_shape(path: str, scalar: str) -> None:
    raw, numbers = NUMBERS[scalar]
    cells = in_array(scalar, numbers)
    equal = Rows([(raw[0] + raw[1],), (raw[2] + raw[1],)])
    uneven = Rows([(b"".join(raw),), (raw[1],), (b"",)])
    with serve(path, [("x", scalar, [0])], equal, uneven):
        with pipemill.connect("train", path) as stream:
            batch = next(stream)
            listed = batch["x"]
            # The kind follows from the type, and not from the lengths in a batch.
            assert isinstance(listed, list) and len(listed) == 2
            check_array(listed[0], scalar, cells[:2])
            check_array(listed[1], scalar, [cells[2], cells[1]])
            check_array(batch.dense("x"), scalar, [cells[:2], [cells[2], cells[1]]])
            batch = next(stream)
            listed = batch["x"]
            assert isinstance(listed, list) and len(listed) == 3
            check_array(listed[0], scalar, cells)
            check_array(listed[1], scalar, cells[1:2])
            assert len(listed[2]) == 0 and [len(one) for one in batch] == [3, 1, 0]
            with pytest.raises(ValueError, match="not equally long in all records"):
                batch.dense("x")
            del listed
            assert list(stream) == []


@pytest.mark.parametrize("scalar", NUMBERS)
def test_numbers_that_some_records_do_not_have(path: str, scalar: str) -> None:
    raw, numbers = NUMBERS[scalar]
    cells = in_array(scalar, numbers)
    rows = Rows([(raw[0],), (None,), (raw[2],)])
    with serve(path, [("x", scalar, [], {"nullable": True})], rows):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                assert list(batch) == [numbers[0], None, numbers[2]]
                with pytest.raises(pipemill.AbsentError, match="absent in 1 of 3 records"):
                    batch["x"]
                check_array(batch.column("x", absent=1), scalar, [cells[0], cells[1], cells[2]])


def test_absent_is_taken_as_it_is_where_the_field_is_not_nullable(path: str) -> None:
    """The host has checked that; the reader shows the values as they are."""
    with serve(path, [("x", "uint8", [], {"nullable": False})], Rows([(b"\1",), (None,)])):
        with pipemill.connect("train", path) as stream:
            assert [list(batch) for batch in stream] == [[1, None]]


@pytest.mark.parametrize(
    ("number", "bits"),
    [
        (0.0, 0x0000),
        (-0.0, 0x8000),
        (1.5, 0x3FC0),
        (float("inf"), 0x7F80),
        (float("-inf"), 0xFF80),
        (float("nan"), 0x7FC0),
        (1 + 1 / 256, 0x3F80),  # a tie, to the even one below
        (1 + 3 / 256, 0x3F82),  # a tie, to the even one above
        (1 + 1 / 256 + 1 / 2048, 0x3F81),
        (7, 0x40E0),
    ],
)
def test_a_number_in_place_of_an_absent_bfloat16_is_rounded(
    path: str, number: float, bits: int
) -> None:
    with serve(path, [("x", "bfloat16", [2])], Rows([(None,), (b"\x80\x3f\0\0",)])):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                x = batch.column("x", absent=number)
                check_array(x, "bfloat16", [[bits, bits], [0x3F80, 0]])


@pytest.mark.parametrize(
    "scalar, value",
    [
        ("int64", 0.5),
        ("int64", float("nan")),
        ("int64", 1 << 63),
        ("int8", -129),
        ("uint8", -1),
        ("uint8", 256),
        ("boolean", 2),
        ("float16", 65505.0),
        ("bfloat16", 3.4e38),  # nearer to infinity than to the largest bfloat16
        ("float32", 1e39),
        ("float64", None),
        ("float64", "0"),
        ("int32", "0"),
    ],
)
def test_a_value_that_the_type_can_not_hold_is_refused(
    path: str, scalar: str, value: object
) -> None:
    size = struct.calcsize("<" + LETTERS[scalar]) if scalar[-2:] != "16" else 2
    with serve(path, [("x", scalar, [])], Rows([(None,), (bytes(size),)])):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                with pytest.raises((ValueError, TypeError), match=f"'x', which is {scalar}: "):
                    batch.column("x", absent=value)
                # No value is needed if no record lacks the field.
                assert list(batch)[0] is None


# --- categories


@pytest.mark.parametrize("gap", [b"", b"!"])
@pytest.mark.parametrize("scalar", UNSIGNED)
def test_categories_are_text(path: str, scalar: str, gap: bytes) -> None:
    names = ["red", "", "grün", "red"]
    codes = [3, 0, 2, 2, 1]
    rows = [(struct.pack("<" + UNSIGNED[scalar], code), b"x") for code in codes]
    fields = [("color", scalar, [], {"categories": names}), ("y", "bytes", [])]
    wanted = [names[code] for code in codes]
    uneven = [(code, b"." * i) for i, (code, _) in enumerate(rows)]
    with serve(path, fields, Rows(rows, gap=gap), Rows(uneven), Rows([])):
        with pipemill.connect("train", path) as stream:
            for batch, count in zip(stream, [5, 5, 0]):
                assert batch["color"] == wanted[:count]
                batch["color"].append("the caller's list is the caller's")
                assert batch["color"] == batch.column("color", absent="?") == wanted[:count]
                assert [record.color for record in batch] == wanted[:count]
                if count:
                    check_array(batch.dense("color"), scalar, codes)
                assert len(batch.dense("color")) == len(batch.offsets("color")) == count
            assert list(stream) == []


def test_categories_that_some_records_do_not_have(path: str) -> None:
    fields = [("color", "uint8", [], {"categories": ["red", "blue"], "nullable": True})]
    with serve(path, fields, Rows([(b"\1",), (None,), (b"\0",)])):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                assert batch["color"] == list(batch) == ["blue", None, "red"]
                assert batch.column("color", absent="?") == ["blue", "?", "red"]
                with pytest.raises(pipemill.AbsentError, match="row 1 .* batch\\.dense\\('color'"):
                    batch.dense("color")
                check_array(batch.dense("color", absent="red"), "uint8", [1, 0, 0])
                check_array(batch.dense("color", absent=255), "uint8", [1, 255, 0])
                with pytest.raises(ValueError, match="expected one of its categories"):
                    batch.dense("color", absent="green")


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("scalar", UNSIGNED)
def test_a_code_without_a_category_is_refused(path: str, scalar: str, absent: bool) -> None:
    pack = struct.Struct("<" + UNSIGNED[scalar]).pack
    largest = 256 ** struct.calcsize("<" + UNSIGNED[scalar]) - 1
    for code in (2, largest):
        with serve(
            path + str(code),
            [("color", scalar, [], {"categories": ["red", "blue"]})],
            Rows([(pack(1),), (None if absent else pack(0),), (pack(code),), (pack(code),)]),
        ):
            with pipemill.connect("train", path + str(code)) as stream:
                for batch in stream:
                    for use in (
                        lambda batch: batch["color"],
                        lambda batch: batch.dense("color"),
                        list,
                    ):
                        with pytest.raises(pipemill.ProtocolError) as caught:
                            use(batch)
                        assert (
                            f"field 'color' of row 2 has the code {code}, but the codes of its 2 "
                            "categories are 0 to 1"
                        ) in str(caught.value)
                        del caught


# --- lists

LISTS: list[list[str]] = [
    ["a", "bc", ""],
    [],
    [""],
    ["ключ", "", "🌾", "ascii"],
    [str(i) * (i % 7) for i in range(1000)],
    ["x" * 5000, "é"],
]


@pytest.mark.parametrize("gap", [b"", b"!"])
def test_lists_of_text_and_bytes(path: str, gap: bytes) -> None:
    raw = [list_value([text.encode() for text in texts]) for texts in LISTS]
    fields = [("t", "utf8", [0]), ("b", "bytes", [0])]
    with serve(path, fields, Rows([(one, one) for one in raw], gap=gap), Rows([])):
        with pipemill.connect("train", path) as stream:
            batch = next(stream)
            assert batch["t"] == LISTS and [record.t for record in batch] == LISTS
            elements = [[text.encode() for text in texts] for texts in LISTS]
            for got in (batch["b"], [record["b"] for record in batch]):
                assert [[bytes(one) for one in value] for value in got] == elements
                assert all(type(one) is memoryview for value in got for one in value)
                assert all(one.readonly for value in got for one in value)
            assert all(one.obj is batch.payload.obj for value in got for one in value)
            del got
            batch["t"][0].append("the caller's list is the caller's")
            assert batch["t"] == LISTS
            batch = next(stream)
            assert batch["t"] == batch["b"] == []
            assert list(stream) == []


def test_lists_of_a_fixed_number_of_elements(path: str) -> None:
    rows = [(list_value([b"a", b"bc"]),), (list_value([b"", b"d"]),)]
    with serve(path, [("t", "utf8", [2])], Rows(rows)), pipemill.connect("train", path) as stream:
        assert [batch["t"] for batch in stream] == [[["a", "bc"], ["", "d"]]]


@pytest.mark.parametrize("scalar", ["utf8", "bytes"])
def test_lists_that_some_records_do_not_have(path: str, scalar: str) -> None:
    rows = Rows([(list_value([]),), (None,), (list_value([]),)])
    with serve(path, [("t", scalar, [0])], rows), pipemill.connect("train", path) as stream:
        for batch in stream:
            assert batch["t"] == list(batch) == [[], None, []]
            assert batch.column("t", absent=()) == [[], (), []]


@pytest.mark.parametrize("scalar", ["utf8", "bytes"])
def test_lists_have_no_array(path: str, scalar: str) -> None:
    with serve(path, [("t", scalar, [0])], Rows([(list_value([]),)])):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                with pytest.raises(ValueError, match=f"'t' is a list of {scalar} .* batch.'t'."):
                    batch.dense("t")


def u32s(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


@pytest.mark.parametrize(
    ("shape", "raw", "said"),
    [
        (0, b"", "it has 0 bytes, and an empty list has 4"),
        (0, b"\4\0\0", "it has 3 bytes"),
        (0, u32s(0), "its first offset is 0, not a multiple of 4 from 4 to 4"),
        (0, u32s(8), "its first offset is 8, not a multiple of 4 from 4 to 4"),
        (0, u32s(6, 8), "its first offset is 6"),
        (0, u32s(0xFFFFFFFC), "its first offset is 4294967292"),
        (0, u32s(0xFFFFFFFF), "its first offset is 4294967295"),
        (0, u32s(4) + b"a", "its last offset is 4, not its length, 5"),
        (0, u32s(8, 9), "its last offset is 9, not its length, 8"),
        (0, u32s(8, 0xFFFFFFFF) + b"a", "its last offset is 4294967295, not its length, 9"),
        (0, u32s(16, 18, 17, 18) + b"ab", "its offset 2 is 17, and that before it 18"),
        (0, u32s(16, 15, 16, 18) + b"ab", "its offset 1 is 15, and that before it 16"),
        (0, u32s(16, 99, 17, 18) + b"ab", "its offset 2 is 17, and that before it 99"),
        (0, u32s(12, 0xFFFFFFFF, 12), "its offset 2 is 12, and that before it 4294967295"),
        (2, list_value([b"a"]), "it has 1 elements, not 2"),
        (2, list_value([b"a"] * 3), "it has 3 elements, not 2"),
        (1, list_value([]), "it has 0 elements, not 1"),
    ],
)
@pytest.mark.parametrize("scalar", ["utf8", "bytes"])
def test_a_list_that_is_not_sound_is_refused(
    path: str, scalar: str, shape: int, raw: bytes, said: str
) -> None:
    good = list_value([b"ok"] * shape)
    rows = [(good, b""), (None, b""), (raw, b"follows after the list")]
    with serve(path, [("tags", scalar, [shape]), ("y", "bytes", [])], Rows(rows)):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                uses = (
                    lambda batch: batch["tags"],
                    lambda batch: [record["tags"] for record in batch],
                    lambda batch: batch.records()[2].tags,
                )
                for use in uses:
                    with pytest.raises(pipemill.ProtocolError) as caught:
                        use(batch)
                    assert f"field 'tags' of row 2 is not a list: {said}" in str(caught.value)
                    del caught
                assert len(batch.records()[0].tags) == shape, "the other rows can be read"


# --- text


def texts_of(count: int) -> list[str]:
    """Texts of many lengths. One in 300 is not ASCII."""
    return [("é" if i % 300 == 299 else "e") * (i * 7919 % 23) for i in range(count)]


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("gap", [b"", b"\xff\0", b"." * 1500])
def test_texts_are_the_same_in_lists_and_records(path: str, gap: bytes, absent: bool) -> None:
    texts: list[str | None] = [*texts_of(1000), "", "🌾", "x" * 100_000, ""]
    if absent:
        texts[::11] = [None] * len(texts[::11])
        texts[:600] = [None] * 600
    rows = [(None if text is None else text.encode(),) for text in texts]
    with serve(path, [("t", "utf8", [])], Rows(rows, gap=gap, dedicated=True)):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                assert list(batch) == texts
                assert batch["t"] == texts, "read for the first time"
                assert batch["t"] == list(batch) == texts, "read again"
                assert batch._column(0).value(700) == texts[700]
                wanted = ["?" if text is None else text for text in texts]
                assert batch.column("t", absent="?") == wanted
                assert batch["t"] == texts


def test_a_changed_list_of_texts_does_not_change_the_next(path: str) -> None:
    with serve(path, [("t", "utf8", [])], Rows([(b"a",), (None,)])):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                for _ in range(3):
                    listed = batch["t"]
                    assert listed == list(batch) == ["a", None]
                    listed[0] = "changed"
                    listed.clear()


@pytest.mark.parametrize("valid", [[], [b"a"] * 300, ["é".encode()] * 300, [b"a" * 2000] * 3])
@pytest.mark.parametrize("raw", [b"ok \xff", b"\xc3", b"\xed\xa0\x80"])
def test_text_that_is_not_utf8_raises_the_same_error_each_time(
    path: str, valid: list[bytes], raw: bytes
) -> None:
    """A text that ends within a character does not continue in the next."""
    rows = [(one,) for one in [*valid, raw, b"\xa9", b"last"]]
    with serve(path, [("t", "utf8", [])], Rows(rows, dedicated=True)):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                with pytest.raises(UnicodeDecodeError) as wanted:
                    raw.decode()
                for use in (lambda batch: batch["t"], lambda batch: batch["t"], list):
                    with pytest.raises(UnicodeDecodeError) as caught:
                        use(batch)
                    assert caught.value.args == wanted.value.args
                    assert caught.value.object == raw
                    del caught


def test_an_element_that_is_not_utf8(path: str) -> None:
    rows = [(list_value([b"a", b"\xc3", b"\xa9"]),)]
    with serve(path, [("t", "utf8", [0])], Rows(rows)), pipemill.connect("train", path) as stream:
        for batch in stream:
            with pytest.raises(UnicodeDecodeError) as caught:
                batch["t"]
            assert caught.value.object == b"\xc3"
            del caught
