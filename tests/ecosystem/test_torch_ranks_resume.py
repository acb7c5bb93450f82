"""Two ranks under torchrun, killed and started again: both resume from the state of rank 0, which
is the one that trainers save.
"""

import json
import pathlib

import numpy
import pytest
from ranks import torchrun

JOB = pathlib.Path(__file__).with_name("rank_resume_job.py")
EPOCHS, STEPS = 3, 3


# In the middle of an epoch, and at the end of one. accelerate takes a loader as it is.
CASES = [
    ("plain", "own", (2, 5)), ("plain", "per-node", (3,)),
    ("accelerate", "own", (4,)),
    ("lightning", "own", (2,)), ("lightning", "per-node", (3,)),
    ("transformers", "own", (4,)), ("transformers", "per-node", (2, 6)),
]  # fmt: skip


@pytest.mark.parametrize("way, host, stops", CASES)
def test_all_ranks_go_on_from_the_state_of_rank_0(tmp_path, way, host, stops):
    (tmp_path / "data").mkdir()
    for number in range(4):
        numpy.save(tmp_path / "data" / f"{number}.npy", numpy.arange(100 * number, 100 * number + 6))
    for stop in stops:
        torchrun(JOB, way, tmp_path, host, stop, killed=True)
    torchrun(JOB, way, tmp_path, host, EPOCHS * STEPS)
    ranks = [
        [json.loads(line) for line in (tmp_path / f"{rank}.jsonl").read_text().splitlines()] for rank in (0, 1)
    ]
    assert [len(steps) for steps in ranks] == [EPOCHS * STEPS] * 2
    everything = {100 * number + at for number in range(4) for at in range(6)}
    for epoch in range(EPOCHS):
        first, second = (sum(steps[epoch * STEPS : (epoch + 1) * STEPS], []) for steps in ranks)
        # 24 records are 6 full batches: each record comes once.
        assert len(first + second) == len(everything) and {*first, *second} == everything
