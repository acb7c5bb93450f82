"""Pieces of pictures. Each has its own background, light or dark like the reader's system."""

from __future__ import annotations

import html

STYLE = """<style>
    svg { --page: #fafbfc; --line: #8592a0; --text: #1f2933; --dim: #52606d;
          --first: #2f6fb3; --second: #8a4fb0; --third: #2e7d4f; --other: #9aa5b1 }
    @media (prefers-color-scheme: dark) {
      svg { --page: #161b22; --line: #7d8896; --text: #e6ebf0; --dim: #aab4bf;
            --first: #6fb1f2; --second: #cd9af0; --third: #74cf9a; --other: #66717d }
    }
    text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--text) }
    .title { font-weight: 600 }
    .small { font-size: 11px; fill: var(--dim) }
    .end { text-anchor: end }
    .mid { text-anchor: middle }
    .page { fill: var(--page); stroke: var(--line); stroke-opacity: .4 }
    .grid { stroke: var(--line); stroke-opacity: .3 }
    .spread { stroke: var(--text); stroke-opacity: .75 }
    .curve { fill: none; stroke-width: 2 }
  </style>"""


def picture(width: float, height: float, title: str, about: str, parts: list[str]) -> str:
    body = "\n".join(f"  {part}" for part in parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-labelledby="title desc">\n  <title id="title">{html.escape(title)}</title>\n'
        f'  <desc id="desc">{html.escape(about)}</desc>\n  {STYLE}\n'
        f'  <rect class="page" x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="8"/>\n{body}\n</svg>\n'
    )


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{class_of(kind)}>{html.escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{class_of(kind)}/>'


def bar(x: float, y: float, width: float, height: float, color: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" fill="var(--{color})"/>'


def curve(points: list[tuple[float, float]], color: str, dashed: bool) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline class="curve" points="{path}" style="stroke: var(--{color})"{dashes}/>'


def dot(x: float, y: float, color: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="var(--{color})"/>'


def class_of(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
