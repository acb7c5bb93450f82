"""Lets errors of a DataLoader's worker reach the program unchanged.

PyTorch passes on the type of an error and a text that contains its traceback, and makes another
error of these. The attributes would be lost, and the text would be another one. But the type is
pickled, so a type can carry the error with it.
"""

from __future__ import annotations

import contextlib
import copyreg
from collections.abc import Iterator
from typing import Any, cast

import torch.utils.data

from ..errors import PipemillError, made_again


class WorkerTraceback(Exception):
    """The cause of an error that came from a worker: the place in the worker where it was
    raised."""


class _Bringing(type):
    """The type of types that carry their only error with them, when they are pickled."""

    _error: tuple[type[PipemillError], tuple[Any, ...], dict[str, Any]]


def travelling(error: PipemillError) -> PipemillError:
    """The same error, of a subclass of its type that carries it."""
    kind = type(error)
    if not isinstance(kind, _Bringing):
        own = {
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__reduce__": lambda error: (_arrived, type(error)._error),
            "_error": (*error.__reduce__()[1], dict(vars(error))),
        }
        error.__class__ = cast("type[PipemillError]", _Bringing(kind.__name__, (kind,), own))
    return error


@contextlib.contextmanager
def errors_travel() -> Iterator[None]:
    """In a DataLoader's worker, errors of this block reach the program unchanged."""
    try:
        yield
    except PipemillError as error:
        if torch.utils.data.get_worker_info() is not None:
            travelling(error)
        raise


class _Arrived:
    """Replaces the error's type in the program: PyTorch calls it to make the error."""

    def __init__(self, error: PipemillError) -> None:
        self._error = error
        self.__name__ = type(error).__name__

    def __call__(self, text: str) -> PipemillError:
        self._error.__cause__ = WorkerTraceback(text)
        return self._error


def _arrived(
    kind: type[PipemillError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> PipemillError:
    error = made_again(kind, args)
    vars(error).update(attributes)
    return error


def _type_arrived(*error: Any) -> _Arrived:
    return _Arrived(_arrived(*error))


copyreg.pickle(_Bringing, lambda kind: (_type_arrived, kind._error))  # type: ignore
