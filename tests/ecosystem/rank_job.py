"""test_torch_ranks.py starts this under torchrun, once for each rank: a program that trains on one
`Loader` and then on another, in one of four ways, and writes down the records that its model
received.

Usage: rank_job.py WAY FOLDER. `FOLDER/shared` is read through one host, `FOLDER/own` through one for each rank.
"""

import json
import os
import pathlib
import sys

import torch
import torch.distributed
from pipemill.torch import Loader

BATCH, EPOCHS, STEPS = 4, 2, 3  # a rank's steps of an epoch


class Model(torch.nn.Module):
    """A line through numbers. It takes and returns what transformers' models do."""

    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(1, 1)
        self.seen = []

    def forward(self, data):
        self.seen.append(data.tolist())
        out = self.line(data.float()[:, None])
        return {"loss": (out - 1).square().mean(), "out": out}


def plain(loader):
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(Model())
    for _ in range(EPOCHS):
        for batch in loader:
            # This needs all ranks: with unequal steps, one would wait for ever.
            model(**batch)["loss"].backward()
    return model.module.seen


def accelerate(loader):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    ours = Model()
    model, optimizer, prepared = accelerator.prepare(ours, torch.optim.SGD(ours.parameters(), lr=1e-6), loader)
    assert prepared is loader
    for _ in range(EPOCHS):
        for batch in prepared:
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()
    return ours.seen


def lightning(loader):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def training_step(self, batch, number):
            return self.model(**batch)["loss"]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=EPOCHS, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    module = Module()
    trainer.fit(module, loader)
    return module.model.seen


def transformers(loader):
    from transformers import Trainer, TrainingArguments

    class OurTrainer(Trainer):
        def get_train_dataloader(self):
            return loader

    arguments = TrainingArguments(
        output_dir=sys.argv[2], use_cpu=True, max_steps=EPOCHS * STEPS, save_strategy="no", report_to=[],
        disable_tqdm=True, ddp_backend="gloo",
    )  # fmt: skip
    model = Model()
    OurTrainer(model, arguments).train()
    return model.seen


WAYS = {way.__name__: way for way in (plain, accelerate, lightning, transformers)}


def main():
    way, folder = WAYS[sys.argv[1]], pathlib.Path(sys.argv[2])
    shared = Loader(folder / "shared", "npy", batch=BATCH, tail="pad", host="per-node")
    own = Loader(folder / "own", "npy", batch=BATCH, tail="pad")
    found = {"shared": way(shared), "own": way(own)}
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps(found))
    torch.distributed.barrier()  # local rank 0 has the host
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
