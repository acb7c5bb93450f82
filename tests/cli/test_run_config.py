"""Where `pipemill run` takes its configuration from."""

import os

import pytest
from e2e import run


@pytest.fixture
def files(tmp_path):
    """A configuration, and one that is not there."""
    (tmp_path / "lines").write_text("a\n")
    config = tmp_path / "pipemill.toml"
    config.write_text(
        f'socket = "{tmp_path}/s/pipemill.sock"\n'
        f'[[channel]]\nname = "train"\ndecoder = "lines"\nsource = {{ file = "{tmp_path}/lines" }}\n'
    )
    return config, tmp_path / "nothing.toml"


def served(*args, **variables):
    env = {name: text for name, text in os.environ.items() if name != "SAGEMAKER_BASE_DIR"}
    env.update({name: str(value) for name, value in variables.items()})
    return run("run", *args, "--", "true", env=env)


def test_a_variable_names_it(files):
    config, nothing = files
    assert served(PIPEMILL_CONFIG=config).returncode == 0
    done = served(PIPEMILL_CONFIG=nothing)
    assert done.returncode == 64 and b"nothing.toml" in done.stderr, done.stderr


def test_the_option_comes_first(files):
    config, nothing = files
    assert served("--config", config, PIPEMILL_CONFIG=nothing).returncode == 0


def test_an_empty_variable_names_nothing(files):
    done = served(PIPEMILL_CONFIG="")
    assert done.returncode == 64 and b"or its path in PIPEMILL_CONFIG" in done.stderr, done.stderr
