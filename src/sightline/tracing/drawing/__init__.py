"""A trace drawn in a browser: one HTML file that needs nothing else, and the ES modules that draw in it.

    start      reads the trace in the page       page       puts all views together
    strip      the sentence                      lines      who looks at whom
    matrix     one cell for every pair           glance     all heads, small
    film       one step after the other          tree       the beam
    lens       the readout after each layer      worth      the effect of silencing each head
    alignment  which word looked at which        table      numbers for screen readers
    trace, reading, packed                       what is drawn
    store, looking, gaze, address                what is being looked at
    view, scope                                  what every view is, and how it ends
    saving, vector, raster, copied, wrapping, ink          a view as a file
    dom, rows, scale, theme, texts, numbers, leisure       the tools of all of them

No module loads anything, and texts of tokens are only ever set as text.

Any page can use the views. Serve each of `modules()` as `<name>.js` in one folder, `stylesheet()` beside them, and
`json_of(trace)` or, smaller, `bytes_of(trace)`. A view is a function of an element and a store; it draws the trace of
the store, draws again when that is another one, and returns a function that removes it. Views of one store follow
each other: what is pointed at in one is lit in all. A view that is hidden draws once it is seen. Colours are those of
`data-theme` on the root element, light or dark; who changes it gives the store `palette()` of theme.js anew.

    import { lines } from "./lines.js";
    import { lookAt, show } from "./looking.js";
    import { matrix } from "./matrix.js";
    import { readTrace } from "./reading.js";

    const fetched = async (address) => readTrace(await (await fetch(address)).arrayBuffer());  // or .json()
    const store = lookAt(await fetched("one.bin"));
    const remove = lines(document.getElementById("left"), store);
    matrix(document.getElementById("right"), store);
    store.set({ heads: [{ name: "decoder.1.cross_attention", head: 2 }], step: 3 });
    show(store, await fetched("another.bin"));  // all views draw it
    remove();
"""

import base64
import functools
import hashlib
import html
from importlib import resources

from sightline.errors import InputError
from sightline.tracing.drawing.joining import join
from sightline.tracing.drawing.packing import bytes_of, json_of, page_data
from sightline.tracing.trace import Trace

__all__ = ["bytes_of", "json_of", "modules", "page", "repr_html", "stylesheet"]

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
        "img-src data:; base-uri 'none'; form-action 'none'"  # images: only a view on its way into a PNG
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
    frame = f'sandbox="allow-scripts allow-downloads" width="100%" height="{NOTEBOOK_HEIGHT}" style="border:0"'
    return f'<iframe title="Trace" {frame} srcdoc="{html.escape(inner)}"></iframe>'


@functools.cache
def modules() -> dict[str, str]:
    """Return the sources of the ES modules by name; they import each other as `./name.js`."""
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
