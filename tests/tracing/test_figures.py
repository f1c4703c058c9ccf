"""Figures of attention: what is drawn are the numbers of the trace."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.text import Text

from sightline.errors import InputError
from sightline.tracing.figures import COLUMN, KINDS, PAGE, draw
from sightline.tracing.figures.attention import MIN_WEIGHT, is_drawn
from sightline.tracing.figures.canvas import MAX_HEIGHT, token_label
from sightline.tracing.figures.heads import MAX_CELLS, arrange, max_pool

from .handmade import HEADS, LAYERS, continuation, sentence, translation

LAST = f"decoder.{LAYERS - 1}.cross_attention"


@pytest.fixture(scope="module")
def trace():
    return translation(sentence(6), sentence(4))


@cache
def drawn(kind: str, n: int):
    """A figure of n tokens and n tokens, to be looked at only."""
    return draw(kind, translation(sentence(n), sentence(n)))


def images(figure) -> list[np.ndarray]:
    return [np.asarray(image.get_array()) for axes in figure.axes for image in axes.get_images()]


def texts(figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts] + [text.get_text() for text in figure.texts]


def lines(figure) -> PathCollection:
    [found] = [one for axes in figure.axes for one in axes.collections if isinstance(one, PathCollection)]
    return found


def test_matrix_is_the_mean_of_the_last_cross_attention(trace):
    matrix, _ = images(draw("matrix", trace))
    np.testing.assert_array_equal(matrix, trace.attention(LAST).mean(axis=0))


@pytest.mark.parametrize("name", ["encoder.0.self_attention", "decoder.1.self_attention", "decoder.0.cross_attention"])
@pytest.mark.parametrize("head", range(HEADS))
def test_matrix_is_the_head_that_was_asked_for(trace, name, head):
    matrix, _ = images(draw("matrix", trace, attention=name, head=head))
    np.testing.assert_array_equal(matrix, trace.attention(name)[head])


def test_part_and_layer_choose_an_attention(trace):
    matrix, _ = images(draw("matrix", trace, attention="encoder", layer=0, head=1))
    np.testing.assert_array_equal(matrix, trace.attention("encoder.0.self_attention")[1])


def test_words_of_one_token_are_drawn_as_tokens(trace):
    matrix, _ = images(draw("matrix", trace, words=True))
    np.testing.assert_allclose(matrix, trace.words().attention[LAST].mean(axis=0))


def test_every_token_of_a_short_text_is_written(trace):
    written = texts(draw("matrix", trace))
    for token in (*trace.source.tokens, *trace.target.tokens):
        assert token_label(token) in written


def test_light_is_nothing_and_dark_is_all(trace):
    [image] = [image for axes in draw("matrix", trace).axes[:1] for image in axes.get_images()]
    assert (image.norm.vmin, image.norm.vmax) == (0.0, 1.0)
    grays = image.cmap(image.norm(np.linspace(0, 1, 50)))[:, :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(grays) < 0).all()


def test_lines_are_the_weights_that_count(trace):
    weights = trace.attention(LAST).mean(axis=0)
    drawn = lines(draw("lines", trace))
    expected = np.sort(weights[(weights >= MIN_WEIGHT) | (weights == weights.max(axis=1, keepdims=True))])
    np.testing.assert_array_equal(np.sort(np.asarray(drawn.get_array())), expected)
    assert (np.diff(drawn.get_linewidths()) >= 0).all()


def test_lines_join_the_tokens_they_belong_to(trace):
    """The strongest line, drawn last, begins at its key and ends at its query."""
    weights = trace.attention(LAST).mean(axis=0)
    row, column = np.unravel_index(weights.argmax(), weights.shape)
    path = lines(draw("lines", trace)).get_paths()[-1].vertices
    n_rows, n_columns = weights.shape
    n = max(n_rows, n_columns)
    assert path[0, 1] == (n - n_columns) / 2 + column + 0.5
    assert path[-1, 1] == (n - n_rows) / 2 + row + 0.5


def test_every_query_has_a_line():
    flat = np.full((3, 100), 0.01, np.float32)
    assert is_drawn(flat).any(axis=1).all()


def test_attention_draws_lines_and_matrix_of_the_same_numbers(trace):
    figure = draw("attention", trace, head=1)
    weights = trace.attention(LAST)[1]
    np.testing.assert_array_equal(images(figure)[0], weights)
    assert set(np.asarray(lines(figure).get_array())) <= set(weights.ravel())


def test_heads_are_all_there_in_order(trace):
    *small, _ = images(draw("heads", trace))
    expected = [
        trace.attention(f"{part.replace('*', str(layer))}")[head]
        for part in ("encoder.*.self_attention", "decoder.*.self_attention", "decoder.*.cross_attention")
        for layer in range(LAYERS)
        for head in range(HEADS)
    ]
    for one, other in zip(small, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_heads_of_one_part_alone(trace):
    *small, _ = images(draw("heads", trace, attention="encoder"))
    assert len(small) == LAYERS * HEADS


def test_no_strong_weight_is_lost_when_made_small():
    weights = np.random.default_rng(0).random((200, 130)).astype(np.float32)
    small = max_pool(weights, 4)
    assert small.shape == (50, 33)
    assert small[3, 7] == weights[12:16, 28:32].max()


def test_long_text_is_drawn_in_small_with_a_note():
    figure = draw("heads", translation(sentence(200), sentence(150)))
    assert max(images(figure)[0].shape) <= MAX_CELLS
    assert any("the largest of 4 × 4 weights" in text for text in texts(figure))


def test_gpt_is_drawn_by_its_self_attention():
    trace = continuation(sentence(3), sentence(2))
    matrix, _ = images(draw("matrix", trace))
    np.testing.assert_array_equal(matrix, trace.attention(f"decoder.{LAYERS - 1}.self_attention").mean(axis=0))


@pytest.mark.parametrize("n", [5, 30, 200])
@pytest.mark.parametrize("kind", ["attention", "matrix", "lines"])
def test_labels_never_overlap(kind, n):
    """Tokens of a column stand at least a line apart, however many there are."""
    figure = drawn(kind, n)
    tokens = set(map(token_label, sentence(n)))
    for axes in figure.axes:
        labels = [text for text in axes.texts if text.get_text() in tokens]
        for side in {(text.get_ha(), text.get_position()[0]) for text in labels if not text.get_rotation()}:
            column = [text for text in labels if (text.get_ha(), text.get_position()[0]) == side]
            heights = [axes.transData.transform(text.get_position())[1] for text in column]
            apart = np.abs(np.diff(heights)) / figure.dpi * 72
            assert (apart >= column[0].get_fontsize()).all()


@pytest.mark.parametrize("n", [5, 30, 200])
@pytest.mark.parametrize(
    ("kind", "width"), [("matrix", COLUMN), ("lines", COLUMN), ("attention", PAGE), ("heads", PAGE)]
)
def test_figure_is_as_wide_as_a_column_or_a_page(kind, width, n):
    wide, high = drawn(kind, n).get_size_inches()
    assert wide == pytest.approx(width)
    assert high < 9.5


def test_title_is_optional(trace):
    assert "Look!" in texts(draw("matrix", trace, title="Look!"))
    assert draw("matrix", trace).get_size_inches()[1] < draw("matrix", trace, title="Look!").get_size_inches()[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layer": 9}, "no layer 9: cross-attention has the layers 0, 1"),
        ({"head": 9}, "no head 9: it has the heads 0, 1"),
        ({"attention": "sideways"}, "no attention 'sideways': choose one of cross, decoder, encoder"),
    ],
)
def test_missing_attentions_are_reported(trace, options, said):
    with pytest.raises(InputError, match=said):
        draw("matrix", trace, **options)


def test_unknown_kind_names_the_nearest(trace):
    with pytest.raises(InputError, match=r"unknown figure 'matrx' \(did you mean 'matrix'\?\)"):
        draw("matrx", trace)


def test_trace_without_weights_says_how_to_get_them(trace):
    with pytest.raises(InputError, match=r"trace with activations=\('\*\.weights',\)"):
        draw("heads", replace(trace, activations={}))


def test_chosen_heads_keep_their_numbers(trace):
    activations = {name: array[1:] for name, array in trace.activations.items() if name.endswith(".weights")}
    some = replace(trace, activations=activations, heads=(1,))
    matrix, _ = images(draw("matrix", some, head=1))
    np.testing.assert_array_equal(matrix, trace.attention(LAST)[1])
    assert "head 1" in texts(draw("heads", some))
    with pytest.raises(InputError, match="no head 0: it has the heads 1"):
        draw("matrix", some, head=0)


def test_every_kind_says_what_it_draws():
    assert all(function.__doc__ for function in KINDS.values())


WITHOUT_THE_FONT = pytest.mark.filterwarnings("ignore:Glyph")
"""Where a machine has no font for a script, boxes are drawn instead, and must stay on the page as well."""


@pytest.mark.parametrize("n", [5, 60, 61, 200])
def test_scale_of_weights_says_when_it_is_not_linear(n):
    """As on the page half the weight is half as dark; among very many tokens linear weights would all be white."""
    figure = draw("matrix", translation(sentence(n), sentence(3)))
    scale = figure.axes[0].get_images()[0].norm
    is_linear = scale(0.25) == pytest.approx(0.25)
    assert is_linear == (n <= 60)
    assert ("attention weight" if is_linear else "attention weight (root scale)") in texts(figure)


@WITHOUT_THE_FONT
@pytest.mark.parametrize("kind", ["matrix", "lines", "calculation", "beam"])
@pytest.mark.parametrize("letter", ["W", "曙"])
def test_long_token_stays_on_the_page(kind, letter):
    figure = draw(kind, translation([letter * 40, "a"], [letter * 40]))
    renderer = FigureCanvasAgg(figure).get_renderer()
    shown = [text for text in figure.findobj(Text) if letter in text.get_text()]
    assert len(shown) >= 2 or kind == "calculation"
    for text in shown:
        box = text.get_window_extent(renderer)
        assert 0 <= box.x0 < box.x1 <= figure.bbox.width
        assert 0 <= box.y0 < box.y1 <= figure.bbox.height


@WITHOUT_THE_FONT
@pytest.mark.parametrize("title", ["W" * 200, "曙" * 90, "a " * 200])
@pytest.mark.parametrize("kind", ["matrix", "lines"])
def test_long_title_stays_on_the_page_and_is_whole(kind, title):
    figure = draw(kind, translation(sentence(3), ["W" * 40]), title=title)
    figure.set_dpi(300)  # as in a file: at few points an inch letters are rounded
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.texts]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    written = "".join(text.get_text() for text in figure.texts if text.get_weight() == "bold")
    assert written.replace(" ", "") == title.replace(" ", "")


@pytest.mark.parametrize(
    ("n_layers", "n_heads"), [([2, 2, 2], 4), ([6, 6, 6], 8), ([6, 6, 6], 16), ([12], 12), ([24], 16), ([1], 1)]
)
def test_small_matrices_are_never_smaller_than_they_must_be(n_layers, n_heads):
    """The parts of a large model are stacked if they would be unreadable side by side."""
    cell, places, height = arrange(n_layers, n_heads, PAGE)
    assert cell >= 0.3
    assert height <= MAX_HEIGHT
    for number, (left, top) in enumerate(places):
        assert 0 <= left < left + cell * n_heads <= PAGE
        assert top + cell * n_layers[number] <= height
    assert len({left for left, _ in places}) == 1 or len({top for _, top in places}) == 1
