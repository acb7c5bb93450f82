"""Copies to a real GPU. It is skipped if there is none; test_torch_direct.py tests the logic
without one.
"""

import numpy
import pytest
import torch
from e2e import PATIENCE
from pipemill.torch import Loader

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("records", [4, 512])
@pytest.mark.parametrize("credits", [1, 2, 4])
def test_the_batches_on_a_gpu_are_those_of_the_source(tmp_path, records, credits):
    rows = numpy.arange(2048 * 1000, dtype="int32").reshape(2048, 1000)
    numpy.save(tmp_path / "a.npy", rows)
    whole = torch.from_numpy(rows).cuda()
    one = Loader(tmp_path / "a.npy", "npy", batch=records, steps=1000, device="cuda", credits=credits, timeout=PATIENCE)
    per_epoch, kept = 2048 // records, []
    for step, batch in enumerate(one):
        at = step % per_epoch * records
        # The comparison runs on the GPU, and all of it at the end: the program does not wait for a
        # copy here.
        kept.append((batch["data"] == whole[at : at + records]).all())
    assert torch.stack(kept).all().item() and len(kept) == 1000
    print("registered:", one.dataset._direct.is_registered)
    one.close()


def test_fields_that_are_not_in_a_row_are_the_same_on_a_gpu(tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"{n},{n}.5\n" for n in range(6400)))
    one = Loader(
        tmp_path / "a.csv", "csv", options={"types": "int64,1:float64"}, batch=64, steps=300, device="cuda", timeout=PATIENCE
    )  # fmt: skip
    for step, batch in enumerate(one):
        first = step % 100 * 64
        assert batch["f0"].tolist() == list(range(first, first + 64))
        assert torch.equal(batch["f1"], batch["f0"] + 0.5)
    one.close()
