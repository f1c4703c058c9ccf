"""Figures of a calculation, a beam, positions and words: what is drawn are the numbers."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection, PathCollection

from sightline.errors import InputError
from sightline.model.registry import build, read_config
from sightline.tracing.figures import draw
from sightline.tracing.figures.calculation import MAX_KEYS, digits
from sightline.tracing.figures.embedding_map import project_pca
from sightline.tracing.figures.positions import cosine_similarities, position_encodings

from .handmade import D, sentence, translation
from .test_figures import LAST, images, texts


@pytest.fixture(scope="module")
def trace():
    return translation(sentence(6), sentence(4))


def bars(figure) -> list[float]:
    """The widths of all bars, relative to that of the weight 1."""
    [page] = [axes for axes in figure.axes if axes.patches]
    [full] = {round(float(np.ptp(line.get_xdata())), 6) for line in page.lines[:-1]}
    return [bar.get_width() / full for bar in page.patches]


def test_calculation_shows_the_vectors(trace):
    figure = draw("calculation", trace, head=1, row=2)
    query, *others = images(figure)
    np.testing.assert_array_equal(query[0], trace[f"{LAST}.query"][1, 2])
    np.testing.assert_array_equal(np.concatenate(others[0:-1:2]), trace[f"{LAST}.key"][1])
    np.testing.assert_array_equal(np.concatenate(others[1:-1:2]), trace[f"{LAST}.value"][1])
    np.testing.assert_array_equal(others[-1][0], trace[f"{LAST}.head_outputs"][1, 2])


def test_calculation_writes_every_number(trace):
    written = texts(draw("calculation", trace, head=1, row=2))
    for point in ("scores", "scaled", "masked"):
        for number in trace[f"{LAST}.{point}"][1, 2]:
            assert digits(float(number)) in written
    for weight in trace[f"{LAST}.weights"][1, 2]:
        assert f"{weight:.3f}" in written


def test_bars_of_a_calculation_are_its_weights(trace):
    np.testing.assert_allclose(bars(draw("calculation", trace, row=1)), trace[f"{LAST}.weights"][0, 1], rtol=1e-4)


def test_mask_is_shown_as_minus_infinity(trace):
    written = texts(draw("calculation", trace, attention="decoder", row=0))
    assert written.count("−∞") == len(trace.target.tokens) - 1


def test_calculation_of_a_long_text_shows_the_keys_with_the_largest_weights():
    long = translation(sentence(40), sentence(3))
    figure = draw("calculation", long, row=1)
    weights = long[f"{LAST}.weights"][0, 1]
    assert sum(image.shape == (1, D) for image in images(figure)) == 2 * MAX_KEYS + 2
    assert f"{40 - MAX_KEYS} others, together" in texts(figure)
    assert f"{np.sort(weights)[:-MAX_KEYS].sum():.3f}" in texts(figure)


def test_calculation_without_its_numbers_says_how_to_get_them(trace):
    bare = replace(
        trace, activations={name: array for name, array in trace.activations.items() if name.endswith(".weights")}
    )
    with pytest.raises(InputError, match=r"has no query, key.* trace with activations=\('\*\.weights', 'decoder.1"):
        draw("calculation", bare)


def test_calculation_refuses_a_row_that_is_not_there(trace):
    with pytest.raises(InputError, match=r"no row 9: decoder\.1\.cross_attention has the rows 0 to 4"):
        draw("calculation", trace, row=9)


def test_shared_keys_are_those_of_the_head(trace):
    """Of four heads in two groups, the third reads the second group's keys."""
    activations = dict(trace.activations)
    for point in ("query", "scores", "scaled", "masked", "weights", "head_outputs"):
        activations[f"{LAST}.{point}"] = np.repeat(activations[f"{LAST}.{point}"], 2, axis=0)
    grouped = replace(trace, activations=activations, model={**trace.model, "n_heads": 4, "n_kv_heads": 2})
    _, first_key, *_ = images(draw("calculation", grouped, head=2))
    np.testing.assert_array_equal(first_key[0], trace[f"{LAST}.key"][1, 0])


@pytest.mark.parametrize(
    ("number", "said"),
    [(0.0, "0"), (-0.1234, "−0.123"), (3.14159, "3.14"), (112.4, "112"), (-math.inf, "−∞"), (12345.6, "12346")],
)
def test_numbers_have_three_digits(number, said):
    assert digits(number) == said


def test_beam_shows_the_path_and_its_probabilities(trace):
    figure = draw("beam", trace)
    written = texts(figure)
    assert {"1.   score −0.500", "the little model looks"} <= set(written)
    assert ".90 ■" in written
    assert sum(text.startswith(".90") for text in written) == len(trace.target.tokens)
    for number in range(len(trace.target.tokens)):
        assert any(text.startswith(f"x{number} .08") for text in written)


def test_lines_of_a_beam_are_as_thick_as_likely(trace):
    [lines] = [one for axes in draw("beam", trace).axes for one in axes.collections if isinstance(one, LineCollection)]
    assert len(lines.get_segments()) == len(trace.target.tokens)
    assert len(set(lines.get_linewidths())) == 1


