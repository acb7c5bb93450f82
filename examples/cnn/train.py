"""Learns to distinguish shapes, from tar archives of images. If it is killed at any time and
started again, it continues as if nothing had happened.

Usage: train.py FOLDER CHECKPOINT
"""

import hashlib
import os
import pathlib
import sys

import torch
from pipemill.torch import Loader
from torch.nn import functional

SIDE, CLASSES = 16, 4
HEADER = len("P5 16 16 255\n")  # of a PGM file, before its pixels
EPOCHS, BATCH, SAVE_EVERY = 4, 50, 10
PARTS, COUNTERS = ("model", "optimizer", "loader"), ("epoch", "steps", "images", "right", "seen")
EXPECTED = 0.9  # a lower accuracy means that something is wrong


class Job:
    """The content of a checkpoint."""

    def __init__(self, folder):
        self.model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 5), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(8, 16, 3), torch.nn.ReLU(), torch.nn.AdaptiveMaxPool2d(1),
            torch.nn.Flatten(), torch.nn.Linear(16, CLASSES),
        )  # fmt: skip
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)
        self.loader = Loader(
            f"{folder}/*.tar", "webdataset", fields="pgm,cls:int64", dense="pgm", batch=BATCH,
            tail="drop", shuffle={"seed": 7, "window": 500},
        )  # fmt: skip
        self.epoch = self.steps = 0
        self.images = self.right = 0  # of this epoch
        self.seen = ""  # a checksum of the names of all images, in their order

    def step(self, batch):
        """Learns from a batch."""
        pixels = batch["pgm"][:, HEADER:].view(-1, 1, SIDE, SIDE)
        scores = self.model(pixels / 255)
        loss = functional.cross_entropy(scores, batch["cls"])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        self.images += len(scores)
        self.right += int((scores.argmax(1) == batch["cls"]).sum())
        self.seen = hashlib.sha256((self.seen + " ".join(batch["__key__"])).encode()).hexdigest()

    def save(self, path):
        """Saves model, position in the data and counters in one file, which is replaced atomically.
        """
        saved = {name: getattr(self, name).state_dict() for name in PARTS}
        saved["counters"] = {name: getattr(self, name) for name in COUNTERS}
        torch.save(saved, f"{path}.new")
        os.replace(f"{path}.new", path)

    def restore(self, path):
        """Continues from the last `save`."""
        saved = torch.load(path)
        for name in PARTS:
            getattr(self, name).load_state_dict(saved[name])
        self.__dict__.update(saved["counters"])
        print(f"goes on after step {self.steps}", file=sys.stderr)


def main(folder, checkpoint):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    job = Job(folder)
    if pathlib.Path(checkpoint).exists():
        job.restore(checkpoint)
    while job.epoch < EPOCHS:
        # After a stop at the last batch of an epoch, the next epoch comes: nothing of the old one
        # is left.
        if job.loader.epoch == job.epoch:
            # After a stop inside an epoch, these are its remaining batches.
            for batch in job.loader:
                job.step(batch)
                if job.steps % SAVE_EVERY == 0:
                    job.save(checkpoint)
        accuracy = job.right / job.images
        job.epoch, job.images, job.right = job.epoch + 1, 0, 0
        print(f"epoch {job.epoch} of {EPOCHS}: {job.steps} steps, accuracy {accuracy:.3f}")
    print(f"the images in their order: {job.seen[:16]}")
    if not accuracy > EXPECTED:
        sys.exit(f"train.py: accuracy {accuracy:.3f}, expected more than {EXPECTED}")


if __name__ == "__main__":
    main(*sys.argv[1:])
