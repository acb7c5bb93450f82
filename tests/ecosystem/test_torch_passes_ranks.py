"""The tables of docs/pytorch.md on ranks: each rank goes on exactly from its own state, or from that of rank 0."""

import json

import pipemill
import pytest
import rank_passes
from e2e import PATIENCE
from pipemill.torch import Loader
from ranks import forkserver, run_ranks
from tables import table

ROWS, COLUMNS = table("| hosts of the ranks |")
CHANGES, PLACES = table("| ranks |")
#: Records of the objects, for one rank of each host. Every second one is a host's. Unequal: 5 batches of an epoch, and 3
#: or 4.
EQUAL, UNEQUAL = (10, 10, 10, 10), (8, 5, 12, 8)
#: Whole passes, and batches of the next one. With steps, ranks are in the same epoch at first, then in different ones,
#: and then more than one epoch has ended.
STOPS = {
    "steps=2": [(0, 1), (1, 1), (2, 0), (4, 1), (9, 1)],
    "": [(0, 3), (0, 4), (1, 0), (1, 2), (1, 5)],
}
#: One division without shuffling, and one that is another one in each epoch.
ORDERS = {"in order": {"tail": "drop"}, "shuffled": {"tail": "pad", "shuffle": {"seed": 3, "window": 9}}}


@pytest.fixture(scope="module")
def ranks_of():
    """Runs a function of rank_passes in as many processes as there are ranks."""
    context = forkserver("rank_passes")

    def run(what, world, per_machine, *words):
        barrier = context.Barrier(world)
        run_ranks(context, _run, [(what, barrier, rank, world, per_machine, *words) for rank in range(world)])

    return run


def _run(what, barrier, *words):
    getattr(rank_passes, what)(*words, lambda: barrier.wait(PATIENCE))


def write(folder, counts):
    """Objects of these numbers of records; all records are different. The pattern of their names."""
    folder.mkdir()
    for number, count in enumerate(counts):
        rows = "".join(f"{1000 * number + at}\n" for at in range(count))
        (folder / f"{number}.csv").write_text(rows)
    return str(folder / "*.csv")


def read(path):
    return json.loads(path.read_text())


def cells():
    for hosts, *words in ROWS:
        for column, cell in zip(COLUMNS[1:], words):
            for order in ORDERS:
                yield pytest.param(hosts, column, cell, order, id=f"{hosts}, {column}, {order}".replace("`", ""))


@pytest.fixture(scope="module")
def wholes():
    """What each rank is delivered that is not stopped, for each kind of hosts."""
    return {}