def test_beam_of_many_steps_fits_a_page():
    figure = draw("beam", translation(sentence(3), sentence(200)))
    assert figure.get_size_inches()[1] < 11
    assert "200" in texts(figure)


def test_trace_without_a_beam_says_so(trace):
    with pytest.raises(InputError, match="has no beam search: trace with beam_size=4"):
        draw("beam", replace(trace, tree=None))


def model(positions: str):
    sizes = {"vocab_size": 20, "d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1, "max_length": 12}
    return build(read_config("gpt", {**sizes, "positions": positions}))


def test_positions_are_those_of_the_model():
    codes, alike, _ = images(draw("positions", model("sinusoidal"), n=10))
    places, depths = np.arange(10)[:, None], np.arange(0, 8, 2)
    angles = places / 10_000 ** (depths / 8)
    np.testing.assert_allclose(codes[:, 0::2], np.sin(angles), atol=1e-6)
    np.testing.assert_allclose(codes[:, 1::2], np.cos(angles), atol=1e-6)
    np.testing.assert_allclose(alike.diagonal(), 1, atol=1e-6)
    np.testing.assert_allclose(alike, codes @ codes.T / 4, atol=1e-6)


def test_learned_positions_end_where_the_model_ends():
    learned = model("learned")
    codes = position_encodings(learned, n=64)
    np.testing.assert_array_equal(codes, learned.embedding.positions.weight.detach().numpy())


def test_rotary_positions_are_their_angles():
    codes = position_encodings(model("rope"), n=5)
    np.testing.assert_allclose(codes[:, 0], np.sin(np.arange(5)), atol=1e-6)
    np.testing.assert_allclose(codes[:, 1], np.cos(np.arange(5)), atol=1e-6)


def test_curves_are_columns_of_the_matrix():
    figure = draw("positions", model("sinusoidal"), n=10, dimensions=[1, 4])
    codes = images(figure)[0]
    [curves] = [axes.lines for axes in figure.axes if axes.lines]
    for curve, depth in zip(curves, (1, 4), strict=True):
        np.testing.assert_array_equal(curve.get_ydata(), codes[:, depth])


def test_positions_of_a_trace_are_those_that_were_added(trace):
    np.testing.assert_array_equal(images(draw("positions", trace))[0], trace["encoder.embedding.positions"])


def test_model_without_positions_says_so():
    with pytest.raises(InputError, match="no position encodings"):
        draw("positions", model("none"))


def test_similarity_of_nothing_is_nothing():
    assert (cosine_similarities(np.zeros((2, 4), np.float32)) == 0).all()


class Vectors:
    """Words at known places."""

    def __init__(self, words, vectors):
        self.bundle = SimpleNamespace(words=tuple(words))
        self.at = dict(zip(words, vectors, strict=True))

    def word_vectors(self, words):
        return torch.stack([self.at[word] for word in words])

    def neighbors(self, word, *, n=10):
        others = [other for other in self.at if other != word]
        near = {other: float(torch.cosine_similarity(self.at[word], self.at[other], dim=0)) for other in others}
        order = sorted(others, key=near.__getitem__, reverse=True)[:n]
        return [SimpleNamespace(word=other, similarity=near[other]) for other in order]


@pytest.fixture
def vectors():
    torch.manual_seed(0)
    return Vectors([f"word{number}" for number in range(40)], torch.randn(40, 6))


def test_map_shows_the_neighbors_and_their_cosines(vectors):
    written = texts(draw("embeddings", vectors, words=["word3"], n=4))
    for near in vectors.neighbors("word3", n=4):
        assert written.count(near.word) == 2  # on the map and in the list
        assert f"{near.similarity:.3f}".replace("-", "−") in written


def test_map_has_a_point_for_each_word(vectors):
    figure = draw("embeddings", vectors, words=["word3"])
    points = np.concatenate(
        [one.get_offsets() for one in figure.axes[0].collections if isinstance(one, PathCollection)]
    )
    unit = np.stack([vector / np.linalg.norm(vector) for vector in (v.numpy() for v in vectors.at.values())])
    assert len(points) == 40
    _, lengths, _ = np.linalg.svd(unit - unit.mean(axis=0))
    np.testing.assert_allclose(np.sort((np.asarray(points) ** 2).sum(axis=0)), np.sort(lengths[:2] ** 2), rtol=1e-4)


def test_principal_directions_keep_distances_in_a_plane():
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(20, 2)) @ np.linalg.qr(rng.normal(size=(7, 2)))[0].T
    flat, shares = project_pca(plane)
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        np.linalg.norm(flat[:, None] - flat, axis=-1), np.linalg.norm(plane[:, None] - plane, axis=-1), atol=1e-9
    )


def test_map_of_one_word_is_a_point():
    flat, shares = project_pca(np.ones((1, 5)))
    assert (flat == 0).all()
    assert (shares == 0).all()


def test_map_of_a_trace_is_refused(trace):
    with pytest.raises(InputError, match="'embeddings' is drawn from a model"):
        draw("embeddings", trace)


def test_model_without_words_is_refused():
    with pytest.raises(InputError, match=r"no word list \(words.txt\)"):
        draw("embeddings", Vectors([], []))
