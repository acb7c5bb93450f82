"""docs/sagemaker.md: its entrypoint and its configuration, as they stand there."""

import json
import os
import pathlib
import re
import subprocess

from e2e import PATIENCE, PIPEMILL, recordio

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "sagemaker.md").read_text()


def block(language):
    return re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)[1]


def test_the_entrypoint_and_the_configuration_of_the_page_work(tmp_path):
    """As the platform starts a container: its files in place, and the word `train` behind the entrypoint."""
    channels = {"train": {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated"}}
    (tmp_path / "input/config").mkdir(parents=True)
    (tmp_path / "input/config/inputdataconfig.json").write_text(json.dumps(channels))
    (tmp_path / "input/data/train").mkdir(parents=True)
    # As the platform delivers augmented manifests: a RecordIO record of each attribute, line after line.
    pairs = [recordio(b"image") + recordio(b"%d" % label) for label in range(5)]
    (tmp_path / "input/data/train/data").write_bytes(b"".join(pairs))
    (tmp_path / "pipemill.toml").write_text(block("toml"))
    (tmp_path / "train.py").write_text(
        "import pipemill, sys\n"
        'with pipemill.connect("train") as stream:\n'
        '    print("records", sum(len(batch) for batch in stream), sys.argv[1:])\n'
    )
    words = json.loads(block("dockerfile").removeprefix("ENTRYPOINT"))
    python = os.environ.get("PIPEMILL_PYTHON", "python3")
    known = {"pipemill": PIPEMILL, "python": python}
    done = subprocess.run(
        [known.get(word, word) for word in [*words, "train"]],
        cwd=tmp_path,
        env={
            **os.environ,
            "SAGEMAKER_BASE_DIR": str(tmp_path),
            "PIPEMILL_CONFIG": str(tmp_path / "pipemill.toml"),
            "XDG_RUNTIME_DIR": str(tmp_path / "run"),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done
    assert done.stdout == "records 5 []\n"
