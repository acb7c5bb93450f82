"""Sources whose objects drift: whatever deals them out, and whatever takes the records, returns
those of `pipemill.open`, or refuses what `pipemill.open` refuses, with the same text.

`tests/ecosystem/test_drift.py` does this with the libraries that people train with.
"""

import pickle

import pipemill
import pytest
from drift import absent_fields, assert_same, case, filled, outcome_of, plain, reference, rows_of, value_for
from e2e import PATIENCE
from pipemill.objects import deal, list_objects
from pipemill.tasks import TaskReader


SEEDS = range(48)


@pytest.fixture(scope="module", params=SEEDS, ids=lambda seed: f"{seed}-{case(seed).name}")
def drifting(request, tmp_path_factory):
    """A case, its folder, and the result of `pipemill.open`."""
    one = case(request.param)
    folder = one.written(tmp_path_factory.mktemp("case"))
    return one, folder, reference(one, folder)


def test_tasks_and_ranks_that_read_some_objects_each(drifting):
    """Hugging Face reads each object alone, Ray shares of several, and each rank its part with a host of its own."""
    one, folder, expected = drifting

    def read(parts):
        objects = list_objects(folder)
        reader = TaskReader(folder, [object.name for object in objects], one.decoder, options=one.options)
        assert not expected.fields or reader.fields == expected.fields
        for part in parts(objects):
            with pickle.loads(pickle.dumps(reader)).open([object.name for object in part], timeout=PATIENCE) as stream:
                for batch in stream:
                    assert batch.fields == reader.fields
                    yield from rows_of(batch)

    assert_same(outcome_of(lambda: read(lambda objects: [[object] for object in objects])), expected)
    shares = outcome_of(lambda: read(lambda objects: deal(objects, 2)))
    ranks = [reference(one, folder, rank=(rank, 2)) for rank in range(2)]
    if expected.error is not None:
        # The first of the objects that differ is not the same one as in the order of the source.
        assert isinstance(shares.error, pipemill.DecodeError)
        assert any(rank.error for rank in ranks)
        return
    assert shares.error is None
    # A rank whose objects have no record gets an error.
    assert all(rank.error is None or not rank.records and "got no batch" in str(rank.error) for rank in ranks)
    assert in_order(shares.records) == in_order(expected.records)
    assert in_order([record for rank in ranks for record in rank.records]) == in_order(expected.records)
    assert {rank.fields for rank in ranks} <= {expected.fields, ()}


def in_order(records):
    return sorted(records, key=str)


def test_columns_of_numpy_and_of_arrow(drifting):
    """A column has one kind, which follows from its type. An absent number is an error, unless the program says what to take;
    Arrow has a null."""
    one, folder, expected = drifting
    missing = absent_fields(expected)
    values = {field.name: value_for(field) for field in missing}

    def read(absent, rows=lambda columns: zip(*columns)):
        with pipemill.open(folder, one.decoder, options=one.options, timeout=PATIENCE) as stream:
            for batch in stream:
                assert rows_of_arrow(batch) == rows_of(batch)
                columns = []
                for field in batch.fields:
                    column = batch.column(field.name, **absent(field.name))
                    is_list = field.scalar in ("utf8", "bytes") or 0 in field.shape
                    assert isinstance(column, list) == is_list
                    columns.append(column)
                yield from rows(columns)

    given = outcome_of(lambda: read(lambda name: {"absent": values[name]} if name in values else {}))
    assert_same(given, expected._replace(records=filled(expected, values)))
    if any(field.scalar not in ("utf8", "bytes") and 0 not in field.shape for field in missing):
        found = outcome_of(lambda: read(lambda name: {}))
        assert isinstance(found.error, pipemill.AbsentError)
        assert found.records == expected.records[: len(found.records)]


def rows_of_arrow(batch):
    """The records of a batch, through Arrow. A date or a time is the number it was made from."""
    import pyarrow as pa

    columns = []
    for field, column in zip(batch.fields, batch.to_arrow().columns):
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.int32() if field.scalar == "int32" else pa.int64())
        columns.append(column.to_pylist())
    return [[plain(value) for value in row] for row in zip(*columns)]


def test_the_cases_drift_in_each_way():
    names = {case(seed).name for seed in SEEDS}
    assert len(names) > 25 and {name.partition("-")[0] for name in names} == {"csv", "npy", "jsonl", "tar", "formats", "dense"}
