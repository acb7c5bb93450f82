"""The schema of a field, and the facts about an object; and which of these are refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from fakehost import SCHEMA, FakeHost, Peer, Rows

import pipemill

UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]


def serve(path: str, body: dict[str, Any], batches: list[Rows]) -> FakeHost:
    """A host whose SCHEMA has this body, and which sends these batches in one epoch."""

    def script(peer: Peer) -> None:
        peer.schema = lambda fields: None  # type: ignore[method-assign]
        peer.welcome()
        peer.k = len(body["fields"])
        with contextlib.suppress(ConnectionError):  # a reader that refuses the schema hangs up
            peer.say(SCHEMA, **body)
            peer.epoch(0, batches)
            peer.stream_end()
            peer.linger()

    return FakeHost(path, script)


def test_a_field_has_what_the_schema_says(path: str) -> None:
    fields = [
        {"name": "a", "scalar": "utf8", "shape": [0]},
        {
            "name": "b",
            "scalar": "uint16",
            "shape": [],
            "nullable": True,
            "logical": "tokens",
            "categories": ["no", "yes", "no"],
            "metadata": {"unit": "m/s", "pipemill.x": "", "a": "é"},
            "a key of a later version": None,
        },
    ]
    with serve(path, {"fields": fields}, []), pipemill.connect("train", path) as stream:
        a, b = stream.fields
        assert list(stream) == []
    assert a == pipemill.Field("a", "utf8", (0,))
    assert (a.nullable, a.logical, a.categories, a.metadata) == (False, "", (), ())
    assert (b.name, b.scalar, b.shape) == ("b", "uint16", ())
    assert b.nullable is True and b.logical == "tokens"
    assert b.categories == ("no", "yes", "no")
    assert dict(b.metadata) == {"unit": "m/s", "pipemill.x": "", "a": "é"}


def test_fields_are_compared_and_hashed_by_all_that_they_have(path: str) -> None:
    kind = {"scalar": "uint8", "shape": [], "categories": ["x"]}
    one = {"name": "x", **kind, "metadata": {"a": "1", "b": "2"}}
    two = {"name": "y", **kind, "metadata": {"b": "2", "a": "1"}}
    with serve(path, {"fields": [one, two]}, []), pipemill.connect("train", path) as stream:
        x, y = stream.fields
        list(stream)
    assert x != y and x == y._replace(name="x"), "the order of the facts does not count"
    assert len({x, y, y._replace(name="x")}) == 2
    assert x != x._replace(metadata=()) and x != x._replace(nullable=True)


def field(**keys: Any) -> dict[str, Any]:
    return {"name": "x", "scalar": "uint8", "shape": [], **keys}


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (None, "a field without a name: None"),
        ([], "a field without a name"),
        ({"scalar": "bytes", "shape": []}, "a field without a name"),
        (field(name=1), "a field without a name"),
        (field(scalar="float8"), "field 'x' has the type 'float8', which this package does not kn"),
        (field(scalar="BYTES"), "has the type 'BYTES'"),
        (field(scalar=None), "has the type None"),
        (field(scalar={}), "has the type {}"),
        (field(shape=None), "has the shape None, which is not a list of sizes"),
        (field(shape=[-1]), r"has the shape \[-1\]"),
        (field(shape=[1 << 32]), r"has the shape \[4294967296\]"),
        (field(shape=[1.0]), r"has the shape \[1.0\]"),
        (field(shape=[True]), r"has the shape \[True\]"),
        (field(scalar="utf8", shape=[0, 0]), r"shape \[0, 0\], but a list of utf8 has one dimensi"),
        (field(scalar="bytes", shape=[2, 3]), r"shape \[2, 3\], but a list of bytes has one dime"),
        (field(nullable=1), "has nullable = 1"),
        (field(nullable=None), "has nullable = None"),
        (field(logical=None), "has logical = None, which is not text"),
        (field(categories="ab"), "categories that are not a list of text: 'ab'"),
        (field(categories=["a", 1]), "categories that are not a list of text"),
        (field(categories=None), "categories that are not a list of text"),
        (field(scalar="int8", categories=["a"]), "is int8 of shape .*: not one unsigned integer"),
        (field(scalar="utf8", categories=["a"]), "is utf8 of shape"),
        (field(scalar="float16", categories=["a"]), "is float16 of shape"),
        (field(shape=[1], categories=["a"]), r"is uint8 of shape \[1\]"),
        (field(metadata=[]), "has metadata that does not map text to text"),
        (field(metadata={"a": 1}), "has metadata that does not map text to text: {'a': 1}"),
        (field(metadata=None), "has metadata that does not map text to text"),
    ],
)
def test_a_field_that_is_not_sound_is_refused(path: str, one: Any, said: str) -> None:
    with serve(path, {"fields": [one]}, []), pipemill.connect("train", path) as stream:
        with pytest.raises(pipemill.ProtocolError, match=said) as caught:
            next(stream)
    assert "check that the host and this package are of the same version" in str(caught.value)


def test_two_fields_of_one_name_are_refused(path: str) -> None:
    with serve(path, {"fields": [field(), field()]}, []), pipemill.connect("a", path) as stream:
        with pytest.raises(pipemill.ProtocolError, match="fields of different names"):
            next(stream)


@pytest.mark.parametrize("scalar", UNSIGNED)
def test_empty_lists_and_texts_are_as_if_left_out(path: str, scalar: str) -> None:
    empty = field(scalar=scalar, nullable=False, logical="", categories=[], metadata={})
    with serve(path, {"fields": [empty]}, []), pipemill.connect("train", path) as stream:
        assert stream.fields == (pipemill.Field("x", scalar, ()),)
        assert list(stream) == []


# --- facts about the object


def test_a_batch_has_the_facts_about_its_object(path: str) -> None:
    facts = {"schema": '{"type": "record"}', "é": "ключ \0 \\", "": ""}
    batches = [
        Rows([(b"a",)], metadata=json.dumps(facts).encode()),
        Rows([(b"b",)], metadata=json.dumps(facts, ensure_ascii=False).encode(), dedicated=True),
        Rows([(b"c",)], metadata=b"{}"),
        Rows([(b"d",)]),
    ]
    body = {"fields": [field(scalar="bytes")]}
    seen = []
    with serve(path, body, batches), pipemill.connect("train", path) as stream:
        for batch in stream:
            batch.metadata["the caller's dict"] = "is the caller's"
            seen.append(batch.metadata)
            assert batch.object == "folder/object-0"
        with batch:
            pass
        with pytest.raises(pipemill.ClosedError, match="was given back"):
            batch.metadata  # noqa: B018
    assert seen == [facts, facts, {}, {}]


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (b"\xff", "the metadata of batch 0 of epoch 0 is not JSON"),
        (b"{", "is not JSON"),
        (b'{"a": "b"} ]', "is not JSON"),
        ('{"a": "b"}'.encode("utf-16"), "is not JSON"),
        (b"[" * 10_000, "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b'"a"', "is not a JSON object"),
        (b'{"a": 1}', "does not map text to text: {'a': 1}"),
        (b'{"a": "b", "c": null}', "does not map text to text"),
        (b'{"a": {"b": "c"}}', "does not map text to text"),
    ],
)
def test_facts_that_are_not_text_are_refused(path: str, metadata: bytes, said: str) -> None:
    body = {"fields": [field(scalar="bytes")]}
    with serve(path, body, [Rows([(b"a",)], metadata=metadata)]):
        with pipemill.connect("train", path) as stream:
            for batch in stream:
                assert [bytes(record) for record in batch] == [b"a"], "the records can be read"
                for _ in range(2):
                    with pytest.raises(pipemill.ProtocolError, match=said):
                        batch.metadata  # noqa: B018
