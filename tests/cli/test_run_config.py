"""The place from which `pipemill run` reads its configuration."""

import os

import pytest
from e2e import PIPEMILL, run


@pytest.fixture
def files(tmp_path):
    """A configuration, and a path where there is none."""
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


def test_the_file_may_be_given_without_an_option(files):
    config, nothing = files
    assert served(config).returncode == 0
    assert served(config, "train", PIPEMILL_CONFIG=nothing).returncode == 0


def test_the_folder_has_one(files):
    config, _ = files
    env = {name: text for name, text in os.environ.items() if name != "PIPEMILL_CONFIG"}
    done = run("run", "--", "true", cwd=config.parent, env=env)
    assert done.returncode == 0 and b"the configuration is pipemill.toml" in done.stderr


@pytest.mark.parametrize(
    "words, remedy",
    [
        (["python", "c.py"], b"pipemill run -- python c.py"),
        (["-c", "x.toml", "python", "c.py"], b"pipemill run -c x.toml -- python c.py"),
        (["x.toml", "python", "c.py"], b"pipemill run x.toml -- python c.py"),
    ],
)
def test_forgotten_dashes_are_asked_for(words, remedy):
    done = run("run", *words)
    assert done.returncode == 64 and remedy in done.stderr, done.stderr


def test_a_second_host_takes_a_socket_of_its_own(tmp_path):
    (tmp_path / "lines").write_text("a\n")
    config = tmp_path / "pipemill.toml"
    config.write_text(f'[[channel]]\nname = "train"\ndecoder = "lines"\nsource = {{ file = "{tmp_path}/lines" }}\n')
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    # The command of the first host is the second host.
    inner = f"echo $PIPEMILL_SOCKET; '{PIPEMILL}' run '{config}' -- sh -c 'echo $PIPEMILL_SOCKET'"
    done = run("run", config, "--", "sh", "-c", inner, env=env)
    first, second = done.stdout.decode().split()
    assert done.returncode == 0, done.stderr
    assert first == f"{tmp_path}/run/pipemill/pipemill.sock"
    assert second.startswith(f"{tmp_path}/run/pipemill/pipemill-") and second.encode() in done.stderr
    assert os.listdir(tmp_path / "run" / "pipemill") == []
