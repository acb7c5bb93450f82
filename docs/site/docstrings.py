"""Docstrings as Markdown, for docs/api.md. They are written for `help()`, with the marks of Sphinx: `:class:`, ``code``,
`::` before an example, and tables with borders of `=`. mkdocs.yml names this file to griffe, which reads them."""

import re

import griffe

ROLE = re.compile(r":(?:class|func|meth|attr|exc):`~?\.?([^`]+)`")
EXAMPLE = re.compile(r"^( *)(.*?) ?::$")
BORDER = re.compile(r"^( *)(=+)((?: +=+)+)$")


def without_roles(text):
    return ROLE.sub(r"`\1`", text).replace("``", "`")


def examples(lines):
    """The lines with examples as fenced blocks."""
    out, at = [], 0
    while at < len(lines):
        match = EXAMPLE.match(lines[at])
        if match is None:
            out.append(without_roles(lines[at]))
            at += 1
            continue
        indent, words = match.groups()
        if words:
            # "copy::" is a colon for the reader, "text. ::" is none.
            out += [indent + without_roles(words) + ("" if words[-1] in ".:," else ":"), ""]
        at += 2
        block = []
        while at < len(lines) and (not lines[at].strip() or lines[at].startswith(indent + "    ")):
            block.append(lines[at][len(indent) + 4 :])
            at += 1
        while block and not block[-1]:
            block.pop()
        out += [f"{indent}```python", *(indent + line for line in block), f"{indent}```", ""]
    return out


def tables(lines):
    """The lines with tables as those of Markdown."""
    out, at = [], 0
    while at < len(lines):
        border = BORDER.match(lines[at])
        if border is None:
            out.append(lines[at])
            at += 1
            continue
        starts = [match.start() for match in re.finditer("=+", lines[at])]
        rows = []
        at += 1
        while not BORDER.match(lines[at]):
            line = lines[at]
            cells = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None])]
            if cells[0]:
                rows.append(cells)
            else:
                # It goes on in the line below.
                rows[-1] = [f"{above} {cell}".strip() for above, cell in zip(rows[-1], cells)]
            at += 1
        at += 1
        out += ["", "|" + " |" * len(starts), "|" + "---|" * len(starts)]
        out += ["| " + " | ".join(without_roles(cell) for cell in row) + " |" for row in rows]
    return out


def as_markdown(text):
    return "\n".join(examples(tables(text.splitlines())))


class Markdown(griffe.Extension):
    """Runs before the docstrings are parsed for `:param:`."""

    def on_instance(self, *, obj, **_):
        if not obj.is_alias and obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
