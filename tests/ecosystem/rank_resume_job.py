"""test_torch_ranks_resume.py starts this under torchrun, once for each rank: a program that trains
on a `Loader`, and saves after each step what its trainer saves: of the loader, the state of rank 0
alone.

Usage: rank_resume_job.py WAY FOLDER HOST STOP. It reads `FOLDER/data`. `FOLDER/RANK.jsonl` gets the
records that the model received, a line for each step. It ends by SIGKILL after STOP steps of all
runs, if the last step is not that one.
"""

import json
import os
import pathlib
import signal
import sys

import torch
import torch.distributed
from pipemill.torch import Loader

BATCH, EPOCHS, STEPS = 4, 3, 3
WAY, FOLDER, HOST = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
STOP = int(sys.argv[4])


class Model(torch.nn.Module):
    """A line through numbers. It writes down its inputs, and counts its steps."""

    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(1, 1)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, data):
        self.steps += 1
        with open(FOLDER / f"{os.environ['RANK']}.jsonl", "a") as file:
            file.write(json.dumps(data.tolist()) + "\n")
        return (self.line(data.float()[:, None]) - 1).square().mean()


def killed_at(step):
    """All ranks have saved this step."""
    if step == STOP and step < EPOCHS * STEPS:
        os.kill(os.getpid(), signal.SIGKILL)


def plain(loader):
    torch.distributed.init_process_group("gloo")
    model, saved = Model(), FOLDER / "saved.pt"
    if saved.exists():
        at = torch.load(saved)
        model.load_state_dict(at["model"])
        loader.load_state_dict(at["data"])
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    while int(model.steps) < EPOCHS * STEPS:
        for batch in loader:
            # This needs all ranks: with unequal steps, one would wait for ever.
            parallel(**batch).backward()
            if os.environ["RANK"] == "0":
                torch.save({"model": model.state_dict(), "data": loader.state_dict()}, saved)
            torch.distributed.barrier()
            killed_at(int(model.steps))


def accelerate(loader):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = Model()
    parallel, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-6), loader)
    accelerator.register_for_checkpointing(loader)
    saved = FOLDER / "saved"
    if saved.exists():
        accelerator.load_state(saved)
    while int(model.steps) < EPOCHS * STEPS:
        for batch in loader:
            accelerator.backward(parallel(**batch))
            optimizer.step()
            accelerator.save_state(saved)
            accelerator.wait_for_everyone()
            killed_at(int(model.steps))


def lightning(loader):
    import lightning
    from lightning.pytorch.callbacks import Callback, ModelCheckpoint

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def training_step(self, batch, number):
            return self.model(**batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    class Killed(Callback):
        def on_train_batch_start(self, trainer, module, batch, number):
            killed_at(trainer.global_step)

    saved = FOLDER / "saved"
    checkpoint = ModelCheckpoint(saved, save_last=True, every_n_train_steps=1)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=EPOCHS, logger=False, callbacks=[checkpoint, Killed()],
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Module(), loader, ckpt_path=saved / "last.ckpt" if saved.exists() else None)


def transformers(loader):
    from transformers import Trainer, TrainerCallback, TrainingArguments
    from transformers.trainer_utils import get_last_checkpoint

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def forward(self, data):
            return {"loss": self.model(data)}

    class OurTrainer(Trainer):
        def get_train_dataloader(self):
            return loader

    class Data(TrainerCallback):
        def on_save(self, arguments, state, control, **others):
            if state.is_world_process_zero:
                torch.save(loader.state_dict(), f"{arguments.output_dir}/checkpoint-{state.global_step}/data.pt")
            torch.distributed.barrier()

        def on_step_begin(self, arguments, state, control, **others):
            killed_at(state.global_step)

    saved = FOLDER / "saved"
    arguments = TrainingArguments(
        output_dir=saved, use_cpu=True, num_train_epochs=EPOCHS, save_strategy="steps", save_steps=1, report_to=[],
        disable_tqdm=True, ddp_backend="gloo", ignore_data_skip=True,
    )  # fmt: skip
    checkpoint = get_last_checkpoint(saved) if saved.exists() else None
    if checkpoint:
        loader.load_state_dict(torch.load(f"{checkpoint}/data.pt"))
    OurTrainer(Loss(), arguments, callbacks=[Data()]).train(resume_from_checkpoint=checkpoint)


def main():
    # Without a length, Lightning fetches a batch ahead, and the loader's state is after that one.
    # Transformers takes a pass without a batch for the end, and a state from the last batch of an
    # epoch has such a pass.
    loader = Loader(
        FOLDER / "data", "npy", batch=BATCH, tail="pad", host=None if HOST == "own" else HOST, shuffle=3,
        steps=STEPS if WAY in ("lightning", "transformers") else None,
    )  # fmt: skip
    {way.__name__: way for way in (plain, accelerate, lightning, transformers)}[WAY](loader)
    torch.distributed.barrier()  # local rank 0 has the host
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
