"""Sources whose objects drift: an index of them gives the records of `pipemill.open`, or is refused with its error."""

import pipemill
import pytest
from drift import case, core, reference, rows_of
from e2e import PATIENCE, run


@pytest.mark.parametrize("seed", range(48))
def test_an_index_gives_what_its_source_gives(seed, tmp_path):
    one = case(seed)
    data, index = tmp_path / "data", tmp_path / "x.index"
    data.mkdir()
    expected = reference(one, one.written(data))
    decoder = ["-d", one.decoder] if one.decoder else []
    options = [part for name, value in (one.options or {}).items() for part in ("-o", f"{name}={value}")]
    finished = run("index", data, "--out", index, "--distance", "4KiB", *decoder, *options)
    said = finished.stderr.decode()
    if expected.error is not None:
        assert finished.returncode != 0 and not index.exists()
        what = core(expected.error)
        assert what.partition(": ")[2].partition(" [bytes there")[0] in said, (what, said)
        return
    assert finished.returncode == 0, said
    for more in ({}, {"workers": 2}, {"batch": 3, "shuffle": {"seed": seed, "blocks": "64KiB"}}):
        with pipemill.open(index, timeout=PATIENCE, **more) as stream:
            fields = stream.fields
            records = [row for batch in stream for row in rows_of(batch)]
            assert stream.records == len(records)
        assert fields == expected.fields
        in_order = (lambda rows: sorted(rows, key=str)) if "shuffle" in more else list
        assert in_order(records) == in_order(expected.records)
