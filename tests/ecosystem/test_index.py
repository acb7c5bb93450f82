"""An index with the libraries that people train with: its length as `len(loader)`, and its file in pyarrow and DuckDB."""

import json

import duckdb
import pyarrow.parquet
import pytest
from e2e import PATIENCE, run
from pipemill.torch import Loader


@pytest.fixture
def index(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for number, count in enumerate((700, 0, 1500, 90)):
        text = "a,b\n" + "".join(f"{number * 10_000 + row},{row}.5\n" for row in range(count))
        (folder / f"{number}.csv").write_text(text)
    path = tmp_path / "train.index"
    finished = run("index", folder, "--out", path, "--distance", "4KiB")
    assert finished.returncode == 0, finished.stderr
    return path


@pytest.mark.parametrize("tail, batches", [("keep", 23), ("drop", 22), ("pad", 23)])
def test_the_length_of_a_loader_is_that_of_each_pass(index, tail, batches):
    loader = Loader(index, batch=100, tail=tail, epochs=2, timeout=PATIENCE)
    assert len(loader) == batches
    assert [sum(1 for _ in loader) for _ in range(2)] == [batches, batches]
    assert len(Loader(index, batch=100, steps=5, timeout=PATIENCE)) == 5
    with pytest.raises(TypeError, match="an index as its source"):
        len(Loader(index.parent / "data", batch=100, timeout=PATIENCE))


def test_the_length_of_ranks_whose_hosts_have_parts_is_the_least(index):
    loaders = [Loader(index, batch=50, tail="drop", rank=(rank, 2), epochs=1, timeout=PATIENCE) for rank in range(2)]
    lengths = [len(loader) for loader in loaders]
    assert lengths == [min(lengths)] * 2 and lengths[0] > 0


def test_a_loader_resumes_in_shuffled_blocks(index):
    how = {"batch": 50, "shuffle": {"seed": 3, "blocks": "64KiB", "window": 300}, "epochs": 1, "timeout": PATIENCE}
    whole = [batch["a"].tolist() for batch in Loader(index, **how)]
    first = Loader(index, **how)
    batches = iter(first)
    before = [next(batches)["a"].tolist() for _ in range(7)]
    state = json.loads(json.dumps(first.state_dict()))
    second = Loader(index, **how)
    second.load_state_dict(state)
    assert before + [batch["a"].tolist() for batch in second] == whole


def test_the_file_is_parquet(index):
    table = pyarrow.parquet.read_table(index)
    assert table["records"].to_pylist() == [700, 0, 1500, 90]
    facts = json.loads(table.schema.metadata[b"pipemill.index"])
    assert (facts["records"], facts["decoder"]) == (2290, "csv")
    rows = duckdb.sql(f"select object, records, len(places) from read_parquet('{index}') order by object").fetchall()
    assert [row[:2] for row in rows] == [("0.csv", 700), ("1.csv", 0), ("2.csv", 1500), ("3.csv", 90)]
    assert [row[2] for row in rows] == [len(places) for places in table["places"].to_pylist()]


def take(loader, steps):
    batches = iter(loader)
    return [next(batches)["a"].tolist() for _ in range(steps)]


def test_half_of_the_ranks_go_on_in_shards(index):
    """Loaders of one, two and four ranks give the same batches together, and go on with the state of any other rank."""
    how = {"tail": "drop", "shuffle": {"seed": 3, "blocks": "64KiB", "shards": 4}, "epochs": 2, "timeout": PATIENCE}

    def loaders(world, state=None):
        ranks = [Loader(index, batch=40 // world, rank=(rank, world), **how) for rank in range(world)]
        for loader in ranks:
            if state is not None:
                loader.load_state_dict(json.loads(json.dumps(state)))
        return ranks

    def together(ranks):
        return [sum(step, []) for step in zip(*ranks)]

    whole = [batch["a"].tolist() for batch in loaders(1)[0]]
    assert len(whole) == 2290 // 4 // 10 == len(loaders(4)[3])
    seen, state = [], None
    for world, steps in [(4, 10), (2, 15), (1, 7), (4, 20)]:
        ranks = loaders(world, state)
        seen += together([take(loader, steps) for loader in ranks])
        assert seen == whole[: len(seen)]
        state = ranks[-1].state_dict()
    [alone] = loaders(1, state)
    assert seen + [batch["a"].tolist() for batch in alone] == whole
    # Between two passes.
    state = alone.state_dict()
    second = [batch["a"].tolist() for batch in alone]
    assert second != whole and len(second) == len(whole)
    for world in (2, 4):
        ranks = loaders(world, state)
        assert together([[batch["a"].tolist() for batch in loader] for loader in ranks]) == second
