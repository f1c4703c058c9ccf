"""A trace drawn in a browser: one self-contained HTML file, and the ES modules that draw in it.

    page            all views together                token_strip     the tokens of the text
    lines           attention as lines between tokens, word alignment as lines between words
    matrix          attention as a matrix, and as a table for screen readers
    heads           all heads as small matrices, and the effect of ablating each
    decoding_steps  decoding step by step             tree            the beam search tree
    logit_lens      the logit lens                    trace           the data that is drawn
    store           the state of the views            view            the life cycle of a view
    export          a view as a file                  theme           light and dark, color scales
    dom             elements                          text            tokens and numbers as displayed

No module loads anything, and token texts are only ever set as text, never as HTML.

Any page can use the views. Serve each of `modules()` as `<name>.js` in one folder, with `stylesheet()`, and
`pack_json(trace)` or, smaller, `pack_bytes(trace)`. A view is a function of an element and a store: it draws the
trace of the store, redraws when that changes, and returns a function that removes it. Views of one store are linked:
what is hovered in one is highlighted in all. A hidden view draws once it becomes visible. Colors follow `data-theme`
(light or dark) on the root element; after changing it, give the store a new `palette()` of theme.js.

    import { lines } from "./lines.js";
    import { matrix } from "./matrix.js";
    import { createStore, showTrace } from "./store.js";
    import { readTrace } from "./trace.js";

    const load = async (url) => readTrace(await (await fetch(url)).arrayBuffer());  // or .json()
    const store = createStore(await load("one.bin"));
    const remove = lines(document.getElementById("left"), store);
    matrix(document.getElementById("right"), store);
    store.set({ heads: [{ name: "decoder.1.cross_attention", head: 2 }], step: 3 });
    showTrace(store, await load("another.bin"));  // all views draw it
    remove();
"""

import base64
import functools
import hashlib
import html
import re
from collections.abc import Mapping
from importlib import resources

from sightline.errors import InputError
from sightline.tracing.page.packing import pack_bytes, pack_json, page_data
from sightline.tracing.trace import Trace

__all__ = ["build_page", "modules", "pack_bytes", "pack_json", "repr_html", "stylesheet"]

PAGE_TEMPLATE = """<!DOCTYPE html>
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
<main><noscript>This page needs JavaScript.</noscript></main>
<script type="application/json" id="trace">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""

NOTEBOOK_HEIGHT = 760


def build_page(trace: Trace, *, title: str | None = None) -> str:
    """Return an HTML page that draws a trace: interactive, self-contained, without network access."""
    script, style = _script(), stylesheet()
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"  # images: only to render a view as PNG
    )
    shown = None if title is None else "".join(letter if letter.isprintable() else "\ufffd" for letter in title)
    name = html.escape(f"{shown} · Sightline" if shown is not None else "Sightline")
    return PAGE_TEMPLATE.format(policy=policy, title=name, style=style, data=page_data(trace, shown), script=script)


def repr_html(trace: Trace) -> str:
    """Return the page as a frame for a notebook, or a sentence that tells why it cannot be drawn."""
    try:
        inner = build_page(trace)
    except InputError as problem:
        return f"<p>This trace cannot be drawn: {html.escape(str(problem))}</p>"
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
    """Return the stylesheet: light and dark, screen, phone and print."""
    return (resources.files(__name__) / "theme.css").read_text(encoding="utf-8")


@functools.cache
def _script() -> str:
    """Return all modules as one script that draws the trace in the page."""
    return "\n" + join_modules(modules(), "page") + "$page.drawEmbedded();\n"


IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
UNSUPPORTED = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def join_modules(modules: Mapping[str, str], entry: str) -> str:
    """Return one script equivalent to the module `entry`; `modules` are the sources by name.

    Each module becomes a function that returns its exports, so that its other names stay private; the exports of a
    module `c` are the entries of `$c`. Only the two forms that our modules use are supported: `import { a, b } from
    "./c.js";` and `export function|class|const`.
    """
    return "".join(wrap_module(name, modules[name]) for name in order_modules(modules, entry))


def order_modules(modules: Mapping[str, str], entry: str) -> list[str]:
    """Return `entry` and the modules it imports, dependencies first."""
    done: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"modules import each other in a cycle: {' > '.join((*path, name))}")
        if name not in done:
            for _, needed in IMPORT.findall(modules[name]):
                visit(needed, (*path, name))
            done.append(name)

    visit(entry, ())
    return done


def wrap_module(name: str, source: str) -> str:
    """Return a module as an immediately invoked function."""
    exports = EXPORT.findall(source)
    body = EXPORT.sub("", IMPORT.sub(r"const {\1} = $\2;\n", source))
    if (unsupported := UNSUPPORTED.search(body)) is not None:
        raise ValueError(f"{name}.js: this form of import or export is not supported: {unsupported[0]}")
    return f"const ${name} = (() => {{\n{body}return {{ {', '.join(exports)} }};\n}})();\n"


def _digest(text: str) -> str:
    """Return the hash of an inline element for the content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
