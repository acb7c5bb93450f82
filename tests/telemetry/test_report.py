"""`run --report`: the page as a browser sees it, and when it is written."""

import html.parser
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest
from e2e import PATIENCE, PIPEMILL, finish, patiently, run

#: Where `make docs` looks for pictures that tests make.
PICTURES = os.environ.get("PIPEMILL_TEST_PICTURES")
BROWSERS = ["chromium", "chromium-browser", "google-chrome", "chrome"]
READ = """
with pipemill.connect("train") as stream:
    for batch in stream:
        pass
"""
HOSTILE = "<img src=x onerror=alert(1)>'\"&amp;.csv"


@pytest.fixture
def browser(tmp_path):
    """Shows a page: the DOM that a browser makes of it, and what it complains of."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        pytest.skip("no Chromium is there; on Debian: apt-get install chromium")

    def show(page, *more):
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"]
        flags += [f"--user-data-dir={tmp_path / 'browser'}", *more]
        done = subprocess.run([found, *flags, f"file://{page}"], capture_output=True, timeout=PATIENCE)
        log = done.stderr.decode(errors="replace").splitlines()
        return done.stdout.decode(), [line for line in log if ":CONSOLE" in line]

    return show


class Page(html.parser.HTMLParser):
    """Elements by name, and the text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.attributes, self.text = {}, set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements[tag] = self.elements.get(tag, 0) + 1
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data):
        self.text += data


def channel(source, more=""):
    return f'[[channel]]\nname = "train"\nsource = {{ {source} }}\ndecoder = "csv"\n{more}\n'


@pytest.fixture
def reported(host, tmp_path):
    """Runs a channel with a report: exit code, log, and the page's path."""

    def start(channels, script=READ, page=None):
        page = page or tmp_path / "report.html"
        code, _, log = finish(host(channels, script, "--report", page))
        return code, log, page

    return start


def test_the_page_holds_what_cat_counts(reported, browser, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for part in range(3):
        (folder / f"{part}.csv").write_text("".join(f"{row},{part}\n" for row in range(50_000)))
    code, log, page = reported(channel(f'folder = "{folder}", epochs = 2'))
    assert code == 0, log
    counted = run("cat", "-d", "csv", "--output", "count", folder).stdout.decode()
    records = 2 * int(re.match(r"records=(\d+)", counted).group(1))
    size = 2 * sum(file.stat().st_size for file in folder.iterdir())
    dom, complaints = browser(page, "--dump-dom")
    assert not complaints
    assert f'<dt>Records</dt><dd><data value="{records}">' in dom
    assert f'<dt>Bytes</dt><dd><data value="{size}">' in dom
    assert dom.count(f'</th><td><data value="{records // 2}">') == 2, "a row for each epoch"
    assert "Ended well" in dom
    assert 'folder = "' in Page(dom).text
    # Nothing is loaded from anywhere.
    assert not {"script", "img", "link", "iframe"} & set(Page(dom).elements)


def test_the_plots_are_drawn(reported, browser, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("1,2\n" * 2_000_000)
    script = READ.replace("pass", "import time; time.sleep(0.2)")
    ring = '[channel.ring]\nslot_size = "1MiB"\nslots = 4'
    code, log, page = reported(channel(f'file = "{data}"', ring), script)
    assert code == 0, log
    dom, complaints = browser(page, "--dump-dom")
    assert not complaints
    for title in ["Throughput", "Records a second", "Where the time went", "Slots in use"]:
        assert f'aria-label="{title}: ' in dom
    assert dom.count("<title>") > 20 and not re.search(r"\b(NaN|inf)\b", dom)
    shot = tmp_path / "shot.png"
    browser(page, "--hide-scrollbars", "--window-size=1000,1500", f"--screenshot={shot}")
    assert shot.stat().st_size > 20_000
    if PICTURES:
        pathlib.Path(PICTURES).mkdir(parents=True, exist_ok=True)
        shutil.copy(shot, pathlib.Path(PICTURES, "report.png"))
        shutil.copy(page, pathlib.Path(PICTURES, "report.html"))


def test_the_browser_would_complain(browser, tmp_path):
    """Parts that would break out of the page: the tests above and below look for them."""
    page = tmp_path / "page.html"
    policy = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">"
    page.write_text(f"<!doctype html>{policy}<img src=x onerror=alert(1)><script>alert(1)</script>")
    dom, complaints = browser(page, "--dump-dom")
    assert complaints and {"img", "script"} <= set(Page(dom).elements)


def test_hostile_names_and_data_stay_text(reported, browser, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / HOSTILE).write_text("1,2\n</td></style><script>alert(1)</script>,2\n")
    code, log, page = reported(channel(f'folder = "{folder}"', 'options = { types = "int32" }'))
    # The exit code of the script, which did not expect the error.
    assert code == 1, log
    dom, complaints = browser(page, "--dump-dom")
    assert not complaints
    seen = Page(dom)
    assert HOSTILE in seen.text and "<script>alert(1)" in seen.text
    assert not {"script", "img"} & set(seen.elements) and "onerror" not in seen.attributes
    for words in ["Failed", "expected int32", "Byte offset", '<data value="4">4</data>']:
        assert words in dom


def test_a_file_that_can_not_be_written_is_refused_before_the_start(reported, tmp_path):
    (tmp_path / "data.csv").write_text("1,2\n")
    there = tmp_path / "started"
    for page in [tmp_path, tmp_path / "missing" / "report.html", "/dev/null"]:
        code, log, _ = reported(
            channel(f'file = "{tmp_path}/data.csv"'), f"open({str(there)!r}, 'w')", page
        )
        assert code == 64 and "--report: " in log and "; name a file" in log, log
    assert not there.exists()


def test_what_can_not_be_written_at_the_end_changes_no_exit_code(reported, tmp_path):
    (tmp_path / "data.csv").write_text("1,2\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    script = READ + f"import os\nos.rmdir({str(folder)!r})\nsys.exit(3)\n"
    page = folder / "report.html"
    code, log, _ = reported(channel(f'file = "{tmp_path}/data.csv"'), script, page)
    assert code == 3 and "warn: the report" in log and "can't be written" in log, log


def test_a_run_that_is_ended_by_a_signal_has_a_report(host, tmp_path):
    page = tmp_path / "report.html"
    page.write_text("old")
    os.mkfifo(tmp_path / "train_0")
    child = host(channel(f'fifo = "{tmp_path}"'), None, "--report", page)
    assert b"serving" in child.stderr.readline()
    child.send_signal(signal.SIGTERM)
    assert finish(child)[0] == 143
    text = page.read_text()
    assert "Ended by SIGTERM" in text and ">143</dd>" in text
    assert [file.name for file in tmp_path.glob(".pipemill*")] == []


def test_a_run_that_can_not_start_has_a_report_that_says_why(reported, tmp_path):
    code, log, page = reported('[[channel]]\nname = "train"\nsource = "nothing"\nmode = "nothing"\n')
    assert code == 64 and "things are wrong" in page.read_text()
    assert "the report is in" not in log and "the run has not begun; " in log
