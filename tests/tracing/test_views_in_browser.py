"""The views on a page of somebody else's, from served files: mounted, given another trace, removed."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from browser import PATIENCE
from sightline.tracing import page as trace_page

from .drawn import drawn_trace
from .models import pipeline, text_for

pytestmark = pytest.mark.browser

OTHER = (" ein", " Hund", " läuft")
PAGE = """<!DOCTYPE html><meta charset="utf-8"><link rel="stylesheet" href="/theme.css"><title>views</title>
<div id="left"></div><div id="right"></div><script type="module">
import { lines } from "./lines.js";
import { matrix } from "./matrix.js";
import { createStore, showTrace } from "./store.js";
import { readTrace } from "./trace.js";

const as = { json: (answer) => answer.json(), text: (answer) => answer.text(), bin: (answer) => answer.arrayBuffer() };
const fetched = async (name, kind) => readTrace(await as[kind](await fetch(`./${name}.${kind}`)));
const store = createStore(await fetched("one", location.hash.slice(1)));
const removals = ["left", "right"].map((id, at) => [lines, matrix][at](document.getElementById(id), store));
window.studio = {
  store,
  another: async () => showTrace(store, await fetched("two", location.hash.slice(1))),
  remove: (at) => removals[at](),
};
</script>"""

WHOLE = """async () => {
  const { draw } = await import("./page.js");
  const { showTrace } = await import("./store.js");
  const { readTrace } = await import("./trace.js");
  document.body.replaceChildren(document.createElement("main"));
  const { store, remove } = draw(document.querySelector("main"), await (await fetch("./one.plain")).json(), "live");
  const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(() => {
    const parts = [...document.querySelectorAll("section")].map(({ id }) => id);
    done([document.querySelectorAll(".strip .token").length, parts.includes("tree"), store.listeners.length]);
  })));
  const seen = [await drawn()];
  for (const name of ["gpt", "filler", "one"]) {
    showTrace(store, readTrace(await (await fetch(`./${name}.bin`)).arrayBuffer()));
    seen.push(await drawn());
  }
  remove();
  return [...seen, document.querySelector("main").childNodes.length + store.listeners.length];
}"""


@pytest.fixture(scope="module")
def address():
    traces = {"one": drawn_trace(6), "two": drawn_trace(9, OTHER)}
    traces |= {name: pipeline(name).trace(text_for(name)) for name in ("gpt", "filler")}
    files = {"/": ("text/html", PAGE.encode()), "/theme.css": ("text/css", trace_page.stylesheet().encode())}
    files |= {f"/{name}.js": ("text/javascript", source.encode()) for name, source in trace_page.modules().items()}
    for name, trace in traces.items():
        for kind, type_ in (("json", "application/json"), ("text", "text/plain")):
            files[f"/{name}.{kind}"] = (type_, trace_page.pack_json(trace).encode())
        files[f"/{name}.plain"] = ("application/json", trace.to_json().encode())
        files[f"/{name}.bin"] = ("application/octet-stream", trace_page.pack_bytes(trace))

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            type_, body = files.get(self.path, ("text/plain", b""))
            self.send_response(200 if self.path in files else 404)
            self.send_header("Content-Type", f"{type_}; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *values: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def mounted(browser, address):
    context = browser.new_context(viewport={"width": 900, "height": 900})
    context.set_default_timeout(PATIENCE)
    said: list[str] = []

    def open_page(kind: str):
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text) if "favicon" not in message.text else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.route("**/favicon.ico", lambda route: route.fulfill(status=204))
        page.goto(f"{address}#{kind}")
        page.wait_for_selector("#left svg .unit")
        page.wait_for_selector("#right .cells[data-plan]")
        return page

    yield open_page
    context.close()
    assert said == []


@pytest.mark.parametrize("kind", ["json", "text", "bin"])
def test_two_views_are_mounted_from_served_files(mounted, kind):
    page = mounted(kind)
    assert page.locator("#left .unit").count() == 12
    page.locator("#left .unit").last.hover()
    assert page.locator("#right .readout .query").inner_text().strip("“”\u2068\u2069") == "</s>"


@pytest.mark.parametrize("kind", ["json", "bin"])
def test_views_draw_another_trace_in_place_of_the_first(mounted, kind):
    page = mounted(kind)
    page.evaluate("studio.store.set({ heads: [{ name: 'decoder.0.cross_attention', head: 3 }] })")
    page.evaluate("studio.another()")
    page.locator("#left .unit").nth(17).wait_for()
    assert page.locator("#left .unit").count() == 18
    assert page.evaluate("studio.store.state.heads[0].name") == "decoder.0.cross_attention"
    page.wait_for_selector("#right .matrix[aria-label*='9 rows by 9 columns']")


def test_removed_view_leaves_nothing_and_the_other_goes_on(mounted):
    page = mounted("json")
    listening = page.evaluate("studio.store.listeners.length")
    page.evaluate("studio.remove(0)")
    assert page.locator("#left *").count() == 0
    assert page.evaluate("studio.store.listeners.length") < listening
    page.evaluate("studio.store.set({ step: 2 })")
    assert page.locator("#right .readout .number").count() == 1
    page.evaluate("studio.remove(1)")
    assert page.evaluate("studio.store.listeners.length") == 0
    assert page.locator("#right *").count() == 0


def test_whole_page_draws_traces_of_every_family_one_after_the_other(mounted):
    first, gpt, filler, last, left = mounted("json").evaluate(WHOLE)
    written = pipeline("gpt").trace(text_for("gpt"))
    assert first[:2] == [12, True]
    assert gpt[:2] == [len(written.source.tokens) + len(written.target.tokens), False]
    assert filler[:2] == [len(pipeline("filler").trace(text_for("filler")).source.tokens), False]
    assert last == first  # nobody is left listening to what is gone
    assert left == 0
