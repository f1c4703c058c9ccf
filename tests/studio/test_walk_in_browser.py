"""Walk through: every number on the page is the trace's, for each family, and one can go anywhere in it."""

import importlib
import math
import re

import numpy as np
import pytest
import torch

from browser import saved, settle, until
from pipelines.tiny import generator_bundle, translator_bundle
from sightline.pipelines import Generator, Translator
from sightline.serving.http import ServingSettings, background
from sightline.serving.service import service
from sightline.studio import routes

pytestmark = pytest.mark.browser

LAYER, HEAD, NUMBER = 1, 1, 5
TEXTS = {"phrases": "the cat sat", "gpt": "the dog", "bert": "the [MASK] sat", "classes": "a dog", "tags": "a dog ran"}
SUBLAYERS = ("self_attention", "cross_attention", "feed_forward")

TABLES = """async (stage) => {
  const section = document.querySelector(`[data-stage="${stage}"]`);
  const numbers = section.querySelector(".numbers");
  if (!numbers.open) {
    const filled = new Promise((done) => numbers.addEventListener("toggle", done, { once: true }));
    numbers.open = true;
    await filled; // the page hears of it first
  }
  const texts = (nodes) => [...nodes].map(({ textContent }) => textContent);
  const rows = (table) => [...table.querySelectorAll("tbody tr")].map((row) => texts(row.querySelectorAll("td")));
  return [...section.querySelectorAll("table")].map(rows);
}"""
LINES = """(stage) => {
  const lines = document.querySelectorAll(`[data-stage="${stage}"] .lines p`);
  return [...lines].map(({ textContent }) => textContent);
}"""
CHOSEN = """(all) => all.map(({ dataset, parentElement }) => {
  return [parentElement.getAttribute("aria-label"), Number(dataset.index)];
})"""


def number(text: str) -> float:
    return float(text.replace("−∞", "-inf").replace("−", "-"))


def last_number(line: str) -> float:
    return number(re.findall(r"−?(?:∞|[\d.]+(?:e[+−]\d+)?)", line)[-1])


def go(page, stage):
    """Go to a stage by the list of all."""
    stages = page.locator(".stage").evaluate_all("(all) => all.map(({ dataset }) => dataset.stage)")
    page.locator(".which").select_option(str(stages.index(stage)))
    page.wait_for_selector(f'[data-stage="{stage}"].drawn .lines p')


