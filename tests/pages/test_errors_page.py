"""docs/errors.md: each message on it is one of the program's, and each fault of a channel is on it."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text()
# S3 and the configuration have pages of their own; the other messages are for a person at the
# keyboard.
ELSEWHERE = {"tests", "s3", "kit", "plugin-tools", "cli", "config", "report"}


def sources():
    for folder in ("host", "ring/src", "python/src"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".rs", ".py") and not path.name.startswith("test"):
                text = path.read_text().split("#[cfg(test)]")[0]
                # A string that continues in the next line.
                yield path.relative_to(ROOT), re.sub(r'\\\n\s*|"\n\s*f?"', "", text)


SOURCES = list(sources())


def fragments(message):
    """The parts of a message that are the same each time."""
    parts = re.split(r"…|\{[^}]*\}", message.replace("`", ""))
    return [part.strip(" ;:,()") for part in parts if len(part.strip(" ;:,()")) > 3]


def rows():
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == 3 and cells[0].startswith("`"):
            yield re.findall(r"`([^`]+)`", cells[0])


def test_each_message_of_the_page_is_in_the_program():
    everything = "\n".join(text for _, text in SOURCES).replace("`", "")
    messages = [message for row in rows() for message in row]
    assert len(messages) > 50
    for message in messages:
        for part in fragments(message):
            assert part in everything, f"no message of the program has {part!r} ({message!r})"


def test_each_fault_of_a_channel_is_on_the_page():
    page = PAGE.replace("`", "")
    call = re.compile(
        r"Fault::new\(\s*FaultKind::\w+,\s*(?:format!\(\s*)?\"((?:[^\"\\]|\\.)+)\""
        r"|SourceError::io\([^\"]{0,80}?\"((?:[^\"\\]|\\.)+)\""
        r"|let message =\s*(?:format!\(\s*)?\"((?:[^\"\\]|\\.)+)\""
    )
    found = []
    for path, text in SOURCES:
        if path.parts[0] == "host" and ELSEWHERE.isdisjoint(path.parts):
            for match in call.finditer(text):
                # Breaches of contract by a decoder have one row for all.
                if match[3] is None or "decode" not in path.parts:
                    found.append((path, next(filter(None, match.groups()))))
    assert len(found) > 20
    for path, message in found:
        [first, *_] = fragments(message) or [message]
        assert first in page, f"{path}: {message!r} is not on the page"
