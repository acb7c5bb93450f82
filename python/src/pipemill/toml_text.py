"""Writes a configuration as TOML, because the standard library only reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

# Escapes of a basic string, for characters that TOML does not allow in it.
_ESCAPES = {code: f"\\u{code:04X}" for code in (*range(0x20), 0x7F)}
_ESCAPES.update({ord('"'): '\\"', ord("\\"): "\\\\"})


def toml(table: Mapping[str, Any]) -> str:
    """The text of a table of strings, paths, numbers, booleans, lists and tables of these. A key
    whose value is None is left out.

    Raises :class:`TypeError` for other values.
    """
    return "".join(f"{_string(key)} = {_value(value)}\n" for key, value in _items(table))


def literal(text: str) -> str:
    """The text for a configuration that replaces ``${NAME}``: a dollar stays one."""
    return text.replace("$", "$$")


def _items(table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in table.items() if value is not None]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (str, os.PathLike)):
        return _string(os.fspath(value))
    if isinstance(value, Mapping):
        pairs = (f"{_string(key)} = {_value(one)}" for key, one in _items(value))
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(
        f"a configuration has no {type(value).__name__}, as {value!r}; expected a string, a path, "
        "a number, True or False, a list or a dict"
    )


def _string(text: str) -> str:
    return '"' + text.translate(_ESCAPES) + '"'
