"""Puts the program `pipemill` into the wheel, where $PIPEMILL_WHEEL_BINARY names its file. Without it, the wheel has
the reader alone, for any platform. `make wheel` builds both.

A wheel with the program says that it runs on any Linux of its machine. So the program must be linked statically:
anything else is refused.
"""

import os
import pathlib
import struct

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Machines by their number in an ELF file.
MACHINES = {62: "x86_64", 183: "aarch64"}
#: The oldest Linux that pip knows these names for; a static program needs nothing of any Linux.
PLATFORMS = "manylinux_2_17_{0}.manylinux2014_{0}.musllinux_1_1_{0}"
PT_INTERP = 3


class ProgramHook(BuildHookInterface):
    def initialize(self, version, build_data):
        program = os.environ.get("PIPEMILL_WHEEL_BINARY")
        if not program or version != "standard":
            return
        build_data["shared_scripts"] = {os.path.abspath(program): "pipemill"}
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platforms(pathlib.Path(program).read_bytes())}"


def platforms(program):
    """The platforms on which a static ELF program runs, in the form of a wheel's name."""
    if program[:6] != b"\x7fELF\2\1":
        raise ValueError("$PIPEMILL_WHEEL_BINARY: expected a program for a 64-bit Linux (ELF, little-endian)")
    machine = struct.unpack_from("<H", program, 18)[0]
    if machine not in MACHINES:
        raise ValueError(f"$PIPEMILL_WHEEL_BINARY: expected x86_64 or aarch64, found machine {machine} of ELF")
    at, size, count = (struct.unpack_from(f"<{form}", program, at)[0] for form, at in (("Q", 32), ("H", 54), ("H", 56)))
    segments = (struct.unpack_from("<I", program, at + number * size)[0] for number in range(count))
    if PT_INTERP in segments:
        raise ValueError(
            "$PIPEMILL_WHEEL_BINARY: is linked dynamically, so it does not run on every Linux; `make static` links one "
            "that does"
        )
    return PLATFORMS.format(MACHINES[machine])