class Walk:
    """A walk that has been opened, beside the trace of the same sentence."""

    def __init__(self, tabs, models, name, more="", **options):
        text = TEXTS[name]
        model = models[name]
        given = {"phrases": {"to": "de"}, "gpt": {"beam_size": 1, "max_new_tokens": 20, "do_sample": False}}.get(
            name, {}
        )
        self.trace = model.trace(
            text.split() if name == "tags" else text, activations=("*",), logit_lens=False, **given
        )
        language = "&to=de" if name == "phrases" else ""
        wishes = f"layer={LAYER}&head={HEAD}&number={NUMBER}&sums=1{more}"
        self.page = tabs(f"#/walk?model={name}&text={text.replace(' ', '+')}{language}&{wishes}", **options)
        self.page.wait_for_selector(".stage.drawn")
        settle(self.page)
        self.stages = self.page.locator(".stage").evaluate_all("(all) => all.map(({ dataset }) => dataset.stage)")
        chosen = self.page.locator(".strip .token[aria-pressed=true]").evaluate_all(CHOSEN)
        self.rows = {"encoder": chosen[0][1], "decoder": chosen[-1][1]}
        assert len(chosen) == (2 if self.trace.family == "transformer" else 1)

    def to(self, stage):
        go(self.page, stage)
        return [
            np.array([[number(cell) for cell in row] for row in rows]) for rows in self.page.evaluate(TABLES, stage)
        ]

    def last(self, stage):
        """The number that the filled-in formula ends with."""
        return last_number(self.page.evaluate(LINES, stage)[-1])

    def hooks(self, name):
        array = self.trace[name]
        if array.ndim == 2:
            return array
        return array[HEAD * len(array) // self.trace.model["n_heads"]]

    def layer(self, tower):
        counts = {"encoder": "n_encoder_layers", "decoder": "n_decoder_layers"}
        return min(LAYER, int(self.trace.model.get("n_layers") or self.trace.model[counts[tower]]) - 1)


THREE_DIGITS = 6e-3
"""The largest part of a number that three digits leave out: 0.005 of 1.00, and a little for the way there."""


def same(shown, true, row=None):
    """Compare what a table shows, all or the lit row, with an array, to three digits."""
    wanted = true if len(shown) == len(true) else true[[row]]
    np.testing.assert_allclose(shown, wanted, rtol=THREE_DIGITS, atol=2e-6)


@pytest.mark.parametrize("name", ["phrases", "gpt", "bert"])
def test_every_matrix_and_every_sum_is_the_traces(tabs, models, name):
    """One page, opened once: opening is what takes time."""
    walk = Walk(tabs, models, name)
    check_family(walk)
    check_beginning(walk)
    check_attentions(walk)
    check_sublayers(walk)
    check_end(walk)
    check_code(walk)


FORMULAS = """() => Object.fromEntries([...document.querySelectorAll(".stage")].map((stage) => {
  const text = (selector) => stage.querySelector(selector).textContent;
  return [stage.dataset.stage, [text(".formula"), text(".stage-text p")]];
}))"""


def test_formulas_have_the_biases_that_their_sums_include(tabs, models, other_models, other_url):
    own = Walk(tabs, models, "gpt").page.evaluate(FORMULAS)
    assert models["gpt"].model.config.bias
    assert own["decoder.self_attention.qkv"][0] == "q = x W_Q + b_Q\nk = x W_K + b_K\nv = x W_V + b_V"
    assert own["decoder.self_attention.output"][0] == "output = merged W_O + b_O"
    assert own["decoder.feed_forward.hidden"][0].startswith("a = x W₁ + b₁\n")
    assert own["decoder.feed_forward.output"][0] == "output = hidden W₂ + b₂"
    bare = tabs("#/walk?model=rotary&text=the+cat", url=other_url)
    bare.wait_for_selector(".stage.drawn")
    others = bare.evaluate(FORMULAS)
    assert others["decoder.self_attention.qkv"][0] == "q = x W_Q\nk = x W_K\nv = x W_V"
    assert others["decoder.feed_forward.hidden"][0].startswith("a = x W₁\ngate = x W_g\n")
    assert others["decoder.self_attention.norm"][0] == "norm(x) = x ÷ root mean square · gain"


@pytest.mark.parametrize(("name", "tower", "is_said"), [("gpt", "decoder", False), ("phrases", "encoder", True)])
def test_only_codes_that_are_not_learned_are_said_to_be_similar_nearby(tabs, models, name, tower, is_said):
    assert (models[name].model.config.positions == "learned") != is_said
    told = Walk(tabs, models, name).page.evaluate(FORMULAS)[f"{tower}.embedding.positions"][1]
    assert ("Nearby positions have similar encodings" in told) == is_said


@pytest.mark.parametrize("name", ["classes", "tags"])
def test_the_probabilities_of_classes_are_the_traces(tabs, models, name):
    walk = Walk(tabs, models, name)
    check_end(walk)
    check_code(walk)


def check_attentions(walk):
    attentions = sorted({stage.rpartition(".")[0] for stage in walk.stages if stage.endswith(".scores")})
    assert len(attentions) == {"transformer": 3, "gpt": 1, "bert": 1}[walk.trace.family]
    for place in attentions:
        tower, sub = place.split(".")
        point = f"{tower}.{walk.layer(tower)}.{sub}"
        row = walk.rows[tower]
        query, key, value = (walk.hooks(f"{point}.{part}") for part in ("query", "key", "value"))
        scores, scaled, masked, weights, mixed = (
            walk.hooks(f"{point}.{part}") for part in ("scores", "scaled", "masked", "weights", "head_outputs")
        )
        column = int(weights[row].argmax())  # the key that is shown where none is chosen

        shown_query, shown_key, shown_value = walk.to(f"{place}.qkv")[-3:]
        same(shown_query, query, row)
        same(shown_key, key, column)
        same(shown_value, value, column)
        assert walk.last(f"{place}.qkv") == pytest.approx(query[row, NUMBER], rel=THREE_DIGITS)

        asks, offers, shown = walk.to(f"{place}.scores")
        same(asks, query[[row]])
        same(offers, key[[column]])
        same(shown, scores, row)
        assert walk.last(f"{place}.scores") == pytest.approx(query[row] @ key[column], rel=THREE_DIGITS)

        same(walk.to(f"{place}.scaled")[1], scores / math.sqrt(query.shape[1]), row)
        assert walk.last(f"{place}.scaled") == pytest.approx(scaled[row, column], rel=THREE_DIGITS)

        shown = walk.to(f"{place}.masked")[1]
        same(shown, masked, row)
        causal = tower == "decoder" and sub == "self_attention"
        later = ~np.tri(*masked.shape, dtype=bool)
        assert np.isinf(masked[later]).all() == causal
        assert walk.last(f"{place}.masked") == pytest.approx(masked[row, column], rel=THREE_DIGITS)

        shown = walk.to(f"{place}.weights")[1]
        same(shown, weights, row)
        np.testing.assert_allclose(shown.sum(axis=1), 1, atol=0.01)
        assert "sum to 1.00." in walk.page.evaluate(LINES, f"{place}.weights")[-1]
        softmax = walk.page.evaluate(LINES, f"{place}.weights")[1]
        assert last_number(softmax) == pytest.approx(weights[row, column], rel=THREE_DIGITS)

        shown_weights, shown_values, shown_mixed = walk.to(f"{place}.head_outputs")
        same(shown_mixed, mixed, row)
        if len(shown_values) == len(value):
            left_out = 2 * THREE_DIGITS * (shown_weights @ abs(shown_values)) + 1e-5
            assert (abs(shown_weights @ shown_values - mixed[[row]]) <= left_out).all()
        assert walk.last(f"{place}.head_outputs") == pytest.approx(
            (weights @ value)[row, NUMBER], rel=THREE_DIGITS, abs=1e-5
        )

        same(walk.to(f"{place}.merged_heads")[1], np.hstack(walk.trace[f"{point}.head_outputs"]), row)
        same(walk.to(f"{place}.output")[1], walk.hooks(f"{point}.output"), row)
        assert walk.last(f"{place}.output") == pytest.approx(
            walk.hooks(f"{point}.output")[row, NUMBER], rel=THREE_DIGITS
        )


def check_sublayers(walk):
    for stage in [stage for stage in walk.stages if stage.split(".")[1] in SUBLAYERS and stage.endswith(".residual")]:
        tower, sub, _ = stage.split(".")
        row, point = walk.rows[tower], f"{tower}.{walk.layer(tower)}.{sub}"
        came, said, total = walk.to(stage)
        same(total, walk.hooks(f"{point}.residual"), row)
        left_out = THREE_DIGITS * (abs(came) + abs(said) + abs(total))
        assert (abs(came + said - total) <= left_out).all()
        assert walk.last(stage) == pytest.approx(walk.hooks(f"{point}.residual")[row, NUMBER], rel=THREE_DIGITS)
        norm = f"{tower}.{sub}.norm"
        before, after = walk.to(norm)
        same(after, walk.hooks(f"{point}.norm"), row)
        same(before, came if walk.trace.model["pre_norm"] else total, row)
        lines = walk.page.evaluate(LINES, norm)
        assert "learned gain" in lines[-1]
        assert last_number(lines[-1]) == pytest.approx(walk.hooks(f"{point}.norm")[row, NUMBER], rel=THREE_DIGITS)
        order = walk.stages.index(norm) < walk.stages.index(stage)
        assert order == (walk.trace.model["pre_norm"])
        if sub == "feed_forward":
            same(walk.to(f"{tower}.{sub}.hidden")[1], walk.hooks(f"{point}.hidden"), row)
            assert walk.last(f"{tower}.{sub}.output") == pytest.approx(
                walk.hooks(f"{point}.output")[row, NUMBER], rel=THREE_DIGITS
            )


def check_beginning(walk):
    trace, tower = walk.trace, walk.stages[0].split(".")[0]
    row = walk.rows[tower]
    tokens = (trace.inputs if tower == "decoder" else trace.source).tokens
    chips = walk.page.locator(f'[data-stage="{tower}.embedding.ids"] .chips small').all_text_contents()
    assert [int(text) for text in chips] == [token.id for token in tokens]
    parts = walk.to(f"{tower}.embedding.positions")
    for shown, point in zip(parts, ["tokens", "positions"], strict=False):
        same(shown, walk.hooks(f"{tower}.embedding.{point}"), row)
    scale = math.sqrt(trace.model["d_model"]) if trace.model["scale_embeddings"] else 1.0
    same(walk.to(f"{tower}.embedding.vectors")[0], walk.hooks(f"{tower}.embedding.tokens") / scale, row)
    last = walk.to(f"{tower}.embedding.norm")[1] if trace.family == "bert" else parts[-1]
    same(last, walk.hooks(f"{tower}.embedding.output"), row)
    shown = walk.to(f"{tower}.end.layers")[0]
    handed = "residual" if trace.model["pre_norm"] else "norm"
    same(shown[[1]], walk.hooks(f"{tower}.0.feed_forward.{handed}")[[row]])


def check_end(walk):
    tower = walk.stages[-1].split(".")[0]
    step = next(step for step in walk.trace.steps if step.row == walk.rows[tower])
    walk.to(f"{tower}.head.probabilities")
    scores, probabilities = (
        [number(text) for text in figure.locator(".candidates .number").all_text_contents()]
        for figure in walk.page.locator(f'[data-stage="{tower}.head.probabilities"] .panel').all()
    )
    row = walk.trace["logits"][step.row if len(walk.trace["logits"]) > 1 else 0]
    np.testing.assert_allclose(scores, [row[one.id] for one in step.candidates], rtol=THREE_DIGITS, atol=1e-4)
    np.testing.assert_allclose(
        probabilities, [one.probability for one in step.candidates], rtol=THREE_DIGITS, atol=1e-6
    )
    likely = torch.tensor(row).softmax(dim=0)[step.choice.id].item()
    assert walk.last(f"{tower}.head.probabilities") == pytest.approx(likely, rel=THREE_DIGITS)
    walk.to(f"{tower}.head.logits")
    assert walk.last(f"{tower}.head.logits") == pytest.approx(float(row[step.choice.id]), rel=THREE_DIGITS)
    words = walk.page.locator(f'[data-stage="{tower}.head.word"] .chips .token span').all_text_contents()
    assert len(words) == len(walk.trace.steps)


def check_code(walk):
    """What the page names in the code is there."""
    for line in set(walk.page.locator(".code").all_text_contents()):
        found = re.findall(r"([\w.]+) \(([\w/]+)\.py\)", line)
        assert found, line
        for what, file in found:
            place = importlib.import_module("sightline." + file.replace("/", "."))
            for part in what.split("."):
                place = getattr(place, part)


def check_family(walk):
    """Only an encoder–decoder has two towers and looks across."""
    towers = {"transformer": {"encoder", "decoder"}, "gpt": {"decoder"}, "bert": {"encoder"}}[walk.trace.family]
    assert {stage.split(".")[0] for stage in walk.stages} == towers
    assert any("cross" in stage for stage in walk.stages) == (len(towers) == 2)


def test_a_link_restores_everything_and_keys_change_it(tabs, models):
    more = "&stage=encoder.self_attention.weights&token=2&row=1&key=source.1"
    walk = Walk(tabs, models, "phrases", more)
    page = walk.page
    page.wait_for_selector('[data-stage="encoder.self_attention.weights"].here.drawn .lines p')
    weights = walk.trace[f"encoder.{LAYER}.self_attention.weights"]
    shown = page.locator('[data-stage="encoder.self_attention.weights"] .panel .reading').last

    def reads(weight):
        """Wait until this is the number that is shown: it is drawn when what it takes has come."""
        until(page, lambda: number(shown.inner_text().split(": ")[-1]) == pytest.approx(weight, rel=THREE_DIGITS))

    reads(weights[HEAD, 2, 1])
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.hash.includes('token=3')")
    reads(weights[HEAD, 3, 1])
    page.keyboard.press("Shift+ArrowLeft")
    page.wait_for_function("() => location.hash.includes('head=0')")
    reads(weights[0, 3, 1])
    page.keyboard.press("ArrowDown")
    page.wait_for_function("() => location.hash.includes('encoder.self_attention.head_outputs')")
    assert page.locator(".stop.here").count() == 1
    page.keyboard.press("Escape")
    page.wait_for_function("() => !location.hash.includes('key=')")
    page.locator(".strip").first.locator(".token").nth(0).click()
    page.wait_for_function("() => location.hash.includes('token=0')")


def test_a_token_is_followed_everywhere(tabs, models):
    page = Walk(tabs, models, "gpt", "&stage=decoder.self_attention.residual").page
    page.wait_for_selector('[data-stage="decoder.self_attention.residual"].drawn')
    page.locator(".strip .token").nth(2).hover()
    assert page.locator('[data-stage="decoder.self_attention.residual"] .lit.hovered').count() == 3
    page.locator('[data-stage="decoder.self_attention.residual"] .cells svg').first.hover()
    assert page.locator(".strip .token.is-key").count() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(tabs, models, theme):
    page = Walk(tabs, models, "phrases", "&stage=decoder.cross_attention.qkv", width=390, height=800, theme=theme).page
    page.wait_for_selector('[data-stage="decoder.cross_attention.qkv"].drawn')
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_what_is_shown_can_be_saved(tabs, models):
    walk = Walk(tabs, models, "gpt", "&stage=decoder.self_attention.scaled")
    section = walk.page.locator('[data-stage="decoder.self_attention.scaled"]')
    section.locator(".lines p").first.wait_for()
    section.get_by_role("button", name="Save", exact=True).click()
    _, numbers = saved(walk.page, section.get_by_role("button", name="Save as JSON").click)
    _, picture = saved(walk.page, section.get_by_role("button", name="Save as SVG").click)
    assert b"<image" in picture
    assert b"scaled" in numbers


@pytest.fixture(scope="module")
def other_models():
    rotary = {"positions": "rope", "norm": "rms", "activation": "swiglu", "bias": False}
    made = {
        "llama": Generator(generator_bundle(**rotary, n_heads=4, n_kv_heads=2, max_length=300)),
        "qwen": Generator(
            generator_bundle(**rotary, n_heads=4, n_kv_heads=2, d_head=6, qkv_bias=True, qk_norm=True, max_length=300)
        ),
        "pre": Translator(translator_bundle(pre_norm=True, max_length=300)),
    }
    for one in made.values():
        one.model.eval()  # as loaded ones are: the server's thread and ours must not switch dropout for each other
    return made


@pytest.fixture(scope="module")
def other_url(other_models):
    app = service(
        other_models, ServingSettings(port=0), more_routers=routes.routers, public_paths=routes.public_paths()
    )
    with background(app) as address:
        yield address


def test_rotary_positions_and_gates_are_told_with_their_numbers(tabs, other_models, other_url):
    trace = other_models["llama"].trace(
        "the dog", activations=("*",), logit_lens=False
    )  # before the server uses the model
    page = tabs("#/walk?model=llama&text=the+dog&sums=1&row=3&head=3&number=1&layer=1", url=other_url)
    page.wait_for_selector(".stage.drawn")
    for stage, wanted in {
        "decoder.self_attention.qkv": trace["decoder.1.self_attention.query"][3, 3, 1],
        "decoder.self_attention.scores": None,
        "decoder.feed_forward.hidden": trace["decoder.1.feed_forward.hidden"][3, 1],
        "decoder.end.final_norm": trace["decoder.final_norm"][3, 1],
    }.items():
        go(page, stage)
        if wanted is not None:
            assert last_number(page.evaluate(LINES, stage)[-1]) == pytest.approx(wanted, rel=THREE_DIGITS)
    keys = trace["decoder.1.self_attention.key"]
    assert len(keys) == 2
    scores = trace["decoder.1.self_attention.scores"][3, 3]
    column = int(trace["decoder.1.self_attention.weights"][3, 3].argmax())
    shown = last_number(page.evaluate(LINES, "decoder.self_attention.scores")[-1])
    assert shown == pytest.approx(scores[column], rel=THREE_DIGITS)


def test_heads_of_their_own_width_and_single_biases_are_told_with_their_numbers(tabs, other_models, other_url):
    trace = other_models["qwen"].trace("the dog", activations=("*",), logit_lens=False)
    page = tabs("#/walk?model=qwen&text=the+dog&sums=1&row=3&head=3&number=5&layer=1", url=other_url)
    page.wait_for_selector(".stage.drawn")
    for stage, wanted in {
        "decoder.self_attention.qkv": trace["decoder.1.self_attention.query"][3, 3, 5],
        "decoder.self_attention.merged_heads": trace["decoder.1.self_attention.merged_heads"][3, 3 * 6 + 5],
        "decoder.self_attention.output": trace["decoder.1.self_attention.output"][3, 5],
        "decoder.feed_forward.output": trace["decoder.1.feed_forward.output"][3, 5],
    }.items():
        go(page, stage)
        assert last_number(page.evaluate(LINES, stage)[-1]) == pytest.approx(wanted, rel=THREE_DIGITS)


def test_heads_that_are_too_many_come_one_by_one(tabs, other_models, other_url):
    trace = other_models["llama"].trace("the dog", activations=("*",), logit_lens=False)
    page = tabs("#/walk?model=llama&text=the+dog", url=other_url)
    page.wait_for_selector(".stage.drawn")
    ids = [{"id": token.id} for token in trace.inputs.tokens]
    found = page.evaluate(
        """async (ids) => {
          const { Activations } = await import("/studio/walk/activations.js");
          const { fetchBytes } = await import("/studio/api.js");
          const [model, inputs] = [{ n_heads: 4, d_ff: 8 }, { tokens: ids }];
          const trace = { interface: "CausalLM", model, source: { tokens: [] }, inputs };
          const activations = new Activations(fetchBytes, "llama", trace);
          activations.single = true;
          const [query, key] = ["query", "key"].map((point) => `decoder.1.self_attention.${point}`);
          await Promise.all([2, 3].map((head) => activations.need({ names: [query, key], head })));
          const matrices = [[query, 2], [query, 3], [key, 3]].map(([name, head]) => activations.matrix(name, head));
          return matrices.map(({ data }) => [...data]);
        }""",
        ids,
    )
    query, key = trace["decoder.1.self_attention.query"], trace["decoder.1.self_attention.key"]
    for shown, true in zip(found, (query[2], query[3], key[1]), strict=True):
        np.testing.assert_allclose(shown, true.ravel(), rtol=1e-5, atol=1e-6)


LONG = "#/walk?model=pre&stage=encoder.self_attention.weights&token=5&text=" + "the+cat+sat+on+the+mat+" * 22


def long_walk(tabs, url):
    page = tabs(LONG, url=url)
    page.wait_for_selector('[data-stage="encoder.self_attention.weights"].here.drawn')
    assert page.locator(".strip").first.locator(".token").count() > 120
    settle(page)
    return page


def test_two_hundred_tokens_are_walked_through(tabs, other_url):
    page = long_walk(tabs, other_url)
    for token in range(6, 12):
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(f".strip .token[data-index='{token}'][aria-pressed=true]")
    page.wait_for_function("() => location.hash.includes('token=11')")


@pytest.mark.slow
def test_two_hundred_tokens_stay_quick(tabs, other_url):
    page = long_walk(tabs, other_url)
    took = page.evaluate("""async () => {
      const times = [];
      for (let at = 0; at < 30; at++) {
        const before = performance.now();
        document.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
        await new Promise((done) => setTimeout(done));
        document.body.offsetHeight;
        times.push(performance.now() - before);
      }
      return Math.min(...times);
    }""")
    assert took < 100  # the quickest: what it takes where nothing else is being done


@pytest.mark.parametrize(
    ("model", "body", "param"),
    [
        ("phrases", {"source": [], "inputs": [1]}, "source"),
        ("phrases", {"source": [1], "inputs": []}, "inputs"),
        ("bert", {"source": []}, "source"),
        ("gpt", {"source": [], "inputs": [1], "row": 1}, "row"),
        ("gpt", {"source": [], "inputs": [1], "weights": {"output.nothing": 0}}, "weights"),
        ("gpt", {"source": [], "inputs": [1], "weights": {"output.weight": -1}}, "weights"),
        ("bert", {"source": [1, 2], "segments": [0, 7]}, "segments"),
        ("gpt", {"source": [], "inputs": [1] * 300}, "inputs"),
    ],
)
def test_what_is_not_there_is_refused(http, model, body, param):
    answer = http.post("/studio-api/activations", json={"model": model, **body})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize(
    "body", [{"inputs": [-1]}, {"inputs": [10**6]}, {"inputs": [10**30]}, {"inputs": [1], "activations": ["nothing"]}]
)
def test_ids_and_names_that_are_not_there_are_refused(http, body):
    answer = http.post("/studio-api/activations", json={"model": "gpt", "source": [], "row": 0, **body})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("address", "read"),
    [
        ('model=talk&text=Bye&before=["Hello","Hi"]', ["Hello", "Hi", "Bye"]),
        ("model=classes&text=the cat sat&second=a dog ran", ("the cat sat", "a dog ran")),
    ],
    ids=["a conversation", "a pair"],
)
def test_what_stands_beside_a_text_comes_along(tabs, models, address, read):
    page = tabs(f"#/watch?{address}")
    page.wait_for_selector(".watch[aria-busy=false]")
    page.get_by_role("link", name="Walk through").click()
    page.wait_for_selector(".stage.drawn")
    own = models["talk" if isinstance(read, list) else "classes"].trace(read, logit_lens=False)
    tokens = page.get_by_role("group", name=re.compile("^(Source|Input): tokens")).locator(".token")
    assert tokens.count() == len(own.source.tokens)
    if isinstance(read, list):
        page.get_by_role("button", name="Remove").click()
        alone = len(models["talk"].trace(read[-1], logit_lens=False).source.tokens)
        tokens.nth(alone).wait_for(state="detached")
        assert tokens.count() == alone
