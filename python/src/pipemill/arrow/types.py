"""The Arrow type of each field: the same as in ``pipemill cat --output arrow``, but with views of
strings instead of copies."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..schema import STRINGS, Field

_NUMBERS = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "bfloat16": pa.float32(),  # Arrow has no bfloat16: the float32 of the same value
    "float32": pa.float32(),
    "float64": pa.float64(),
}
_STRINGS = {"bytes": pa.binary_view(), "utf8": pa.string_view()}
_UNITS = ("s", "ms", "us", "ns")
#: Logical types that Arrow has, each with its scalar.
_LOGICAL = {
    "date": ("int32", pa.date32()),
    **{f"timestamp[{unit}]": ("int64", pa.timestamp(unit, "UTC")) for unit in _UNITS},
    **{f"time[{unit}]": ("int64", pa.time32(unit)) for unit in _UNITS[:2]},
    **{f"time[{unit}]": ("int64", pa.time64(unit)) for unit in _UNITS[2:]},
}


def element_type(field: Field) -> Any:
    """The type of one element of a field."""
    if field.scalar in STRINGS:
        return _STRINGS[field.scalar]
    scalar, kind = _LOGICAL.get(field.logical, ("", None))
    return kind if scalar == field.scalar else _NUMBERS[field.scalar]


def shape(field: Field) -> tuple[int, ...]:
    """The number of elements in each dimension, as Arrow has it; 0 for any. The length of a value
    does not determine several dimensions of any size, so they become one. So do those of lists of
    strings, whose values contain their number."""
    if field.scalar in STRINGS:
        return (0,) if field.shape else ()
    return (0,) if field.shape.count(0) > 1 else field.shape


def is_uuid(field: Field) -> bool:
    """Whether the values are UUIDs."""
    return field.logical == "uuid" and (field.scalar, field.shape) == ("uint8", (16,))


def list_type(items: Any, size: int) -> Any:
    """A list of `size` items; 0 for any number."""
    item = pa.field("item", items, nullable=False)
    return pa.list_(item, size) if size else pa.list_(item)


def arrow_field(field: Field) -> Any:
    """The field in Arrow's schema."""
    kind = element_type(field)
    if is_uuid(field):
        kind = pa.uuid()
    elif field.categories:
        kind = pa.dictionary(kind, pa.string())
    elif field.logical == "json" and field.scalar == "utf8" and not field.shape:
        kind = pa.json_(kind)
    else:
        for size in reversed(shape(field)):
            kind = list_type(kind, size)
    metadata = dict(field.metadata)
    if field.logical and field.logical not in ("uuid", "json", *_LOGICAL):
        metadata["logical"] = field.logical
    return pa.field(field.name, kind, field.nullable, metadata or None)


def plain_type(kind: Any) -> Any:
    """The type without views, dictionaries and extensions, for libraries that know no others.
    Values can be cast to it."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if kind == pa.string_view() or pa.types.is_dictionary(kind):
        return pa.string()
    if kind == pa.binary_view() or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_fixed_size_list(kind):
        return list_type(plain_type(kind.value_type), kind.list_size)
    return list_type(plain_type(kind.value_type), 0) if pa.types.is_list(kind) else kind


def plain_scalar(field: Field, value: Any) -> Any:
    """A value of a field, as a program gives it, as a scalar of the field's plain type."""
    kind = plain_type(arrow_field(field).type)
    if is_uuid(field):
        return pa.scalar(bytes(value), kind)
    if pa.types.is_temporal(kind):
        number = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.scalar(int(value), number).cast(kind)
    if field.scalar not in STRINGS and not field.categories:
        value = _numbers(value, field.scalar, field.shape)
    return pa.scalar(value, kind)


def _numbers(value: Any, scalar: str, shape: tuple[int, ...]) -> Any:
    """Numbers in lists of this shape. A single one stands for all."""
    if hasattr(value, "tolist"):  # of numpy
        value = value.tolist()
    if not shape:
        return bool(value) if scalar == "boolean" else value
    values = value if isinstance(value, (list, tuple)) else [value] * shape[0]
    return [_numbers(one, scalar, shape[1:]) for one in values]


class Types:
    """The Arrow types of all fields of a schema, and what their arrays have in common."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self.schema = pa.schema([arrow_field(field) for field in fields])
        self.elements = [element_type(field) for field in fields]
        self.shapes = [shape(field) for field in fields]
        self._categories: dict[int, Any] = {}

    def categories(self, number: int) -> Any:
        """The categories of a field, as an array."""
        if number not in self._categories:
            self._categories[number] = pa.array(self.fields[number].categories, pa.string())
        return self._categories[number]


_recent: list[Types] = []


def types_of(fields: tuple[Field, ...]) -> Types:
    """The types of these fields. Those of the last few channels are kept."""
    for types in _recent:
        if types.fields is fields:
            return types
    types = Types(fields)
    _recent.insert(0, types)
    del _recent[8:]
    return types
