"""docs/site/build: it fails for a link or an anchor that leads nowhere, and for a page to which no
link leads.
"""

import os
import pathlib
import shutil
import subprocess

import pytest
from e2e import PATIENCE

SITE = pathlib.Path(__file__).parents[2] / "docs" / "site"
#: A Python with what docs/site/requirements.txt names.
PYTHON = os.environ.get("PIPEMILL_DOCS_PYTHON")

README = "# Readme\n\n[A page](docs/page.md#of-a--b), [code](code.txt), `[no link](in code)`\n"
PAGE = "# Page\n\n## Of `a` & b\n\n| a |\n|---|\n| `x\\|y` |\n\n<!-- picture: a.png | A picture -->\n"


@pytest.fixture
def build(tmp_path):
    """Builds the site of a repository with two pages, in which these files are other ones."""
    if PYTHON is None:
        pytest.skip("set PIPEMILL_DOCS_PYTHON to a Python with docs/site/requirements.txt")
    root = tmp_path / "repository"
    (root / "docs").mkdir(parents=True)
    shutil.copytree(SITE, root / "docs" / "site")
    config = root / "docs" / "site" / "mkdocs.yml"
    before_nav, _ = config.read_text().split("\nnav:\n")
    config.write_text(before_nav + "\nnav: [README.md, docs/page.md]\n")

    def start(**files):
        texts = {"README.md": README, "code.txt": "code\n", "docs/page.md": PAGE, **files}
        for name, text in texts.items():
            (root / name).write_text(text)
        command = [PYTHON, root / "docs/site/build", tmp_path / "out"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stderr

    return start


def test_the_site_of_this_repository_is_built(tmp_path):
    """`make docs` is the last step of `make test`: what it refuses is found here an hour before."""
    if PYTHON is None:
        pytest.skip("set PIPEMILL_DOCS_PYTHON to a Python with docs/site/requirements.txt")
    command = [PYTHON, SITE / "build", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def test_a_sound_site_is_built(build, tmp_path):
    (tmp_path / "out/pictures").mkdir(parents=True)
    (tmp_path / "out/pictures/a.png").write_bytes(b"a picture")
    code, said = build()
    assert code == 0 and said == "", said
    site = tmp_path / "out/site"
    assert (site / "code.txt").read_text() == "code\n"
    page = (site / "docs/page/index.html").read_text()
    assert "<code>x|y</code>" in page and 'alt="A picture"' in page
    assert (site / "docs/a.png").read_bytes() == b"a picture"
    index = (site / "search/search_index.json").read_text()
    assert "Of <code>a</code> &amp; b" in index, "search finds titles"


@pytest.mark.parametrize(
    "name, text, says",
    [
        ("README.md", README + "[x](docs/page.md#nothing)\n", "does not contain an anchor '#nothing'"),
        ("README.md", README + "[x](docs/nothing.md)\n", "README.md: line 4: no file docs/nothing.md"),
        ("README.md", README + "[x](../../outside.md)\n", "no file ../../outside.md"),
        ("docs/orphan.md", "# Orphan\n", "docs/orphan.md: no page links to it"),
        ("docs/page.md", PAGE + "Words\n- item\n", "docs/page.md: line 11: a list needs an empty line"),
    ],
)
def test_what_is_wrong_with_a_page_is_said(build, name, text, says):
    code, said = build(**{name: text})
    assert code != 0 and says in said, said


def test_a_picture_that_no_test_has_made_is_left_out(build):
    code, said = build()
    assert code == 0 and "docs/page.md: without a.png" in said, said
