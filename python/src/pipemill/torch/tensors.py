"""Tensors over a batch, without a copy of its payload.

The tensors can be written to. The changes stay in the program: neither the host nor another
consumer ever sees them, and the next batch in the same memory does not show them. See `memory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch

from ..absent import AbsentValues, replaced
from ..column import Column
from ..dense_view import note
from ..numpy_arrays import array_of, dtype_of, payload_array
from ..protocol import ABSENT
from ..schema import MISSING, SCALARS, STRINGS
from .staging import Staging

if TYPE_CHECKING:
    from ..batch import Batch

#: Suffix of a field's name in the name of the tensor that says which records have the field.
PRESENT = ".present"


class Tensors(dict):  # type: ignore[type-arg]  # PyTorch wants a mapping that it can copy
    """A batch as tensors: a ``dict`` of the fields by name.

    :func:`tensors` makes it. It can be pickled, and PyTorch's ``pin_memory`` knows it.
    """

    #: Number of real records. Those after them are copies, see :attr:`pipemill.Batch.valid`.
    valid: int
    #: Number of the epoch, from 0.
    epoch: int
    #: Number of the batch in the channel, from 0.
    number: int

    def to(self, device: Any, non_blocking: bool = False) -> Tensors:
        """The same with all tensors on `device`.

        From memory to a GPU, the copy goes through pinned memory that is used again. So the batch's
        own memory is free as soon as this returns, even if `non_blocking` is true.
        """
        return self._mapped(lambda tensor: _staging.to(tensor, torch.device(device), non_blocking))

    def pin_memory(self, device: Any = None) -> Tensors:
        """The same with all tensors in pinned memory, which a GPU copies from on its own. Without
        a GPU, the same tensors."""
        if not torch.cuda.is_available():
            return self
        return self._mapped(lambda tensor: tensor.pin_memory())

    def _mapped(self, change: Any) -> Tensors:
        other = Tensors({name: _each(value, change) for name, value in self.items()})
        other.__dict__.update(self.__dict__)
        return other


_staging = Staging()


def tensors(
    batch: Batch,
    copy: bool = False,
    absent: Mapping[str, Any] | AbsentValues | None = None,
    dense: Sequence[str] | str = (),
) -> Tensors:
    """The fields of a batch as tensors:

    ==========================================  ===============================================
    numbers, all of one shape                   tensor ``(n,)`` or ``(n, *shape)``
    numbers with a 0 in the shape               list of n tensors
    ``bytes``                                   list of n tensors of ``uint8``
    numbers with categories                     tensor ``(n,)`` of the codes
    ``utf8``                                    list of ``str``
    lists of ``utf8`` or ``bytes``              list of lists of ``str`` or of tensors
    ==========================================  ===============================================

    The tensors have the field's type, bfloat16 and the unsigned ones too. Whether a field is one
    tensor or a list depends only on its type, not on the lengths in this batch.

    :param dense: names of fields of bytes, or of numbers with a 0 in the shape, that are equally
        long in all records of a batch. Such a field is one tensor, ``(n, length)``, as
        :meth:`pipemill.Batch.dense` gives it, and other lengths are a :class:`ValueError`.
    :param absent: the values for records that do not have a field, by the names of fields:
        ``absent={"age": float("nan"), "label": -1}``. Without such a value, a list has None there,
        and an absent number is an :class:`AbsentError`, because a tensor can't represent it. A
        value that the field's type can't hold is an error, too.

    A field that records may lack has a second tensor, ``"NAME.present"``, ``(n,)`` of ``bool``. If
    another field has that name, it is a :class:`ValueError`.

    The tensors are views of the shared memory if its numbers are aligned, and otherwise copies.
    They hold the batch as arrays do, see :class:`pipemill.Batch`. In-place operations are allowed,
    and stay in this program: the kernel copies a page when it is first written to. That costs more
    than a copy does, so pass ``copy=True`` if you write to most of a batch: then the tensors are
    views of this program's own copy of the payload, and hold no memory of the host.
    """
    payload = None if copy else batch._writable_payload()
    if payload is None:
        payload = memoryview(bytearray(batch.payload))
    return tensors_over(batch, payload, absent, dense)


def tensors_over(
    batch: Batch,
    payload: memoryview,
    absent: Mapping[str, Any] | AbsentValues | None,
    dense: Sequence[str] | str,
) -> Tensors:
    """The fields of a batch as tensors: see :func:`tensors`. They are views of `payload`."""
    raw = payload_array(payload)
    if absent is not None and not isinstance(absent, AbsentValues):
        absent = AbsentValues(absent)
    values = absent.of(batch.fields) if absent else {}
    whole = _dense_names(batch, dense) if dense else ()
    found, seconds, checked = Tensors(), 0, batch._checked
    for index, field in enumerate(batch.fields):
        view = (checked.dense if field.name in whole else checked.whole).get(field.name)
        if view is not None and not field.nullable:
            array = view.array(batch, raw)
            if array is not None:
                found[field.name] = _of_array(array, field.scalar)
                continue
        column, value = batch._column(index), values.get(field.name, MISSING)
        if field.scalar == "utf8":
            found[field.name] = column.all(value)
        else:
            column = column.over(payload, raw)
            found[field.name] = _of_column(column, value, field.name in whole)
            if column.spans.recipe is not None:
                note(batch, index, column)
        if field.nullable:
            found[field.name + PRESENT] = _present(column)
            seconds += 1
    if seconds and len(found) < len(batch.fields) + seconds:
        _raise_same_name(batch)
    found.valid, found.epoch, found.number = batch.valid, batch.epoch, batch.number
    return found


def _raise_same_name(batch: Batch) -> NoReturn:
    names = {field.name for field in batch.fields}
    for field in batch.fields:
        second = field.name + PRESENT
        if field.nullable and second in names:
            raise ValueError(
                f"fields {field.name!r} and {second!r} of {batch._name()}: records may lack the "
                f"first one, so it has a second tensor, which would be called {second!r}, too; "
                "leave one of them out, or let the decoder call it something else: see its options, "
                "such as `fields`, or `columns` and `names` of csv"
            )
    raise AssertionError("the names of fields differ")


def _dense_names(batch: Batch, dense: Sequence[str] | str) -> frozenset[str]:
    """The names of the fields that are to be one tensor."""
    names = frozenset((dense,) if isinstance(dense, str) else dense)
    for name in names:
        batch._field_index(name)  # raises KeyError
    return names


def _of_column(column: Column, absent: Any, dense: bool) -> Any:
    field = column.field
    if field.scalar in STRINGS and field.shape:
        rows = column.all(absent)
        return [one and [_of_array(_bytes(part)) for part in one] for one in rows]
    if dense or not (0 in field.shape or field.scalar == "bytes"):
        return _of_array(column.filled(absent), field.scalar)
    if not column.is_even():
        return _uneven(column, absent)
    return list(_of_array(column.dense(), field.scalar).unbind())


def _uneven(column: Column, absent: Any) -> list[torch.Tensor | None]:
    """A tensor for each record. All are parts of one tensor, so that it takes one descriptor and
    not thousands to pass them to another process. None if a record does not have the field."""
    field = column.field
    itemsize = SCALARS[field.scalar][0]
    starts, lengths = column.offsets.astype(np.int64), column.lengths.astype(np.int64)
    starts[starts == ABSENT] = 0
    scalar, raw = "uint8" if field.scalar == "bytes" else field.scalar, column.raw
    if itemsize > 1 and (starts % itemsize).any():
        # Numbers at odd addresses, which tensors can't have: a copy of all of them, in a row.
        raw = np.concatenate([raw[at : at + size] for at, size in zip(starts, lengths)])
        starts = np.cumsum(lengths) - lengths
    whole = _of_array(raw[: len(raw) // itemsize * itemsize].view(dtype_of(scalar)), scalar)
    firsts, ends = (starts // itemsize).tolist(), ((starts + lengths) // itemsize).tolist()
    parts: list[Any] = [whole[first:end] for first, end in zip(firsts, ends)]
    if len(field.shape) > 1 and field.shape.count(0) == 1:
        shape = [size or -1 for size in field.shape]
        parts = [part.view(shape) for part in parts]
    for row in column.absent:
        parts[row] = None
    if absent is MISSING or not len(column.absent):
        return parts
    return replaced(parts, _of_array(array_of(field, absent), scalar))


def _bytes(value: Any) -> Any:
    return np.frombuffer(value, "u1") if len(value) else np.empty(0, "u1")


def _of_array(array: Any, scalar: str = "uint8") -> torch.Tensor:
    flags = array.flags
    if not flags.aligned:
        array = array.copy()
    elif not flags.writeable:
        # An array that was made for this batch, because its rows are not evenly spaced.
        flags.writeable = True
    if scalar == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _present(column: Column) -> torch.Tensor:
    present = torch.ones(column.spans.count, dtype=torch.bool)
    if len(column.absent):
        present[torch.from_numpy(column.absent)] = False
    return present


def _each(value: Any, change: Any) -> Any:
    """`value` with all tensors in it changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if not isinstance(value, list) or not value or isinstance(value[0], str):
        return value
    span = _span(value)
    if span is None:
        return [_each(one, change) for one in value]
    whole, first = span
    whole = change(whole)
    return [None if one is None else _part_of(whole, one, first) for one in value]


def _span(parts: list[Any]) -> tuple[torch.Tensor, int] | None:
    """A tensor from the first of these parts of one tensor to the last, and where it begins: so
    that it takes one copy and not one for each part. None if they are not such parts, or many other
    bytes lie between them."""
    some = [one for one in parts if one is not None]
    if not some or not all(isinstance(one, torch.Tensor) for one in some):
        return None
    address = some[0].untyped_storage().data_ptr()
    for one in some:
        if not one.is_contiguous() or one.untyped_storage().data_ptr() != address:
            return None
    first = min(one.storage_offset() for one in some)
    last = max(one.storage_offset() + one.numel() for one in some)
    if last - first > 2 * sum(one.numel() for one in some):
        return None
    return some[0].as_strided((last - first,), (1,), first), first


def _part_of(whole: torch.Tensor, part: torch.Tensor, first: int) -> torch.Tensor:
    at = part.storage_offset() - first
    return whole[at : at + part.numel()].view(part.shape)
