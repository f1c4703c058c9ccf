"""Figures as files: text is text, the same figure is the same file, nothing in a token can break it."""

import inspect
import re
import struct
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest

import sightline
from sightline.errors import InputError
from sightline.tracing.figures import KINDS, attention_matrix, canvas, draw, save
from sightline.tracing.figures.canvas import escape_invisible, token_label

from .handmade import ARABIC, CJK, HEBREW, ODD, sentence, translation
from .test_figures import drawn

OF_TRACES = [kind for kind in KINDS if kind != "embeddings"]
SVG = "{http://www.w3.org/2000/svg}"


def svg_texts(path: Path) -> list[str]:
    root = ElementTree.parse(path).getroot()  # noqa: S314
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("kind", OF_TRACES)
@pytest.mark.parametrize("n", [5, 30, 200])
def test_every_figure_is_drawn_at_every_length(kind, n, tmp_path):
    """Warnings are errors here: so there are none."""
    figure = drawn(kind, n)
    assert save(figure, tmp_path / "figure.svg") == ""
    assert (tmp_path / "figure.svg").stat().st_size < 1_000_000


@pytest.mark.parametrize("kind", ["attention", "matrix", "lines", "beam", "calculation"])
def test_text_is_text_whatever_it_says(kind, tmp_path):
    save(draw(kind, translation(ODD, ODD), title="$T_1^{oops"), tmp_path / "figure.svg")
    found = svg_texts(tmp_path / "figure.svg")
    assert "$T_1^{oops" in found
    for text in ("$x_1^2$", "<b>&amp;", "\\frac{1}", "]]>", "\\x00", "\\ud800"):
        assert any(text in one for one in found)


@pytest.mark.parametrize("kind", ["attention", "matrix", "lines", "beam", "calculation"])
def test_right_to_left_and_chinese_are_text(kind, tmp_path):
    trace = translation(HEBREW + ARABIC, CJK)
    figure = draw(kind, trace)
    save(figure, tmp_path / "figure.png")
    save(figure, tmp_path / "figure.svg")
    found = svg_texts(tmp_path / "figure.svg")
    for text in HEBREW if kind != "beam" else CJK[:5]:
        assert any(text.strip() in one for one in found)


def test_letters_that_no_font_has_are_named(tmp_path, monkeypatch):
    """As on a machine without Chinese fonts: no warning, the text stays in the SVG, and one is told."""
    monkeypatch.setattr(canvas, "font_families", lambda: ("sans-serif",))
    figure = draw("matrix", translation(["曙", "a"], ["曙光"]))
    for name in ("figure.png", "figure.svg"):
        assert save(figure, tmp_path / name) == "曙光"
    assert "曙光" in svg_texts(tmp_path / "figure.svg")


def test_nothing_invisible_stays_in_a_label():
    for token in ODD:
        text = token_label(token)
        assert text
        assert text.isprintable()
        text.encode()
    assert token_label(" dog") == "dog"
    assert token_label("   ") == "␣␣␣"
    assert escape_invisible("a b\u200cc") == "a b\u200cc"
    assert token_label(" \u200d") == "\\u200d"  # a joiner with nothing to join
    assert token_label("x" * 100) == "x" * 15 + "…"


@pytest.mark.parametrize("kind", OF_TRACES)
def test_same_figure_is_the_same_file(kind, tmp_path):
    for name in ("one.svg", "two.svg"):
        save(draw(kind, translation(sentence(5), sentence(4))), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert "dc:date" not in (tmp_path / "one.svg").read_text()


def test_png_has_three_hundred_points_an_inch(tmp_path):
    figure = draw("matrix", translation(sentence(5), sentence(4)))
    save(figure, tmp_path / "figure.png")
    width, height = struct.unpack(">II", (tmp_path / "figure.png").read_bytes()[16:24])
    assert (width, height) == tuple(int(side * 300) for side in figure.get_size_inches())


def test_svg_names_its_fonts_with_a_fallback(tmp_path):
    save(draw("matrix", translation(sentence(5), sentence(4))), tmp_path / "figure.svg")
    assert re.search(r"font-family: 'DejaVu Sans'.*sans-serif", (tmp_path / "figure.svg").read_text())


@pytest.mark.parametrize("name", ["figure.pdf", "figure", "figure.svg.gz"])
def test_other_formats_are_refused(name, tmp_path):
    with pytest.raises(InputError, match=r"saved as \.svg or \.png"):
        save(draw("matrix", translation(sentence(2), sentence(2))), tmp_path / name)


def test_style_of_others_is_left_alone_and_has_no_say(tmp_path):
    trace = translation(sentence(5), sentence(4))
    save(draw("matrix", trace), tmp_path / "plain.svg")
    with matplotlib.rc_context(
        {"font.size": 30, "axes.facecolor": "black", "svg.fonttype": "path", "text.color": "red"}
    ):
        before = dict(matplotlib.rcParams)
        save(draw("matrix", trace), tmp_path / "styled.svg")
        assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "styled.svg").read_bytes() == (tmp_path / "plain.svg").read_bytes()


def test_figure_is_the_same_by_its_kind_or_by_its_function(tmp_path):
    """`draw` adds nothing to a figure: neither an option nor the style."""
    trace = translation(sentence(5), sentence(4))
    for name, figure in {"kind": draw("matrix", trace, layer=0), "function": attention_matrix(trace, layer=0)}.items():
        save(figure, tmp_path / f"{name}.svg")
    assert (tmp_path / "function.svg").read_bytes() == (tmp_path / "kind.svg").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_shows_its_options_to_editors(kind):
    _, *options = inspect.signature(KINDS[kind]).parameters.values()
    assert {"title", "width"} <= {option.name for option in options}
    assert {option.kind for option in options} == {inspect.Parameter.KEYWORD_ONLY}


def test_nobody_loads_pyplot_or_a_screen():
    code = (
        "import sys; import sightline.tracing; assert 'matplotlib' not in sys.modules;"
        "import sightline.tracing.figures; print('matplotlib.pyplot' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_colors_are_those_of_the_page():
    """One color for one idea, on paper as on the screen."""
    theme = (Path(sightline.__file__).parent / "tracing/page/theme.css").read_text().partition("}")[0]
    of = dict(re.findall(r"--(\w+): ([^;]+);", theme))
    ours = {"query": canvas.QUERY, "key": canvas.KEY, "value": canvas.VALUE, "weight": canvas.WEIGHT}
    assert {**ours, "position": canvas.POSITION} == {name: of[name] for name in (*ours, "position")}
    for stop, color in zip((0.0, 0.25, 0.5, 0.75, 1.0), re.findall(r"#[0-9a-f]{6}", of["weights"]), strict=True):
        assert canvas.WEIGHTS(stop)[:3] == pytest.approx(matplotlib.colors.to_rgb(color), abs=0.01)
