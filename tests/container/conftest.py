"""Fixtures for the tests of containers. Where no container can be run they are skipped, and say
why.
"""

import pathlib
import tempfile

import podman
import pytest


@pytest.fixture(scope="session")
def images():
    """The images of deploy/."""
    if why := podman.why_not():
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
    """A folder that every user may read and write, in a container too."""
    with tempfile.TemporaryDirectory(prefix="pipemill-") as path:
        folder = pathlib.Path(path)
        folder.chmod(0o777)
        yield folder
