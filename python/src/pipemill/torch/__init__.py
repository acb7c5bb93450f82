"""Batches for PyTorch. ::

    from pipemill.torch import Loader

    for batch in Loader("data/*.tar", "webdataset", fields="jpg,cls", batch=256, tail="drop"):
        train(batch["jpg"], batch["cls"])

:class:`Loader` replaces a ``DataLoader``. :class:`Dataset` is for programs that nevertheless need a
``DataLoader`` or torchdata's ``StatefulDataLoader``, and :func:`tensors` is for programs that read
a :class:`pipemill.Stream` themselves.
"""

try:
    import numpy  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"pipemill.torch needs torch and numpy, and {error.name} is not installed: "
        f"pip install torch numpy"
    ) from None

from .dataset import Dataset
from .loader import Loader
from .tensors import Tensors, tensors

__all__ = ["Dataset", "Loader", "Tensors", "tensors"]
