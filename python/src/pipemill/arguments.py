"""Answers arguments that a function does not have: other loaders have many of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Callable, NoReturn, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

_DEALT = 'say rank=(rank, world), or rank="auto" for what the launcher says'
_LIMIT = "it is a limit: limits={{{name!r}: {value!r}}}"
_OF_SOURCE = "the source says that: source={{\"s3\": \"s3://…\", {name!r}: {value!r}}}"
_IN_PROCESS = (
    "there are no worker processes: the host decodes in threads of its own. Leave it out; "
    "workers= is how many objects are decoded at the same time"
)
_ORDER = "say shuffle=SEED, such as shuffle=7: the same seed gives the same order in each run"
_LOOP = (
    "the host makes the batches; call the function in the loop over them, or, for a stream, "
    "stream.map(function)"
)
_ERRORS = 'say on_error="skip" or "quarantine", and max_errors='

#: The text to write for arguments of other loaders. `{value!r}` is the value that was passed.
REMEDIES = {
    "batch_size": "say batch={value!r}: the host makes the batches",
    "batchsize": "say batch={value!r}",
    "rows_per_block": "say batch={value!r}",
    "drop_last": 'say tail="drop", "keep" or "pad"',
    "drop_remainder": 'say tail="drop", "keep" or "pad"',
    "num_workers": (
        "say workers={value!r}, or \"auto\": the host decodes that many objects at the same time, "
        "in threads of its own, so the program needs no worker processes"
    ),
    "num_threads": "say workers={value!r}",
    "num_parallel_calls": "say workers={value!r}",
    "num_proc": "say workers={value!r}: the host has threads, and no processes",
    "sampler": f"the host chooses the order and the ranks: {_ORDER}, and {_DEALT}",
    "batch_sampler": f"the host chooses the order and the ranks: {_ORDER}, and {_DEALT}",
    "shuffle_buffer": 'say shuffle={{"seed": 7, "window": {value!r}}} and batch=',
    "shuffle_buffer_size": 'say shuffle={{"seed": 7, "window": {value!r}}} and batch=',
    "buffer_size": 'say shuffle={{"seed": 7, "window": {value!r}}} and batch=',
    "window": 'say shuffle={{"seed": 7, "window": {value!r}}} and batch=',
    "seed": "say shuffle={value!r}: a seed shuffles",
    "generator": _ORDER,
    "collate_fn": _LOOP,
    "transform": _LOOP,
    "map_fn": _LOOP,
    "persistent_workers": _IN_PROCESS,
    "worker_init_fn": _IN_PROCESS,
    "multiprocessing_context": _IN_PROCESS,
    "in_order": 'say order="any" where records may come in the order in which they get ready',
    "prefetch_factor": (
        "the host reads ahead by itself, as far as its ring reaches; credits= is how many batches "
        "the program may hold at once"
    ),
    "prefetch": "the host reads ahead by itself; leave it out",
    "pin_memory": "pipemill.torch.Loader has it; with a Dataset, give it to the DataLoader",
    "pin_memory_device": "say device= to pipemill.torch.Loader",
    "device": "pipemill.torch.Loader has it",
    "steps": "pipemill.torch.Loader has it; else leave the loop after that many batches",
    "local_rank": _DEALT,
    "world_size": _DEALT,
    "num_replicas": _DEALT,
    "shard": _DEALT,
    "num_shards": _DEALT,
    "shards": _DEALT,
    "num_epochs": "say epochs={value!r}",
    "repeat": "say epochs=, which is None for a source without an end",
    "columns": "say fields={value!r}, or give the decoder's own option in options=",
    "usecols": "say fields={value!r}, or give the decoder's own option in options=",
    "format": "say decoder={value!r}",
    "type": "say decoder={value!r}",
    "path": "say source={value!r}",
    "paths": "say source={value!r}",
    "url": "say source={value!r}",
    "urls": "say source={value!r}",
    "data_files": "say source={value!r}",
    "compression": 'the source says that: source={{"file": "…", "compression": {value!r}}}',
    "region": _OF_SOURCE,
    "endpoint": _OF_SOURCE,
    "profile": _OF_SOURCE,
    "anonymous": _OF_SOURCE,
    "cache": _OF_SOURCE,
    "part_size": _OF_SOURCE,
    "concurrency": _OF_SOURCE,
    "ignore_errors": _ERRORS,
    "skip_errors": _ERRORS,
    "on_bad_lines": _ERRORS,
    "handler": _ERRORS,
    "memory": _LIMIT,
    "call_timeout": _LIMIT,
    "output": _LIMIT,
}


def answering(own: Mapping[str, str]) -> Callable[[Function], Function]:
    """Makes a function, or a constructor, raise a TypeError for names that it does not have. The
    error says what to write instead. `own`: the differences from `REMEDIES`."""

    def decorate(function: Function) -> Function:
        code = function.__code__
        known = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            if not known.issuperset(named):
                _raise_unknown(function, known, named, {**REMEDIES, **own})
            return function(*args, **named)

        # The same dict: code that reads or changes the defaults uses those of the function.
        call.__kwdefaults__ = function.__kwdefaults__  # type: ignore[attr-defined]
        return cast(Function, call)

    return decorate


def defaults_of(function: Any) -> dict[str, Any]:
    """The defaults of the keyword-only arguments of a function that answers."""
    return dict(function.__kwdefaults__)


def check_shuffle(shuffle: Any) -> Any:
    """The value of ``shuffle=``. It must not be a boolean, because that determines no order."""
    if shuffle is True:
        raise TypeError(
            "shuffle=True: which order? Say shuffle=SEED, such as shuffle=7: the same seed gives "
            'the same order in each run. {"seed": 7, "window": "256MiB"} shuffles records, too'
        )
    return None if shuffle is False else shuffle


def _raise_unknown(
    function: Any, known: frozenset[str], named: dict[str, Any], remedies: Mapping[str, str]
) -> NoReturn:
    path = function.__qualname__.replace(".__init__", "")
    name = next(name for name in named if name not in known)
    value = named[name]
    if name in remedies:
        remedy = remedies[name].format(name=name, value=value)
        raise TypeError(f"{path}() takes no argument {name!r}: {remedy}")
    from difflib import get_close_matches

    near = get_close_matches(name, known - {"self"}, 1)
    meant = f"; did you mean {near[0]}=?" if near else ""
    options = ""
    if "options" in known:
        options = (
            f"; if it is an option of the decoder, say options={{{name!r}: {value!r}}}: `pipemill "
            "plugin list DECODER` shows them"
        )
    raise TypeError(f"{path}() takes no argument {name!r}{meant}{options}")
