"""The messages of this package: by Python's ``logging``, as the logger "pipemill".

If the program has set up no logging, Python shows warnings on standard error. In that case this
module also shows messages for a person, unless ``$PIPEMILL_LOG`` asks for less.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_said: set[str] = set()
_LESS = ("warn", "error", "off")


def say_once(text: str) -> None:
    """A message for a person, of level INFO."""
    if text in _said:
        return
    _said.add(text)
    log = _logger()
    log.info("%s", text)
    if not log.hasHandlers() and os.environ.get("PIPEMILL_LOG") not in _LESS:
        print(f"pipemill: info: {text}", file=sys.stderr, flush=True)


def warn_once(text: str) -> None:
    """A message of level WARNING."""
    if text not in _said:
        _said.add(text)
        warn(text)


def warn(text: str) -> None:
    """A message of level WARNING, each time."""
    _logger().warning("%s", text)


def _logger() -> Any:
    import logging  # takes as long to import as a third of this package

    return logging.getLogger("pipemill")
