"""Opens a source: starts a private host for it, and connects to its only channel."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from .address import Address
from .errors import ConnectError, Refused
from .arguments import REMEDIES, answering, check_shuffle
from .copied import copied_records
from .private_host import Host
from .ranks import Node, local_cores, node_of, rank_of
from .parts import check_part, name_of_part
from .skip_lists import Skip, add_skip
from .sources import Source, source_table
from .state import check_accept, check_state
from .stream import Stream, batch_size, connect, whole_number
from .toml_text import literal, toml

#: Epochs of an endless stream: as many as a configuration may have.
_ENDLESS = 1_000_000
#: A ring has at most 4096 slots, of which two are the host's.
_MAX_CREDITS = 4094
#: As many as a configuration may have.
_MAX_WORKERS = 256
#: Fields that the host can add to each record.
ADDED_FIELDS = ("__index__", "__object__")
#: Slots of a ring, if a program does not hold more of them.
_SLOTS = 16
#: Seconds that the other processes of a machine wait for the one that starts the host.
NODE_TIMEOUT = 600.0
#: The process that starts the host, for messages in the others.
OWNER_OF_NODE = "local rank 0 of this machine"

_opened_per_node = 0
#: Number of streams of hosts that share their lists so far.
_opened_alone = 0


@answering({})
def open(  # the name that `pipemill.open` has
    source: Source,
    decoder: str | os.PathLike[str] | None = None,
    *,
    trust: str | Sequence[str] | None = None,
    skip: Skip | None = None,
    options: Mapping[str, Any] | None = None,
    fields: str | Sequence[str] | None = None,
    add_fields: str | Sequence[str] | None = None,
    batch: int | None = None,
    tail: str | None = None,
    batch_across: str | None = None,
    shuffle: int | Mapping[str, Any] | None = None,
    workers: int | str | None = None,
    order: str | None = None,
    on_error: str | None = None,
    max_errors: int | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    on_plugin_error: str | None = None,
    max_record: str | None = None,
    limits: Mapping[str, str] | None = None,
    epochs: int | None = 1,
    rank: tuple[int, int] | str | None = None,
    state: Mapping[str, Any] | None = None,
    accept: Sequence[str] | str = (),
    host: str | None = None,
    credits: int = 4,
    timeout: float | None = None,
    hold_timeout: float | None = 10.0,
) -> Stream:
    """Opens a source: starts a private host that reads and decodes it. The result is a context
    manager, as that of :func:`connect`. ::

        with pipemill.open("s3://bucket/train/", "webdataset", fields="jpg,cls") as stream:
            for batch in stream:
                train(batch["jpg"], batch["cls"])

    The host is a child of this process. It ends with :meth:`Stream.close`, and when this process
    ends, in whatever way.

    :param source: a file, a folder (all files in it), a pattern such as ``"data/*.csv"``, an
        address in S3 (all objects whose keys begin with it), an index (a file, or an address in S3
        that ends in ``.index``), a FIFO, the path of Pipe mode's FIFOs
        without ``_0``, or a list of files or of addresses. A dict is the table ``source`` of a
        configuration: ``{"s3": "s3://bucket/train/", "anonymous": True}``.
    :param decoder: a decoder's name, the name of a plugin in ``pipemill.lock`` of the current
        folder (``"name@version"``), or the path of a plugin (with a ``/``, or ending in
        ``.wasm``). By default it is found by the first object's name and bytes.
    :param trust: decoders that may come with the data, by the SHA-256 of their files:
        ``"sha256:…"``, or a list. A file ``decoder.toml`` beside the data names such a decoder.
    :param skip: records that are left out, by their numbers in the index that is read: a list of
        numbers, of ranges, and of texts such as ``"10-20"``, which is a range with both of its
        ends. Or the path, or the address in S3, of a file with a number or such a text in each
        line.
    :param options: the decoder's options, as ``pipemill plugin list DECODER`` shows them.
    :param fields: short for ``options={"fields": …}``: names with commas between them, or a list.
    :param add_fields: fields that each record gets after those of the decoder: ``"__object__"``,
        the name of its object; ``"__index__"``, its number in the index that is read, as
        :class:`Dataset` counts it; ``"date=utf8"``, the value of the folder ``date=…`` in the path
        of its object, of this type. By default those that the index names.
    :param batch: records of each batch, 1 to 1,048,576. By default batches leave as early as it
        helps.
    :param tail: what happens to the last records if they don't fill a batch: "keep", "drop" or
        "pad". With `batch` only.
    :param batch_across: the end meant by `tail`: of each "epoch" (the default), or of each
        "object".
    :param shuffle: a random order, another one in each epoch. A seed shuffles objects.
        ``{"seed": 7, "window": "256MiB"}`` shuffles records, too, within a window of bytes or of
        a number of records; it needs `batch`.
    :param workers: how many objects are decoded at the same time, 1 to 256, or "auto": as many as
        the host's part of the cores allows; under a launcher, this process's part of the machine.
        The batches are those of one worker, in its order.
    :param order: "strict" (the default), or "any": with `workers`, records of several objects come
        in the order in which they get ready, which differs from run to run. Then a state can be
        taken between two epochs only.
    :param on_error: the reaction to input that does not fit its format: "fail" (the default),
        "skip", or "quarantine": as "skip", and the bad bytes are kept in the file `quarantine`.
        :attr:`Stream.skipped` counts the skipped places.
    :param max_errors: how many errors in an epoch may be skipped; one more ends the stream. 1000 by
        default.
    :param quarantine: the file for ``on_error="quarantine"``, to which lines of JSON are appended.
    :param on_plugin_error: "fail" (the default), or "skip-object": if the decoder itself fails, the
        rest of the object is skipped.
    :param max_record: the largest record, such as "256MiB"; "64MiB" by default.
    :param limits: limits of the decoder: ``{"memory": "1GiB", "call_timeout": "30s", "output":
        "1GiB"}``, and of the memory of all batches with the window of `shuffle`: ``{"batches":
        "4GiB"}``; each with a default.
    :param epochs: how often the source is read; ``None``: without an end.
    :param rank: ``(rank, world)``, or "auto": as the launcher says in the environment (torchrun,
        MPI, Slurm's srun); the result is logged. The objects are dealt to the hosts: see `host`.
    :param state: a result of :meth:`Stream.state_dict`: the first batch is the next one after it.
        All other arguments must be the same, and so must be the objects and a plugin's bytes; their
        folder may be another one.
    :param accept: differences that are accepted nevertheless: see :func:`connect`.
    :param host: ``None``: a host for this process, which reads every `world`-th object. "per-node":
        one host for all processes of this machine. It gets every n-th object of n machines, and
        deals its batches to the processes: all of these get equally many of an epoch. That needs
        `batch`, and `tail` "drop" or "pad". Local rank 0 starts the host. If it closes its stream
        before the end of the stream, the others get :class:`HostDied`.
    :param credits: as for :func:`connect`; as are `timeout` and `hold_timeout`.

    Raises :class:`RefusedError` if the host refuses decoder or options, :class:`SourceError` if the
    source can't be read, here or with the first batch, :class:`HostError` if the host fails, and
    :class:`BinaryNotFound` if there is no host. The text is the host's.
    """
    name, channel, node = plan(
        source, decoder, trust=trust, skip=skip, options=options, fields=fields,
        add_fields=add_fields, batch=batch, tail=tail, batch_across=batch_across, shuffle=shuffle,
        workers=workers,
        order=order, epochs=epochs, on_error=on_error, max_errors=max_errors, quarantine=quarantine,
        on_plugin_error=on_plugin_error, max_record=max_record, limits=limits,
        rank=rank, host=host, credits=credits,
    )  # fmt: skip
    wishes: dict[str, Any] = {
        "credits": credits,
        "timeout": timeout,
        "hold_timeout": hold_timeout,
        "state": None if state is None else check_state(name, state),
        "accept": check_accept(accept),
    }
    if node is not None:
        stream = _open_per_node(node, channel, wishes)
    else:
        config = {} if workers != "auto" else {"cores": local_cores()}
        text = toml({**config, "channel": [channel]})
        started = Host.of_text(
            text, consumers_first=state is not None, variables=lists_of_job(channel)
        )
        stream = _owning(started, name, wishes)
    stream._part = part_name(channel, node) if state is None else None
    stream._may_skip = may_skip(on_error, on_plugin_error)
    return stream


def plan(
    source: Source,
    decoder: str | os.PathLike[str] | None,
    *,
    credits: int,
    epochs: int | None,
    rank: tuple[int, int] | str | None,
    trust: str | Sequence[str] | None = None,
    skip: Skip | None = None,
    options: Mapping[str, Any] | None = None,
    fields: str | Sequence[str] | None = None,
    add_fields: str | Sequence[str] | None = None,
    batch: int | None = None,
    tail: str | None = None,
    batch_across: str | None = None,
    shuffle: int | Mapping[str, Any] | None = None,
    workers: int | str | None = None,
    order: str | None = None,
    host: str | None = None,
    **errors: Any,
) -> tuple[str, dict[str, Any], Node | None]:
    """The configuration of a host for these arguments of :func:`open`: the name of its channel, the
    channel's table for one program, and the machine of a host that is shared there. `errors`: the
    arguments about errors and limits.

    Raises :class:`ValueError` if an argument is wrong.
    """
    shuffle = check_shuffle(shuffle)
    _check(batch, tail, batch_across, workers, order, epochs, credits)
    part, node = _part(rank, host)
    name, table = source_table(source)
    add_skip(table, skip)
    _deal(table, source, part, node)
    if node is not None and tail not in ("drop", "pad"):
        raise ValueError(
            'host="per-node" needs batch=, and tail="drop" or "pad": all processes get equally '
            "many batches of an epoch"
        )
    # FIFOs come for as long as the platform makes them.
    if epochs is not None or "fifo" not in table:
        table["epochs"] = _ENDLESS if epochs is None else epochs
    channel = {
        "name": name,
        "source": table,
        "decoder": None if decoder is None else literal(os.fspath(decoder)),
        "trust": _texts(trust),
        "options": _options(options, fields),
        "add_fields": _names(add_fields),
        "batch": batch,
        "tail": tail,
        "batch_across": batch_across,
        "shuffle": {"seed": shuffle} if isinstance(shuffle, int) else shuffle,
        "workers": workers,
        "order": order,
        **_errors(**errors),
        "ring": {"slots": max(_SLOTS, credits + 2)},
    }
    return name, channel, node


def _check(
    batch: int | None,
    tail: str | None,
    batch_across: str | None,
    workers: int | str | None,
    order: str | None,
    epochs: int | None,
    credits: int,
) -> None:
    if batch is not None:
        batch_size(batch, tail, batch_across)
    elif tail is not None or batch_across is not None:
        raise ValueError("tail= and batch_across= are about batch=, which is missing")
    whole_number("credits", credits, _MAX_CREDITS, "; a loop over batches needs 2")
    if epochs is not None:
        whole_number("epochs", epochs, _ENDLESS, ", or None")
    if workers is not None and workers != "auto":
        whole_number("workers", workers, _MAX_WORKERS, ', or "auto"')
    if order not in (None, "strict", "any"):
        raise ValueError(f'order={order!r}: expected "strict" or "any"')


def _errors(
    on_error: str | None = None,
    max_errors: int | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    on_plugin_error: str | None = None,
    max_record: str | None = None,
    limits: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The channel's settings for errors and limits."""
    if limits is not None and not isinstance(limits, Mapping):
        raise TypeError(f"limits={limits!r}: expected a dict, such as {{'memory': '1GiB'}}")
    return {
        "on_error": on_error,
        "max_errors": max_errors,
        "quarantine": None if quarantine is None else literal(os.fspath(quarantine)),
        "on_plugin_error": on_plugin_error,
        "max_record": max_record,
        "limits": limits,
    }


def _part(
    rank: tuple[int, int] | str | None, host: str | None
) -> tuple[tuple[int, int], Node | None]:
    """The part of the objects that the host reads, and its machine if it is shared there."""
    if host is None:
        return rank_of(rank) or (0, 1), None
    if host != "per-node":
        raise ValueError(f'host={host!r}: expected None or "per-node"')
    node = node_of(rank_of(rank) or rank_of("auto") or (0, 1))
    return (node.node, node.nodes), node


def _deal(
    table: dict[str, Any], source: Source, part: tuple[int, int], node: Node | None
) -> None:
    """Lets the host read its part of the objects."""
    index, count = part
    if count == 1:
        return
    if "file" in table or "fifo" in table:
        remedy = "" if node else ', or let the processes share a host: host="per-node"'
        raise ValueError(
            f"source={source!r} is one object, which can't be dealt to {count} hosts; give a "
            f"folder, a pattern or several objects{remedy}"
        )
    check_part(source, table, index, count, name_of_part(index, count, node is not None))
    table["part"] = {"index": index, "count": count}


def may_skip(on_error: str | None, on_plugin_error: str | None) -> bool:
    """Whether a host with these arguments skips input that can't be decoded."""
    return on_error in ("skip", "quarantine") or on_plugin_error == "skip-object"


def part_name(channel: Mapping[str, Any], node: Node | None) -> str | None:
    """The name of the channel's part of the objects. None if it reads all, or may be empty."""
    source = channel["source"]
    part = None if source.get("allow_empty") else source.get("part")
    return None if part is None else name_of_part(part["index"], part["count"], node is not None)


def _open_per_node(node: Node, channel: dict[str, Any], wishes: dict[str, Any]) -> Stream:
    """A stream of the host that all processes of this machine share. The first one starts it."""
    name, tail, world = channel["name"], channel["tail"], node.local_world
    slots = world * wishes["credits"] + 2 + (world if tail == "drop" else 0)
    channel.update(mode="rank", consumers=world, ring={"slots": max(_SLOTS, slots)})
    wishes["rank"] = node.local_rank, world
    text = toml({"channel": [channel]})
    address = node_address(node, text)
    if node.local_rank > 0:
        stream = connect(name, address, wait=NODE_TIMEOUT, **wishes)
        stream._receiver.host_owner = OWNER_OF_NODE
        return stream
    text = toml({"socket": literal(address.path)}) + text
    stream = _owning(Host.of_text(text, consumers_first=wishes["state"] is not None), name, wishes)
    stream._shares_host = True
    return stream


def _owning(host: Host, channel: str, wishes: dict[str, Any]) -> Stream:
    """A stream that owns the host: the host ends with it."""
    try:
        stream = host.connect(channel, **wishes)
    except BaseException as error:
        # A host that was killed refuses nothing, and does not answer.
        is_silent = isinstance(error, ConnectError) and not isinstance(error, Refused)
        died = host._died(channel) if is_silent else None
        host.close()
        if died is not None:
            raise died from error
        raise
    stream._owns_host = True
    return stream


class Records(Iterator["dict[str, Any]"]):
    """The records that :func:`cat` gives."""

    def __init__(self, stream: Stream, limit: int | None) -> None:
        self._stream = stream
        self._records = _records(stream, limit)

    def __next__(self) -> dict[str, Any]:
        return next(self._records)

    @property
    def skipped(self) -> int:
        """As :attr:`Stream.skipped`."""
        return self._stream.skipped

    def close(self) -> None:
        """Closes the stream."""
        self._records.close()
        self._stream.close()


#: Arguments that :func:`cat` does not take, because it is for a look at some records.
_FOR_OPEN = {
    **{name: f"that is for pipemill.open(); there, {text}" for name, text in REMEDIES.items()},
    **dict.fromkeys(
        ("skip", "batch", "tail", "batch_across", "shuffle", "workers", "order", "epochs", "rank",
         "state", "accept", "host", "credits", "timeout", "hold_timeout"),
        "that is for pipemill.open(), which gives batches",
    ),
    **{name: REMEDIES[name] for name in REMEDIES if "{name" in REMEDIES[name]},
}  # fmt: skip


@answering(_FOR_OPEN)
def cat(
    source: Source,
    decoder: str | os.PathLike[str] | None = None,
    *,
    trust: str | Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    fields: str | Sequence[str] | None = None,
    add_fields: str | Sequence[str] | None = None,
    on_error: str | None = None,
    max_errors: int | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    on_plugin_error: str | None = None,
    max_record: str | None = None,
    limits: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> Records:
    """The records of a source, one by one, to look at them. ::

        for record in pipemill.cat("train.csv", options={"types": "auto"}, limit=5):
            print(record["name"])

    A record is a dict of copies: numbers, ``str``, ``bytes``, numpy arrays, and None for a field
    that is absent. The arguments are those of :func:`open`; `limit` is the number of records. The
    result has `skipped`, as a :class:`Stream` has it, and `close()`.
    To train, use :func:`open`: it gives batches, without copies.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit={limit}: expected 0 or more records, or None")
    stream = open(
        source, decoder, trust=trust, options=options, fields=fields, add_fields=add_fields,
        on_error=on_error, max_errors=max_errors, quarantine=quarantine,
        on_plugin_error=on_plugin_error, max_record=max_record, limits=limits,
    )  # fmt: skip
    return Records(stream, limit)


def _records(stream: Stream, limit: int | None) -> Generator[dict[str, Any], None, None]:
    left = limit
    with stream:
        for batch in stream:
            for record in copied_records(batch):
                if left == 0:
                    return
                left = None if left is None else left - 1
                yield record


def _options(
    options: Mapping[str, Any] | None, fields: str | Sequence[str] | None
) -> dict[str, Any]:
    """The decoder's options for the configuration."""
    given = given_options(options, fields)
    return {
        name: literal(value) if isinstance(value, str) else value for name, value in given.items()
    }


def _texts(trust: str | Sequence[str] | None) -> list[str] | None:
    """The texts for the configuration."""
    texts = [trust] if isinstance(trust, str) else list(trust or ())
    return [literal(text) for text in texts] or None


def _names(add_fields: str | Sequence[str] | None) -> list[str] | None:
    """The names for the configuration."""
    return [literal(name) for name in add_fields_of(add_fields)] or None


def add_fields_of(add_fields: str | Sequence[str] | None) -> list[str]:
    """The names as a list."""
    return add_fields.split(",") if isinstance(add_fields, str) else list(add_fields or ())


def given_options(
    options: Mapping[str, Any] | None, fields: str | Sequence[str] | None
) -> dict[str, Any]:
    """The decoder's options, with `fields` among them."""
    given = dict(options or {})
    if fields is not None:
        if "fields" in given:
            raise ValueError('fields= and options={"fields": …} say the same; leave one out')
        given["fields"] = fields if isinstance(fields, str) else ",".join(fields)
    return given


def node_address(node: Node, text: str) -> Address:
    """The socket that all processes of this machine find: the same for the same job, the same
    arguments and the same number of such calls before. So other users can know it, too."""
    import hashlib

    global _opened_per_node
    _opened_per_node += 1
    words = "\0".join((node.job, str(_opened_per_node), text))
    path = f"{_folder_of_user()}/node-{hashlib.sha256(words.encode()).hexdigest()[:20]}.sock"
    return Address(path, can_be_guessed=True)


def lists_of_job(channel: Mapping[str, Any]) -> dict[str, str]:
    """The variable by which the hosts of this machine's processes, each of which has one of its own,
    find the list that one of them makes. It is the same for the same job, and the same number of
    such calls before. Empty if no launcher says which job this is, or nothing is listed once."""
    import hashlib

    global _opened_alone
    source = channel["source"]
    part = source.get("part")
    if part is None or "s3" not in source or source.get("list") == "epoch":
        return {}
    try:
        node = node_of((part["index"], part["count"]))
    except ValueError:
        return {}
    if node.local_world == 1 or not node.job.strip(","):
        return {}
    _opened_alone += 1
    words = "\0".join((node.job, str(_opened_alone)))
    name = hashlib.sha256(words.encode()).hexdigest()[:20]
    return {"PIPEMILL_NODE_LISTS": f"{_folder_of_user()}/lists-{name}"}


def _folder_of_user() -> str:
    """The folder of what the processes of this user share on this machine. The host makes it, and
    checks that it is this user's alone."""
    of_user = os.environ.get("XDG_RUNTIME_DIR")
    return f"{of_user}/pipemill" if of_user else f"/tmp/pipemill-{os.getuid()}"
