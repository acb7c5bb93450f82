"""The schema of a channel: the fields of its records, as the host's SCHEMA message lists them."""

from __future__ import annotations

from typing import Any, NamedTuple

from .errors import ProtocolError
from .protocol import REMEDY, is_text_map, parse_json

#: Bytes of one element, and its letter in :mod:`struct` and :class:`memoryview`. These two have no
#: bfloat16: its letter is that of its 16 bits.
SCALARS = {
    "bytes": (1, "B"),
    "utf8": (1, "B"),
    "boolean": (1, "?"),
    "int8": (1, "b"),
    "int16": (2, "h"),
    "int32": (4, "i"),
    "int64": (8, "q"),
    "uint8": (1, "B"),
    "uint16": (2, "H"),
    "uint32": (4, "I"),
    "uint64": (8, "Q"),
    "float16": (2, "e"),
    "bfloat16": (2, "H"),
    "float32": (4, "f"),
    "float64": (8, "d"),
}
#: The scalars whose values have any length.
STRINGS = ("bytes", "utf8")
#: Stands for an argument that was not given, where None would be a value.
MISSING: Any = object()
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


class Field(NamedTuple):
    """One field of each record, as the decoder declared it. Fields can be compared and hashed."""

    #: The field's name, unique in its schema.
    name: str
    #: The type of one element: "bytes", "utf8", "boolean", "int8", "int16", "int32", "int64",
    #: "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32" or "float64".
    scalar: str
    #: The number of elements in each dimension. Empty for a single element. A 0 is a dimension
    #: that follows from each value's length. "bytes" and "utf8" with one dimension are lists.
    shape: tuple[int, ...]
    #: Whether a record may lack the field.
    nullable: bool = False
    #: What the values mean, such as "date" or "timestamp[us]"; docs/ring.md lists the words. The
    #: package does not convert the values. Empty if the decoder did not say it.
    logical: str = ""
    #: If not empty, the values are indices into this tuple. See :meth:`Batch.column`.
    categories: tuple[str, ...] = ()
    #: More facts about the field: pairs of a key and a value, sorted by key. ``dict(metadata)``
    #: makes a dict of them.
    metadata: tuple[tuple[str, str], ...] = ()


def parse_schema(body: bytes) -> tuple[Field, ...]:
    """The fields of a SCHEMA, in their order. Raises `ProtocolError` if one is not sound."""
    listed = parse_json("SCHEMA", body).get("fields")
    if not isinstance(listed, list):
        raise ProtocolError(f"the host's SCHEMA has no list of fields; {REMEDY}")
    fields = tuple(map(_parse_field, listed))
    names = [field.name for field in fields]
    if not names or len(set(names)) != len(names):
        raise ProtocolError(f"the host's SCHEMA must have fields of different names: {names}")
    return fields


def _parse_field(one: Any) -> Field:
    if not isinstance(one, dict) or not isinstance(one.get("name"), str):
        raise ProtocolError(f"the host's SCHEMA has a field without a name: {one}; {REMEDY}")
    name, scalar, shape = one["name"], one.get("scalar"), one.get("shape")
    nullable, logical = one.get("nullable", False), one.get("logical", "")
    categories, metadata = one.get("categories", []), one.get("metadata", {})
    if not isinstance(scalar, str) or scalar not in SCALARS:
        wrong = f"has the type {scalar!r}, which this package does not know"
    elif not isinstance(shape, list) or not all(map(_is_u32, shape)):
        wrong = f"has the shape {shape!r}, which is not a list of sizes"
    elif scalar in STRINGS and len(shape) > 1:
        wrong = f"has the shape {shape!r}, but a list of {scalar} has one dimension"
    elif type(nullable) is not bool:
        wrong = f"has nullable = {nullable!r}, which is neither true nor false"
    elif not isinstance(logical, str):
        wrong = f"has logical = {logical!r}, which is not text"
    elif not isinstance(categories, list) or not all(isinstance(one, str) for one in categories):
        wrong = f"has categories that are not a list of text: {categories!r}"
    elif categories and (scalar not in _UNSIGNED or shape):
        wrong = f"has categories, but is {scalar} of shape {shape!r}: not one unsigned integer"
    elif not is_text_map(metadata):
        wrong = f"has metadata that does not map text to text: {metadata!r}"
    else:
        facts = tuple(sorted(metadata.items()))
        return Field(name, scalar, tuple(shape), nullable, logical, tuple(categories), facts)
    raise ProtocolError(f"in the host's SCHEMA, field {name!r} {wrong}; {REMEDY}")


def _is_u32(size: Any) -> bool:
    return type(size) is int and 0 <= size <= 0xFFFFFFFF
