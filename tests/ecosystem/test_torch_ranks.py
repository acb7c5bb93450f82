"""Two ranks under torchrun, with gloo: each record goes to one of them, and both take equally many
steps.
"""

import json
import pathlib

import numpy
import pytest
from ranks import torchrun

JOB = pathlib.Path(__file__).with_name("rank_job.py")
EPOCHS = 2


def write(folder, *counts):
    """Objects with these numbers of records, numbered on from one to the next."""
    folder.mkdir()
    at = 0
    for number, count in enumerate(counts):
        numpy.save(folder / f"{number}.npy", numpy.arange(at, at + count))
        at += count


@pytest.mark.parametrize("way", ["plain", "accelerate", "lightning", "transformers"])
def test_each_record_goes_to_one_rank_and_both_take_equally_many_steps(tmp_path, way):
    write(tmp_path / "shared", 6, 3, 14)
    # A host reads every second object. Without a shared one, steps are equal where the objects are.
    write(tmp_path / "own", 6, 5, 6, 6)
    torchrun(JOB, way, tmp_path)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    # 23 records are 6 batches, of which the last one is filled with a copy.
    assert first["shared"] == [[0, 1, 2, 3], [8, 9, 10, 11], [16, 17, 18, 19]] * EPOCHS
    assert second["shared"] == [[4, 5, 6, 7], [12, 13, 14, 15], [20, 21, 22, 22]] * EPOCHS
    assert first["own"] == [[0, 1, 2, 3], [4, 5, 11, 12], [13, 14, 15, 16]] * EPOCHS
    assert second["own"] == [[6, 7, 8, 9], [10, 17, 18, 19], [20, 21, 22, 22]] * EPOCHS
