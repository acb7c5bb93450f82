"""Ranks with hosts of their own, in a process group: a pass that ends after different steps is an error, and no rank
waits for another one for ever."""

import json
import re
import threading

import pytest
import torch.distributed as distributed
import unequal_ends
from e2e import PATIENCE
from ranks import forkserver, run_ranks

#: Records of objects, of which each second one is a rank's: 5 batches of an epoch, and 3 or 5.
UNEQUAL, EQUAL = (8, 5, 12, 8), (8, 11, 12, 10)


@pytest.fixture
def ranks(tmp_path):
    """Runs `unequal_ends.train` in as many processes, and returns what they took, and how they ended."""
    context = forkserver("unequal_ends")
    stores = [distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)]
    port = stores[0].port

    def run(counts, how=(), world=2, passes=1, every=1, gates=None):
        (tmp_path / "data").mkdir()
        for number, count in enumerate(counts):
            (tmp_path / "data" / f"{number}.csv").write_text("".join(f"{at}\n" for at in range(count)))
        source, how = str(tmp_path / "data" / "*.csv"), how if isinstance(how, list) else dict(how)
        words = (world, port, tmp_path, source, how, passes, every, gates or {})
        run_ranks(context, unequal_ends.train, [(rank, *words) for rank in range(world)])
        found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(world)]
        return [one["taken"] for one in found], [one["ended"] for one in found]

    run.found = lambda rank: json.loads((tmp_path / f"{rank}.json").read_text())
    run.event, run.stores = context.Event, stores
    yield run
    stores.clear()


def ours(ended):
    """The errors of ours. Where there is one, no rank ends as if nothing were wrong and synchronised after it."""
    errors = [one for one in ended if one.startswith(("PipemillError", "SourceError"))]
    assert errors, ended
    return errors


@pytest.mark.parametrize("every", [1, 2, 3, 4])
def test_an_unequal_end_is_an_error_and_no_hang(ranks, every):
    taken, ended = ranks(UNEQUAL, every=every)
    for error in ours(ended):
        assert "pass 0" in error and "rank 0" in error and "rank 1" in error and "step 3" in error
        assert 'steps=' in error and 'host="per-node"' in error and "equal_steps=False" in error
    assert taken[1] == [3] and taken[0] in ([3], [4], [5])


def test_the_rank_with_more_is_told_where_the_other_ended_first(ranks):
    gate = ranks.event()
    gates = {(0, 4): gate, ("opens", 1, 3, True): gate}
    taken, ended = ranks(UNEQUAL, every=0, gates=gates)
    assert "rank 0 of 2 is to take step 4 of pass 0, and rank 1 has ended that pass after step 3" in ended[0]
    assert taken == [[3], [3]]


def test_the_rank_with_fewer_is_told_where_the_other_has_gone_on(ranks):
    gate = ranks.event()
    gates = {(1, 4): gate, ("opens", 0, 4, False): gate}
    taken, ended = ranks(UNEQUAL, every=4, gates=gates)
    assert "rank 1 of 2 has ended pass 0 after step 3, and rank 0 has taken step 4" in ended[1]
    assert taken == [[4], [3]] and ended[0].startswith("cut off")


def test_of_several_ranks_at_least_one_is_told(ranks):
    # 3, 3 and 2 batches.
    taken, ended = ranks((12, 12, 8), world=3, every=2)
    assert all("after step 2" in error or "after step 3" in error for error in ours(ended))


@pytest.mark.parametrize("how", [{}, {"steps": 3}, {"state": 2}, {"equal_steps": False}], ids=str)
def test_equal_ends_are_no_error(ranks, how):
    taken, ended = ranks(EQUAL, how, passes=4)
    first = 3 if how.get("steps") or how.get("state") else 5
    assert taken == [[first] + [how.get("steps", 5)] * 3] * 2 and ended == ["done"] * 2


def test_equal_steps_over_unequal_parts_are_no_error(ranks):
    taken, ended = ranks(UNEQUAL, {"steps": 4, "shuffle": 3}, passes=4)
    assert taken == [[4] * 4] * 2 and ended == ["done"] * 2


def test_different_steps_are_an_error(ranks):
    taken, ended = ranks(EQUAL, [{"steps": 2}, {"steps": 3}], passes=2)
    assert all("steps=" in error and "step 2" in error for error in ours(ended))


def test_a_rank_whose_data_are_over_names_itself_to_the_others(ranks):
    # 10 and 6 batches: the third pass is the last one of rank 1.
    taken, ended = ranks(UNEQUAL, {"steps": 3, "epochs": 2}, passes=3)
    assert "the data are over" in ended[1]
    assert ended[0].startswith("cut off") or "rank 1 got an error after step 0: the data are over" in ended[0]


def test_an_unequal_end_of_a_pass_that_goes_on_is_an_error(ranks):
    taken, ended = ranks(UNEQUAL, {"state": 2})
    assert all(re.search(r"rank 0 of 2 is to take step 2|after step 1", one) for one in ours(ended))


def test_ranks_that_do_not_wait_for_each_other_may_end_after_different_steps(ranks):
    taken, ended = ranks(UNEQUAL, {"equal_steps": False}, every=0, passes=2)
    assert taken == [[5, 5], [3, 3]] and ended == ["done"] * 2


def test_a_part_without_records_is_named_to_the_others(ranks):
    gate = ranks.event()
    gates = {(0, 1): gate, ("fails", 1): gate}
    taken, ended = ranks((8, 1, 12, 1), every=1, gates=gates)
    assert ended[1].startswith("SourceError") and "got no batch of epoch 0" in ended[1]
    assert "rank 1 got an error after step 0: " in ended[0] and "got no batch of epoch 0" in ended[0]


def test_ranks_of_one_host_ask_nobody(ranks):
    taken, ended = ranks(UNEQUAL, {"host": "per-node"}, passes=2)
    assert taken == [[4, 4]] * 2 and ended == ["done"] * 2


@pytest.mark.parametrize("counts, equal", [((16, 9, 16, 9), False), ((16, 9, 9, 16), True)], ids=["unequal", "equal"])
def test_machines_with_a_host_each_are_compared(ranks, counts, equal):
    taken, ended = ranks(counts, {"host": "per-node"}, world=4)
    if equal:
        assert ended == ["done"] * 4 and taken == [[3]] * 4
    else:
        assert all("of 4" in error and "step 2" in error for error in ours(ended))


def test_a_store_that_does_not_answer_ends_the_comparison_and_not_the_training(ranks):
    read, gone = ranks.event(), ranks.event()
    gates = {("opens", 0, 1, False): read, (0, 2): gone, (1, 2): gone}

    def lose():
        assert read.wait(PATIENCE)
        ranks.stores.clear()
        gone.set()

    losing = threading.Thread(target=lose)
    losing.start()
    taken, ended = ranks(UNEQUAL, every=0, gates=gates)
    losing.join(PATIENCE)
    assert taken == [[5], [3]] and ended == ["done"] * 2
    [text] = ranks.found(0)["log"]
    assert "can't ask the process group's store whether other ranks have ended" in text


def test_the_state_does_not_have_the_batch_before_which_the_error_came(ranks):
    gate = ranks.event()
    gates = {(0, 4): gate, ("opens", 1, 3, True): gate}
    ranks(UNEQUAL, every=0, gates=gates)
    assert ranks.found(0)["state"]["step"] == 3
