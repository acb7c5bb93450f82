"""The argument ``absent=``: the values for records that do not have a field.

No value is invented. An array of numbers with an absent one is an :class:`AbsentError`, unless the
program gives a value for it. The value must be one of the field's type: it is never cast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from .schema import MISSING, SCALARS, STRINGS, Field

#: The largest finite numbers of the types whose range is smaller than that of Python's ``float``.
_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}


class AbsentValues:
    """The values of ``absent=``, by the names of fields. It can be pickled."""

    def __init__(self, values: Mapping[str, Any] | None, codes: bool = True) -> None:
        """`codes`: whether a field with categories gives codes, and not text.

        Raises :class:`TypeError` if `values` is not a mapping.
        """
        if values is not None and not isinstance(values, Mapping):
            raise TypeError(
                f"absent={values!r}: expected the values by the names of fields, such as "
                'absent={"age": float("nan")}'
            )
        self._values = dict(values or {})
        self._codes = codes
        #: The fields for which the values have been checked.
        self._fields: tuple[Field, ...] | None = None

    def of(self, fields: tuple[Field, ...]) -> Mapping[str, Any]:
        """The values by name. These fields can hold them.

        Raises :class:`ValueError` if there is no such field, or it can't hold its value, and
        :class:`TypeError` if the value is of another kind.
        """
        if self._values and fields is not self._fields:
            known = {field.name: field for field in fields}
            for name, value in self._values.items():
                if name not in known:
                    names = ", ".join(map(repr, known))
                    raise ValueError(f"absent= names {name!r}; the records have {names}")
                self._values[name] = fitting(known[name], value, self._codes)
            self._fields = fields
        return self._values

    def __getstate__(self) -> dict[str, Any]:
        # The process that unpickles it has fields of its own.
        return {**self.__dict__, "_fields": None}


def fitting(field: Field, value: Any, codes: bool = True) -> Any:
    """The value as one of this field. For a category it is the code, if `codes` are wanted.

    Raises :class:`ValueError` if the field's type can't hold it, and :class:`TypeError` if it
    is of another kind.
    """
    if field.categories and not codes:
        return _string(field, value, "utf8")
    if field.categories and isinstance(value, str):
        if value not in field.categories:
            known = ", ".join(map(repr, field.categories[:8]))
            _refuse(field, value, f"one of its categories ({known}), or an integer as its code")
        return field.categories.index(value)
    if field.scalar in STRINGS:
        if not field.shape:
            return _string(field, value, field.scalar)
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray)):
            _refuse(field, value, f"a list of {field.scalar}", TypeError)
        if field.shape[0] not in (0, len(value)):
            _refuse(field, value, f"a list of {field.shape[0]} values")
        return [_string(field, one, field.scalar) for one in value]
    if 0 in field.shape and not hasattr(value, "__len__"):
        _refuse(field, value, f"an array or a list of {field.scalar}", TypeError)
    _check_numbers(field, value, value)
    return value


def _string(field: Field, value: Any, scalar: str) -> Any:
    kinds = str if scalar == "utf8" else (bytes, bytearray, memoryview)
    if not isinstance(value, kinds):
        _refuse(field, value, "text" if scalar == "utf8" else "bytes", TypeError)
    return value


def _check_numbers(field: Field, whole: Any, value: Any) -> None:
    """Checks one number, or all in a list or an array."""
    if hasattr(value, "tolist"):  # of numpy
        value = value.tolist()
    if isinstance(value, (list, tuple)) and field.shape:
        for one in value:
            _check_numbers(field, whole, one)
        return
    if not isinstance(value, (int, float)):
        _refuse(field, whole, f"a number of type {field.scalar}", TypeError)
    if field.scalar == "boolean":
        fits = value in (0, 1)
    elif "float" in field.scalar:
        largest = _LARGEST.get(field.scalar, math.inf)
        fits = not math.isfinite(value) or abs(value) <= largest
    else:
        bits = 8 * SCALARS[field.scalar][0]
        low, high = (0, 1 << bits) if field.scalar[0] == "u" else (-1 << bits - 1, 1 << bits - 1)
        fits = low <= value < high and value == int(value)
    if not fits:
        _refuse(field, whole, f"a value that {field.scalar} can hold")


def _refuse(
    field: Field, value: Any, expected: str, kind: type[Exception] = ValueError
) -> NoReturn:
    shape = "".join(f"[{size or ''}]" for size in field.shape)
    raise kind(
        f"absent={value!r} for field {field.name!r}, which is {field.scalar}{shape}: expected "
        f"{expected}"
    )


def replaced(values: list[Any], value: Any) -> list[Any]:
    """The list with `value` in place of each None, unless `value` is :data:`MISSING`."""
    return values if value is MISSING else [value if one is None else one for one in values]
