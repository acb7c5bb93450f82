"""What the tests of containers share. Without podman they are skipped, but in CI they fail."""

import os
import pathlib
import tempfile

import podman
import pytest


@pytest.fixture(scope="session")
def images():
    """The images of deploy/."""
    why = podman.why_not()
    if why and os.environ.get("CI") and os.getuid() == 0:
        pytest.fail(f"in CI the images must be tested: {why}")
    if why:
        pytest.skip(why)
    podman.build_images()


@pytest.fixture
def container(images):
    """Starts containers; none outlives the test."""
    started = []

    def start(*args, **more):
        started.append(podman.Container(*args, **more))
        return started[-1]

    yield start
    for one in started:
        one.remove()


@pytest.fixture
def folder():
    """A folder that every user, in a container, too, may read and write."""
    with tempfile.TemporaryDirectory(prefix="pipemill-") as path:
        folder = pathlib.Path(path)
        folder.chmod(0o777)
        yield folder