@pytest.mark.parametrize("hosts, column, cell, order", list(cells()))
def test_each_rank_goes_on_where_it_was(ranks_of, wholes, tmp_path, hosts, column, cell, order):
    per_node, of_rank_0 = "per-node" in hosts, "state of rank 0" in column
    ranks = 4 if "two machines" in hosts else 2
    counts = UNEQUAL if "unequal" in hosts else EQUAL
    source = write(tmp_path / "data", [count * ranks // 2 for count in counts])
    how = {**ORDERS[order], "host": "per-node" if per_node else None}
    if (hosts, order) not in wholes:
        ranks_of("stop", ranks, 2, tmp_path, source, {**how, "steps": 40}, [(1, 0)])
        wholes[hosts, order] = [read(tmp_path / f"0.{rank}.json")["got"] for rank in range(ranks)]
    whole = wholes[hosts, order]
    how["steps"] = None if "no `steps`" in column else 2
    stops = STOPS["steps=2" if how["steps"] else ""]
    ranks_of("stop", ranks, 2, tmp_path, source, how, stops)
    ranks_of("go_on", ranks, 2, tmp_path, source, how, len(stops), of_rank_0)
    refused = 0
    for number, (passes, batches) in enumerate(stops):
        # Where rank 0 has ended its pass, which is shorter than another rank's, no rank is in the middle of one.
        in_pass = [sum(epoch == passes for epoch, _ in one) for one in whole]
        for rank in range(ranks):
            before = read(tmp_path / f"{number}.{rank}.json")["got"]
            after = read(tmp_path / f"{number}.{rank}.then.json")
            if of_rank_0 and not how["steps"] and batches > min(in_pass[0], in_pass[rank]):
                if batches <= in_pass[0]:
                    assert f"after {batches} batches of epoch {passes}" in after["error"]
                    refused += 1
                continue
            assert after["error"] is None
            assert before == whole[rank][: len(before)]
            assert after["got"] == whole[rank][len(before) :][: len(after["got"])] and len(after["got"]) >= 5
    assert ("error" in cell) == (refused > 0), "the table is right"


#: The numbers of ranks and their hosts of the second table: before, and then.
WORLDS = {
    "a host for each: 2, then 1": ((2, None), (1, None)),
    "a host for each: 1, then 2": ((1, None), (2, None)),
    "a host for each: 2, then 3": ((2, None), (3, None)),
    '`host="per-node"`: 2, then 1': ((2, "per-node"), (1, "per-node")),
    '`host="per-node"`: 1, then 2': ((1, "per-node"), (2, "per-node")),
    'a host for each of 2, then `host="per-node"` for 2': ((2, None), (2, "per-node")),
    '`host="per-node"` for 2, then a host for each of 2': ((2, "per-node"), (2, None)),
}
#: The columns of that table: the steps of a pass, and where the ranks stop.
WHERE = {
    "after a pass without `steps=`": (None, [(1, 0), (2, 0)]),
    "inside of an epoch": (None, [(0, 1), (1, 2)]),
    "with `steps=`, at any step": (2, [(0, 1), (1, 0), (3, 1)]),
}


def in_turn(ranks):
    """The batches of all ranks, in their order. Batches of copies fill the last round of an epoch."""
    assert len({len(one) for one in ranks}) == 1
    return [one for of_round in zip(*ranks) for one in of_round if one[1]]


@pytest.mark.parametrize("change, column, cell", [
    pytest.param(change, column, cell, id=f"{change}, {column}".replace("`", ""))
    for change, *words in CHANGES for column, cell in zip(PLACES[1:], words)
])  # fmt: skip
def test_the_number_of_ranks_changes_where_the_table_says(ranks_of, tmp_path, change, column, cell):
    source = write(tmp_path / "data", UNEQUAL)
    (before, host_before), (then, host) = WORLDS[change]
    steps, stops = WHERE[column]
    how = {**ORDERS["shuffled"], "steps": steps}
    ranks_of("stop", before, before, tmp_path, source, {**how, "host": host_before}, stops)
    ranks_of("go_on", then, then, tmp_path, source, {**how, "host": host}, len(stops), True)
    for number, (passes, _) in enumerate(stops):
        ranks = [read(tmp_path / f"{number}.{rank}.then.json") for rank in range(then)]
        if cell == "error":
            assert all("the number of ranks can change where an epoch begins" in one["error"] for one in ranks)
            continue
        assert all(one["error"] is None for one in ranks)
        if column != PLACES[1]:
            # The sequence of all batches is that of one rank.
            stopped = [read(tmp_path / f"{number}.{rank}.json")["got"] for rank in range(before)]
            seen = in_turn(stopped) + in_turn([one["got"] for one in ranks])
            if not (tmp_path / "one").exists():
                (tmp_path / "one").mkdir()
                ranks_of("stop", 1, 1, tmp_path / "one", source, {**how, "steps": 40}, [(1, 0)])
            whole = [one for one in read(tmp_path / "one" / "0.0.json")["got"] if one[1]]
            assert seen == whole[: len(seen)] and len(seen) >= len(in_turn(stopped)) + 5
            continue
        for epoch in range(passes, passes + 3):
            rows = sorted(row for one in ranks for at, rows in one["got"] if at == epoch for row in rows)
            assert rows == sorted(1000 * at + row for at, count in enumerate(UNEQUAL) for row in range(count))


@pytest.fixture
def rank_of(tmp_path, monkeypatch):
    """Makes the Loader of one of two ranks that have a host each, and unequal shares: epochs of 5 batches, and of 3."""
    source, made = write(tmp_path / "data", UNEQUAL), []

    def rank_of(rank, **how):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        made.append(Loader(source, "csv", options={"types": "int64"}, batch=4, tail="drop", **how))
        return made[-1]

    yield rank_of
    for one in made:
        one.close()


def deliver(loader, count):
    """So many batches of a Loader with steps, across passes."""
    got = []
    while len(got) < count:
        for batch in loader:
            got.append(batch["f0"].tolist())
            if len(got) == count:
                break
    return got


@pytest.mark.parametrize("shuffle", [None, 3])
@pytest.mark.parametrize("steps", [1, 3, 7, None])
def test_rank_1_goes_on_from_the_state_of_rank_0_with_another_number_of_steps(rank_of, steps, shuffle):
    whole = deliver(rank_of(1, steps=50, shuffle=shuffle), 30)
    first = rank_of(0, steps=4, shuffle=shuffle)
    for count in (3, 6, 9, 12, 15):
        deliver(first, 3)  # a pass that is left ends with them, and the next one goes on
        state = json.loads(json.dumps(first.state_dict()))
        one = rank_of(1, steps=steps, shuffle=shuffle)
        one.load_state_dict(state)
        # To leave a pass that is an epoch would end it.
        got = deliver(one, 9) if steps else sum(([b["f0"].tolist() for b in one] for _ in range(2)), [])
        assert got == whole[count : count + len(got)]


def test_a_rank_that_reads_several_epochs_again_says_so_in_the_log(rank_of, caplog):
    first, second = rank_of(0, steps=4, shuffle=3), rank_of(1, steps=4, shuffle=3)
    deliver(first, 7)
    second.load_state_dict(first.state_dict())
    deliver(second, 1)
    assert "reads 7 batches again, of epoch 0 and those after it" in caplog.text


def test_ranks_that_may_be_in_different_epochs_need_their_own_states(rank_of):
    first = rank_of(0, steps=4)
    deliver(first, 4)
    state = first.state_dict()
    first = rank_of(0)
    first.load_state_dict(state)
    assert [len(list(first)) for _ in range(2)] == [1, 5]
    state = json.loads(json.dumps(first.state_dict()))
    with pytest.raises(ValueError, match="Give each rank the state that it has saved, or keep steps="):
        rank_of(1).load_state_dict(state)
    first = rank_of(0)
    first.load_state_dict(state)
    assert next(iter(first)).epoch == 2


def test_the_state_of_another_part_needs_batches_of_a_fixed_size(rank_of):
    first = rank_of(0)
    state = first.state_dict()
    next(iter(first))
    inside = first.state_dict()
    for one in (state, inside):
        one["stream"]["settings"] = {**one["stream"]["settings"], "batch": "none"}
    rank_of(1).load_state_dict(state)  # at the beginning of an epoch, nothing was delivered of it
    with pytest.raises(ValueError, match="without batch=, nobody knows"):
        rank_of(1).load_state_dict(inside)


@pytest.mark.parametrize("shuffle", [None, 3])
def test_a_place_after_the_last_epoch_is_an_error(rank_of, shuffle):
    first = rank_of(0, steps=4, epochs=2, shuffle=shuffle)
    deliver(first, 8)  # rank 1 has fewer in two epochs
    one = rank_of(1, steps=4, epochs=2, shuffle=shuffle)
    one.load_state_dict(first.state_dict())
    with pytest.raises(pipemill.PipemillError, match="the data are over"):
        next(iter(one))
