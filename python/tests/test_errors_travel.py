"""Errors can be pickled and copied: type, text and attributes stay, in a program's subclasses too.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import random
import string
from typing import Any, Callable

import pytest

from pipemill import PipemillError, errors

CLASSES = [
    one
    for one in vars(errors).values()
    if inspect.isclass(one) and issubclass(one, PipemillError)
]


class WithKeywords(errors.DecodeError):
    """A constructor that takes nothing by position."""

    def __init__(self, *, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}", kind="decode", channel="mine", record=line)
        self.line, self.why = line, why


class WithItsOwnNew(errors.ConnectError):
    """A constructor that can't be called again with the text."""

    def __new__(cls, host: str, port: int) -> WithItsOwnNew:
        return super().__new__(cls)

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"{host}:{port}")
        self.port = port


class OfTheSystem(errors.HostDied):
    """Number, text and file name, as in the errors of the system."""

    def __init__(self, number: int, text: str, name: str) -> None:
        ConnectionError.__init__(self, number, text, name)
        self.batches = number


COPIES: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    *(
        lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    ),
]


def check(error: PipemillError) -> None:
    for copied in COPIES:
        other = copied(copied(error))
        assert type(other) is type(error)
        assert (str(other), other.args, vars(other)) == (str(error), error.args, vars(error))
        assert getattr(other, "filename", None) == getattr(error, "filename", None)


def some_text(source: random.Random) -> str:
    return "".join(source.choices(string.printable + "é\u2028\U0001f600", k=source.randrange(200)))


def some_value(source: random.Random) -> Any:
    return source.choice([None, source.getrandbits(64), some_text(source), [1, {"a": b"\0"}]])


@pytest.mark.parametrize("kind", CLASSES, ids=[one.__name__ for one in CLASSES])
def test_an_error_of_the_package(kind: type[PipemillError]) -> None:
    source = random.Random(kind.__name__)
    keywords = [
        name
        for name, one in inspect.signature(kind.__init__).parameters.items()
        if one.kind is one.KEYWORD_ONLY
    ]
    if issubclass(kind, errors.DecodeError):
        keywords += ["epoch", "object", "offset", "record", "decoder"]
    for _ in range(20):
        given = {name: some_value(source) for name in keywords if source.random() < 0.7}
        error = kind(some_text(source), **given)
        for name in source.sample(["seen", "rank", "__notes__"], source.randrange(4)):
            setattr(error, name, some_value(source))
        check(error)


@pytest.mark.parametrize("kind", CLASSES, ids=[one.__name__ for one in CLASSES])
def test_an_error_that_is_made_of_its_text_alone(kind: type[PipemillError]) -> None:
    # Made as PyTorch makes those of a DataLoader's workers.
    error = kind("in a worker")
    assert str(error) == "in a worker"
    if isinstance(error, errors.DecodeError):
        assert errors.BY_KIND.get(error.kind, errors.DecodeError) is kind
    check(error)


def test_errors_of_programs() -> None:
    check(WithKeywords(line=3, why="no number"))
    check(WithItsOwnNew("here", 80))
    check(OfTheSystem(2, "no such file", "a.csv"))


def test_an_error_that_was_raised_from_another_one() -> None:
    with pytest.raises(errors.SourceError) as caught:
        try:
            raise errors.HostDied("killed", batches=3, records=7)
        except errors.HostDied as died:
            raise errors.SourceError("no more", object="a.csv") from died
    check(caught.value)
