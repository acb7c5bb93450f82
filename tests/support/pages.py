"""Runs the commands of a page of the documents: in order, in one shell, on a terminal, from an empty folder.

What a page has:

- A block after a line with a name alone, as `train.py`:, is a file of that name.
- A block of `console` has commands. Each follows `$ `, and goes on in the lines that follow `> `. Below it stands what it
  prints, on standard output and standard error. `…` stands for any text within the line: for what differs from run to
  run. A line of nothing but `…` stands for any lines.
- A command whose exit code is not 0 is followed by the command `echo $?`.
"""

import dataclasses
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

from e2e import PATIENCE, PIPEMILL

PYTHON = os.environ.get("PIPEMILL_PYTHON", "python3")

# A name alone before a block: its file. Else there is none.
BLOCK = re.compile(r"(?:^`([^`\n]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a terminal is told beyond the text: colors, and lines that are cleared because their text is replaced.
CLEARED, ESCAPE = re.compile(r"[^\n]*\r(?!\n)\x1b\[2K"), re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Comes between the outputs of two commands.
MARK = "\x1e"


def blocks(page):
    """(file or nothing, language, text) of each block."""
    return [match.groups() for match in BLOCK.finditer(page)]


@dataclasses.dataclass
class Command:
    text: str
    expected: str = ""
    output: str = ""
    code: int = -1

    def __str__(self):
        return f"$ {self.text}\n{self.output}"


def commands(block):
    """The commands of a block of `console`."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        elif line.startswith("> ") and not found[-1].expected:
            found[-1].text += "\n" + line[2:]
        else:
            found[-1].expected += line + "\n"
    return found


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def environment(folder):
    """A home in `folder`, with `pipemill` and `python` on the path, and no credentials."""
    bin = folder / "bin"
    bin.mkdir()
    for name in ("python", "python3"):
        program(bin / name, f'#!/bin/sh\nexec "{PYTHON}" "$@"\n')
    program(bin / "pipemill", f'#!/bin/sh\nexec "{PIPEMILL}" "$@"\n')
    # Unbuffered, Python writes a line and its end apart, and another process comes between.
    left_out = ("AWS_", "PIPEMILL_", "XDG_", "COLUMNS", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return kept | {
        "PATH": f"{bin}:{os.environ['PATH']}",
        "AWS_EC2_METADATA_DISABLED": "true",
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "TERM": "xterm-256color",
    }


def on_a_terminal(script, folder, env, size=(40, 100)):
    """What a script of bash prints on a terminal of its own, with lines that end as in a file."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe("bash", ["bash", str(script)], env)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    printed, end = b"", time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            if select.select([terminal], [], [], 1)[0]:
                try:
                    got = os.read(terminal, 65536)
                except OSError:
                    break
                if not got:
                    break
                printed += got
        else:
            raise AssertionError(f"it does not end: {printed.decode(errors='replace')}")
    finally:
        os.close(terminal)
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(pid, 0)
    return ESCAPE.sub("", CLEARED.sub("", printed.decode())).replace("\r\n", "\n")


def run_page(page, folder, env):
    """The commands of a page with their outputs and exit codes."""
    lines, found = ["stty size >/dev/null"], []
    for number, (file, language, text) in enumerate(blocks(page)):
        if file is not None:
            source = folder.parent / f"block-{number}"
            source.write_text(text)
            lines.append(f"cp '{source}' '{file}'")
        elif language == "console":
            for command in commands(text):
                found.append(command)
                lines += [command.text, f"code=$?; printf '%s\\036' $code; (exit $code)"]
    script = folder.parent / "script"
    script.write_text("\n".join(lines) + "\n")
    printed = on_a_terminal(script, folder, env).split(MARK)
    assert len(printed) == len(found) + 1, printed
    for command, output in zip(found, printed):
        code = re.search(r"\d+\Z", output)[0]
        command.output, command.code = output[: -len(code)], int(code)
    return found


def matches(expected, output):
    """Whether an output is what the page has."""
    lines = []
    for line in expected.splitlines():
        words = map(re.escape, line.split("…"))
        lines.append("(?:.*\n)*" if line == "…" else r"[^\n]*".join(words) + "\n")
    return re.fullmatch("".join(lines), output) is not None


def rewritten(page, found):
    """The page with what was printed, where that is not what it has."""
    found = iter(found)

    def block(match):
        if match[2] != "console":
            return match[0]
        parts = []
        for text, expected in ((one.text, one.expected) for one in commands(match[3])):
            output = next(found).output
            shown = expected if matches(expected, output) else output
            parts.append("$ " + text.replace("\n", "\n> ") + "\n" + shown)
        return f"```console\n{''.join(parts)}```"

    return BLOCK.sub(block, page)


def check(found):
    """Each command has printed what the page has, and has failed only where the page shows it."""
    for command, after in zip(found, [*found[1:], None]):
        assert matches(command.expected, command.output), f"{command}\n\nBut the page has:\n\n{command.expected}"
        shown = after is not None and after.text == "echo $?"
        assert (command.code != 0) == shown, f"{command}\n\nThe exit code is {command.code}."
