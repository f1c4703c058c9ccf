"""A trace drawn in a browser: one HTML file that needs nothing else, and the ES modules that draw in it.

    start      reads the trace in the page       page       puts all views together
    strip      the sentence                      lines      who looks at whom
    matrix     one cell for every pair           glance     all heads, small
    film       one step after the other          tree       the beam
    lens       the readout after each layer      worth      the effect of silencing each head
    alignment  which word looked at which        table      numbers for screen readers
    trace, store, gaze, address                  what is drawn, and what is being looked at
    dom, rows, scale, theme, texts, numbers, packed        the tools of all of them

No module loads anything, and texts of tokens are only ever set as text.
"""

import base64
import functools
import hashlib
import html
from importlib import resources

from sightline.errors import InputError
from sightline.tracing.drawing.joining import join
from sightline.tracing.drawing.packing import page_data
from sightline.tracing.trace import Trace

__all__ = ["modules", "page", "repr_html", "stylesheet"]

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="Sightline">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main><noscript>This page draws itself with the JavaScript inside it.</noscript></main>
<script type="application/json" id="trace">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""

NOTEBOOK_HEIGHT = 760


def page(trace: Trace, *, title: str | None = None) -> str:
    """Return a whole HTML page that draws a trace: interactive, self-contained, with no way to the network."""
    script, style = _script(), stylesheet()
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    shown = None if title is None else "".join(letter if letter.isprintable() else "\ufffd" for letter in title)
    name = html.escape(f"{shown} · Sightline" if shown is not None else "Sightline")
    return PAGE.format(policy=policy, title=name, style=style, data=page_data(trace, shown), script=script)


def repr_html(trace: Trace) -> str:
    """Return the page as a frame for a notebook; what cannot be drawn says why in a sentence."""
    try:
        inner = page(trace)
    except InputError as problem:
        return f"<p>This trace is not drawn: {html.escape(str(problem))}</p>"
    frame = f'sandbox="allow-scripts" width="100%" height="{NOTEBOOK_HEIGHT}" style="border:0"'
    return f'<iframe title="Trace" {frame} srcdoc="{html.escape(inner)}"></iframe>'


@functools.cache
def modules() -> dict[str, str]:
    """Return the sources of the ES modules by name."""
    files = sorted(resources.files(__name__).iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".js"): file.read_text(encoding="utf-8") for file in files if file.name.endswith(".js")
    }


@functools.cache
def stylesheet() -> str:
    """Return the theme: light and dark, screen, phone and print."""
    return (resources.files(__name__) / "theme.css").read_text(encoding="utf-8")


@functools.cache
def _script() -> str:
    """Return all modules as one script."""
    return "\n" + join(modules(), "start")


def _digest(text: str) -> str:
    """Return what a content security policy knows an inline element by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
