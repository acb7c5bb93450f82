"""Makes the array of a field in few steps, if an earlier batch has the same layout, the same flags
and the same index. Then all of it was checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .number_column import NumberColumn
from .spans import arrays

if TYPE_CHECKING:
    from .batch import Batch
    from .column import Column

#: None without numpy: then there are no recipes.
_view_of: Any = getattr(arrays, "view_of", None)


class DenseView:
    """The shape, the type and the place of an array, and the index that determines them."""

    __slots__ = ("layout", "flags", "index", "more", "bytes", "shape", "dtype", "at", "strides")

    def __init__(self, batch: Batch, number: int, column: Column) -> None:
        """`column` is that of the field of this number. Its recipe is known."""
        self.layout = layout = batch._layout
        self.flags = batch._head[3]
        #: The lists of the field and their places in the batch: two if there is a gap after the
        #: offsets, and none if the values are even, which the layout says.
        self.bytes: bytes | None = None
        self.index: slice | None = None
        self.more: slice | None = None
        if column.spans.index is not None:
            offsets, lengths = column.spans.index
            self.bytes = offsets + lengths
            self.index, self.more = layout.list(number, 0), layout.list(number, 1)
            if self.index.stop == self.more.start:
                self.index, self.more = slice(self.index.start, self.more.stop), None
        assert column.spans.recipe is not None
        self.shape, self.dtype, place, self.strides = column.spans.recipe
        self.at = place + layout.payload_at

    def array(self, batch: Batch, payload: Any = None) -> Any:
        """The array of a batch, over this array of its payload if there is one. None if the batch
        was given back, or is not like the one of this view."""
        memory, layout = batch._memory, self.layout
        if memory is None or batch._layout is not layout or batch._head[3] != self.flags:
            return None
        if self.index is not None:
            index = memory[self.index].tobytes()
            if self.more is not None:
                index += memory[self.more].tobytes()
            if index != self.bytes:
                return None
        if payload is not None:
            at = self.at - layout.payload_at
            return _view_of(self.shape, self.dtype, payload, at, self.strides)
        raw = batch._raw
        if raw is None:
            raw = batch._raw = arrays.payload_array(memory)
        return _view_of(self.shape, self.dtype, raw, self.at, self.strides)


def note(batch: Batch, number: int, column: Column) -> None:
    """Notes how the array of this column was made, because the next batches may be like this
    one."""
    spans = column.spans
    if spans.recipe is None or (spans.index and not isinstance(spans.index[0], bytes)):
        return
    view, name = DenseView(batch, number, column), column.field.name
    batch._checked.dense[name] = view
    if type(column) is NumberColumn and spans.size is not None:
        batch._checked.whole[name] = view
