"""The page of a trace as a file: whole, safe, small, and the same every time."""

import base64
import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from sightline.errors import InputError
from sightline.tracing import TokenizedText
from sightline.tracing import page as trace_page
from sightline.tracing.page import IMPORT, join_modules, packing

from .drawn import HOSTILE, drawn_trace


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="trace">(.*?)</script>', page, re.DOTALL)[1])


def numbers_of(array: dict) -> np.ndarray:
    """Read an array as the page's modules do, written independently of what packs it."""
    return numbers_in(array, base64.b64decode(array["data"]))


def numbers_in(array: dict, data: bytes) -> np.ndarray:
    """The numbers in the bytes of an array."""
    if array["dtype"] == "root16":
        numbers = (np.frombuffer(data, "<u2") / 65535.0) ** 4
    else:
        raw = np.frombuffer(data, np.uint8).reshape(-1, 3)
        numbers = np.ascontiguousarray(np.concatenate([np.zeros((len(raw), 1), np.uint8), raw], axis=1)).view("<f4")
    if not array.get("causal"):
        return numbers.reshape(array["shape"])
    whole = np.zeros(array["shape"])
    whole[:, np.tri(whole.shape[1], dtype=bool)] = numbers.reshape(len(whole), -1)
    return whole


@pytest.fixture(scope="module")
def page() -> str:
    return trace_page.build_page(drawn_trace(30), title="thirty tokens")


def test_page_of_a_sentence_is_under_one_megabyte(page):
    assert len(page.encode()) < 1_000_000


