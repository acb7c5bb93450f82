"""Sources whose objects drift, through each library: it returns the records of `pipemill.open`, or
refuses what `pipemill.open` refuses, with the same text. `tests/open/test_drift.py` does this
without these libraries."""

import datetime
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax  # noqa: E402
import numpy as np  # noqa: E402
import pipemill.grain  # noqa: E402
import pipemill.hf  # noqa: E402
import pipemill.jax  # noqa: E402
import pipemill.ray  # noqa: E402
import pipemill.tf  # noqa: E402
import pytest  # noqa: E402
import tensorflow as tf  # noqa: E402
import torch  # noqa: E402
from drift import absent_fields, assert_same, case, core, filled, outcome_of, reference, value_for  # noqa: E402
from e2e import PATIENCE  # noqa: E402
from pipemill.torch import Loader  # noqa: E402

import pipemill  # noqa: E402

SEEDS = range(100, 124)
STRINGS = ("utf8", "bytes")


@pytest.fixture(scope="module", params=SEEDS, ids=lambda seed: f"{seed}-{case(seed).name}")
def drifting(request, tmp_path_factory):
    """A case, its folder, the result of `pipemill.open`, and values for the fields that some
    records lack.
    """
    one = case(request.param)
    folder = one.written(tmp_path_factory.mktemp("case"))
    expected = reference(one, folder)
    return one, folder, expected, {field.name: value_for(field) for field in absent_fields(expected)}


def check(read, expected, values, needs_value):
    """Checks the result of `read` with these values, and that it raises without them if a field
    `needs_value`.
    """
    assert_same(outcome_of(lambda: read(values)), expected._replace(records=filled(expected, values)))
    needed = [field for field in absent_fields(expected) if needs_value(field)]
    found = outcome_of(lambda: read({}))
    if needed:
        assert "AbsentError" in str(found.error) + type(found.error).__name__
        assert "is absent in" in str(found.error)
    else:
        assert_same(found, expected)


def is_array(field):
    """Whether all records have numbers of one shape, so that they are one array."""
    return field.scalar not in STRINGS and 0 not in field.shape


def test_torch(drifting):
    one, folder, expected, values = drifting

    def read(absent):
        loader = Loader(folder, one.decoder, options=one.options, absent=absent, epochs=1, timeout=PATIENCE)
        try:
            for batch in loader:
                for field in expected.fields:
                    assert isinstance(batch[field.name], torch.Tensor) == is_array(field)
                    if f"{field.name}.present" in batch:
                        assert field.nullable and batch[f"{field.name}.present"].dtype == torch.bool
                columns = [batch[field.name] for field in expected.fields]
                yield from zip(*([value_of(one, field) for one in column] for field, column in zip(expected.fields, columns)))
        finally:
            loader.close()

    check(read, expected, values, is_array)


def value_of(tensor, field):
    if isinstance(tensor, torch.Tensor):
        return bytes(tensor.tolist()) if field.scalar == "bytes" else tensor.tolist()
    return tensor


def test_grain(drifting):
    one, folder, expected, values = drifting

    def read(absent):
        more = {"options": one.options, "absent": absent, "timeout": PATIENCE}
        for batch in pipemill.grain.dataset(folder, one.decoder, **more):
            assert all(isinstance(batch[field.name], np.ndarray) == is_array(field) for field in expected.fields)
            yield from zip(*batch.values())

    check(read, expected, values, is_array)


def test_tensorflow(drifting):
    one, folder, expected, values = drifting

    def read(absent):
        more = {"options": one.options, "absent": absent, "timeout": PATIENCE}
        for batch in pipemill.tf.dataset(folder, one.decoder, **more):
            columns = []
            for field in expected.fields:
                column = batch[field.name]
                rows = column.to_list() if isinstance(column, tf.RaggedTensor) else column.numpy().tolist()
                columns.append([decoded(row) for row in rows] if field.scalar == "utf8" else rows)
            yield from zip(*columns)

    check(read, expected, values, lambda field: True)


def decoded(value):
    return [one.decode() for one in value] if isinstance(value, list) else value.decode()


def test_jax(drifting):
    one, folder, expected, values = drifting
    numbers = [at for at, field in enumerate(expected.fields) if field.scalar not in STRINGS]
    names = [expected.fields[at].name for at in numbers]

    def read(absent):
        with pipemill.open(folder, one.decoder, options=one.options, timeout=PATIENCE) as stream:
            for batch in stream:
                values = {name: value for name, value in absent.items() if name in names}
                arrays = pipemill.jax.arrays(batch, absent=values)
                assert list(arrays) == names and all(isinstance(array, jax.Array) for array in arrays.values())
                yield from zip(*(np.asarray(array) for array in arrays.values()))

    found = outcome_of(lambda: read(values))
    rows = [[row[at] for at in numbers] for row in filled(expected, values)]
    if isinstance(found.error, (TypeError, ValueError)):
        # JAX has no arrays of text, of bytes, or of arrays of several lengths.
        uneven = any(0 in expected.fields[at].shape for at in numbers)
        assert "not equally long" in str(found.error) if uneven else not numbers
        assert found.records == rows[: len(found.records)]
    elif numbers:
        # Numbers of 32 bits, which represent those of the cases exactly.
        assert_same(found, expected._replace(records=rows))


def number_of(value):
    """The number that the date was made from."""
    return (value - datetime.date(1970, 1, 1)).days if isinstance(value, datetime.date) else value


def test_hugging_face(drifting):
    one, folder, expected, values = drifting
    def read(absent):
        more = {"options": one.options, "absent": absent, "timeout": PATIENCE}
        for record in pipemill.hf.iterable(folder, one.decoder, **more):
            assert list(record) == [field.name for field in expected.fields]
            yield map(number_of, record.values())

    check(read, expected, values, lambda field: False)


def test_ray(drifting):
    """The work of its read tasks; test_ray.py runs it on a cluster."""
    one, folder, expected, values = drifting
    def read(absent):
        source = pipemill.ray.Datasource(folder, one.decoder, options=one.options, absent=absent, rows_per_block=4)
        schemas = set()
        for task in source.get_read_tasks(2):
            for block in task.read_fn():
                schemas.add(str(block.schema))
                yield from zip(*(map(number_of, column.to_pylist()) for column in block.columns))
        assert len(schemas) < 2, "all blocks have one schema"

    for absent in (values, {}):
        found = outcome_of(lambda: read(absent))
        if expected.error is None:
            assert found.error is None
            assert sorted(found.records, key=str) == sorted(filled(expected, absent), key=str)
        else:
            # A task with other objects may come first, and then the message names another of the
            # objects that differ.
            assert isinstance(found.error, pipemill.DecodeError), core(expected.error)
