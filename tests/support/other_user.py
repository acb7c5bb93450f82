"""A real host that another user runs, whose records nobody has asked for."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from e2e import PIPEMILL, patiently

#: What Linux calls a user that owns nothing.
NOBODY = 65534


@pytest.fixture
def place():
    """A folder in which every user may make something, and nobody may remove what is another's: as /tmp."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pipemill-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def as_other_user(place):
    """Runs a program as another user. Needs root."""
    if os.geteuid() != 0:
        pytest.skip("root, to become another user")
    binary = place / "binary"
    binary.mkdir(mode=0o755)
    shutil.copy(PIPEMILL, binary / "pipemill")
    started = []

    def run(*words, **more):
        words = [binary / "pipemill" if word == "pipemill" else str(word) for word in words]
        started.append(subprocess.Popen(words, user=NOBODY, group=NOBODY, extra_groups=(), cwd=place, **more))
        return started[-1]

    yield run
    for one in started:
        if one.poll() is None:
            one.kill()
        one.communicate()


@pytest.fixture
def foreign_host(as_other_user, place):
    """Starts a host of another user at this path, which every user may connect to."""

    def start(socket, channel="train", records=("foreign",), more='mode = "share"'):
        data = place / "foreign"
        data.mkdir(exist_ok=True)
        (data / "rows.txt").write_text("".join(f"{record}\n" for record in records))
        config = data / f"{socket.name}.toml"
        config.write_text(
            f'socket = "{socket}"\nallow_other_users = true\n[[channel]]\nname = "{channel}"\n'
            f'source = {{ file = "{data}/rows.txt", epochs = 1000 }}\ndecoder = "lines"\n{more}\n'
        )
        config.chmod(0o644)
        (data / "rows.txt").chmod(0o644)
        data.chmod(0o755)
        child = as_other_user("pipemill", "run", "--config", config, stderr=subprocess.PIPE)
        patiently(lambda: socket.exists() or child.poll() is not None)
        assert child.poll() is None, child.communicate()
        return child

    return start