def test_page_names_no_address_but_the_name_of_svg(page):
    assert set(re.findall(r"https?://[^\s\"'<>]*", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(?:src|href|action)\s*=|url\(|@import|\bimport\s*[({\"']", page)


def test_page_holds_every_module_once_after_those_it_needs(page):
    names = re.findall(r"^const \$(\w+) = \(\(\) => \{$", page, re.MULTILINE)
    assert sorted(names) == sorted(trace_page.modules())
    for name, source in trace_page.modules().items():
        needed = [other for _, other in IMPORT.findall(source)]
        assert all(names.index(other) < names.index(name) for other in needed)


def test_page_is_the_same_every_time(page):
    assert trace_page.build_page(drawn_trace(30), title="thirty tokens") == page


def test_page_allows_only_its_own_script_and_style(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    for tag, rule in (('script type="module"', "script-src"), ("style", "style-src")):
        inside = re.search(rf"<{tag}>(.*?)</{tag.split()[0]}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "img-src data:;" in policy
    assert not re.search(r"blob:|https?:|\*", policy)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_stay_data(text):
    page = trace_page.build_page(drawn_trace(13, (text, " a")), title=text)
    page.encode()  # lone surrogates are escaped
    assert page.lower().count("<script") == 2
    assert page.lower().count("</script") == 2
    assert "<!--" not in page
    assert "<img" not in page
    assert not re.search("[\u2028\u2029\u202e]", page)
    assert data_of(page)["trace"]["source"]["tokens"][0]["text"] == text


def test_modules_only_ever_set_texts_as_texts():
    forbidden = re.compile(r"innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|\beval\b|Function\(|srcdoc")
    reaching_out = re.compile(r"\bfetch\b|XMLHttp|WebSocket|EventSource|sendBeacon|localStorage|\bWorker\b")
    for name, source in trace_page.modules().items():
        assert not forbidden.search(source), name
        assert not reaching_out.search(source), name


def test_packed_weights_keep_five_digits(page):
    trace = drawn_trace(30)
    packed = data_of(page)["trace"]["activations"]
    assert packed.keys() == trace.activations.keys()
    for name, array in packed.items():
        np.testing.assert_allclose(numbers_of(array), trace.activations[name], rtol=2**-16, atol=0)


def test_packing_keeps_zero_one_and_infinity():
    values = np.array([[0, 1, -1, -np.inf, np.float32(1e-30), 0.5]], np.float32)
    described = {"shape": values.shape, "dtype": "float24"}
    np.testing.assert_allclose(numbers_in(described, packing.pack_float24(values)), values, rtol=2**-16)


def test_weights_of_long_texts_keep_four_decimal_places_and_small_ones_three_digits():
    values = np.concatenate([[0, 1], np.geomspace(1e-6, 1, 10_000)]).astype(np.float32)
    read = numbers_in({"shape": values.shape, "dtype": "root16"}, packing.pack_root16(values))
    np.testing.assert_allclose(read, values, rtol=0, atol=0.5e-4)
    np.testing.assert_allclose(read, values, rtol=1e-3, atol=0)
    assert list(read[:2]) == [0, 1]


def test_page_of_two_hundred_tokens_is_under_three_megabytes_and_says_its_precision():
    trace = drawn_trace(200)
    page = trace_page.build_page(trace)
    assert len(page) < 3_000_000
    packed = data_of(page)["trace"]
    assert packed["precision"] == "4 decimal places"
    for name, array in packed["activations"].items():
        np.testing.assert_allclose(numbers_of(array), trace.activations[name], rtol=0, atol=0.5e-4)


def test_only_what_a_causal_mask_made_zero_is_left_out(page):
    left_out = {name for name, array in data_of(page)["trace"]["activations"].items() if array.get("causal")}
    assert left_out == {f"decoder.{layer}.self_attention.weights" for layer in range(2)}


def test_bytes_hold_what_the_json_does():
    trace = drawn_trace(30)
    data = trace_page.pack_bytes(trace)
    length = int.from_bytes(data[:4], "little")
    entries = json.loads(data[4 : 4 + length])
    assert entries.keys() == json.loads(trace_page.pack_json(trace)).keys()
    for name, array in entries["activations"].items():
        start = 4 + length + array["start"]
        read = numbers_in(array, data[start : start + array["length"]])
        np.testing.assert_allclose(read, trace.activations[name], rtol=2**-16, atol=0)


def test_code_of_the_page_is_under_200_kilobytes():
    code = [*trace_page.modules().values(), trace_page.stylesheet()]
    assert sum(len(source.encode()) for source in code) < 200_000


def test_page_takes_only_weights_along(page):
    trace = drawn_trace(30)
    more = replace(trace, activations={**trace.activations, "encoder.0.output": np.zeros((30, 16), np.float32)})
    assert trace_page.build_page(more, title="thirty tokens") == page


def test_trace_without_weights_says_what_to_do():
    with pytest.raises(InputError, match="activations="):
        trace_page.build_page(replace(drawn_trace(5), activations={}))


def test_page_too_large_for_a_browser_says_what_to_do(monkeypatch):
    monkeypatch.setattr(packing, "MAX_PAGE_BYTES", 1000)
    with pytest.raises(InputError, match="fewer heads="):
        trace_page.build_page(drawn_trace(5))
    assert "cannot be drawn" in trace_page.repr_html(drawn_trace(5))


def test_notebook_gets_a_frame_that_holds_the_page():
    trace = drawn_trace(5, HOSTILE)
    frame = trace._repr_html_()
    assert frame == trace_page.repr_html(trace)
    assert re.fullmatch(r'<iframe [^<>]*sandbox="allow-scripts allow-downloads"[^<>]*srcdoc="[^"<>]*"></iframe>', frame)


def test_empty_texts_are_drawn():
    nothing = TokenizedText("", ())
    trace = drawn_trace(5)
    encoder = {name: array for name, array in trace.activations.items() if name.startswith("encoder")}
    bert = replace(
        trace,
        family="bert",
        interface="TextEncoder",
        task=None,
        predicts=None,
        target=nothing,
        inputs=nothing,
        steps=(),
        activations=encoder,
        tree=None,
    )
    assert data_of(trace_page.build_page(bert))["trace"]["words"]["target"] == []


def test_joining_keeps_names_apart_and_in_order():
    modules = {
        "a": 'import { two } from "./b.js";\nconst one = 1;\nexport const three = one + two();\n',
        "b": "const one = 2;\nexport function two() {\n  return one;\n}\n",
    }
    script = join_modules(modules, "a")
    assert script.index("$b = ") < script.index("$a = ")
    assert "import" not in script
    assert "export" not in script
    assert "const { two } = $b;" in script


def test_joining_refuses_cycles_and_unsupported_imports():
    cycle = {"a": 'import { b } from "./b.js";\n', "b": 'import { a } from "./a.js";\n'}
    with pytest.raises(ValueError, match="a > b > a"):
        join_modules(cycle, "a")
    with pytest.raises(ValueError, match="not supported"):
        join_modules({"a": 'import * as b from "./b.js";\n'}, "a")
