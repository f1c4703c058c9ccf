"""Products: every instruction set gives the same integers, and a row the same bits in any batch."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from engine.native.small import require
from sightline.engine.native.library import open_library
from sightline.engine.native.model import multiply
from sightline.errors import SettingsError

INSTRUCTION_SETS = ("avx2", "avxvnni", "avx512", "vnni")
SHAPES = [(1, 1, 1), (1, 5, 3), (2, 64, 64), (3, 67, 65), (5, 130, 17), (7, 33, 200), (13, 128, 70), (1, 257, 129)]
"""Rows, inputs, outputs: whole tiles, single ones, and what is left over."""


def draw(n_rows, n_inputs, n_outputs):
    generator = np.random.default_rng(n_inputs)
    shapes = ((n_rows, n_inputs), (n_outputs, n_inputs), (n_outputs,))
    return [generator.normal(size=shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_int8_products_are_those_of_plain_c(name, shape):
    require(name)
    x, weights, bias = draw(*shape)
    expected = multiply(x, weights, bias, instruction_set="plain")
    assert_array_equal(multiply(x, weights, bias, instruction_set=name), expected)


@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_largest_bytes_do_not_saturate(name):
    """Pairs of products of ±127 are what 16 bits just hold."""
    require(name)
    signs = np.array([[1, 1, 1, 1], [-1, -1, -1, -1], [1, -1, 1, -1]], dtype=np.float32).repeat(16, axis=1)
    zeros = np.zeros(3, dtype=np.float32)
    exact = signs @ signs.T
    assert_allclose(multiply(signs, signs, zeros, instruction_set=name), exact, rtol=1e-6)
    assert_array_equal(
        multiply(signs, signs, zeros, instruction_set=name), multiply(signs, signs, zeros, instruction_set="plain")
    )


def test_int8_products_are_those_of_quantized_numbers():
    x, weights, bias = draw(4, 50, 30)

    def quantize(rows):
        scale = np.abs(rows).max(axis=1, keepdims=True) / np.float32(127)
        return np.rint(rows / scale), scale

    (bytes_x, scale_x), (bytes_w, scale_w) = quantize(x), quantize(weights)
    expected = bytes_x @ bytes_w.T * (scale_x * scale_w.T) + bias
    assert_allclose(multiply(x, weights, bias, instruction_set="plain"), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["plain", *INSTRUCTION_SETS])
def test_fp32_products_are_those_of_numpy(name, shape):
    require(name)
    x, weights, bias = draw(*shape)
    found = multiply(x, weights, bias, precision="fp32", instruction_set=name)
    assert_allclose(found, x.astype(np.float64) @ weights.T + bias, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("name", ["plain", *INSTRUCTION_SETS])
def test_row_does_not_depend_on_its_neighbors(name, precision):
    require(name)
    x, weights, bias = draw(13, 70, 130)
    options = {"precision": precision, "instruction_set": name}
    together = multiply(x, weights, bias, **options)
    for count in (1, 2, 3, 4, 5, 6, 7):
        assert_array_equal(multiply(np.ascontiguousarray(x[:count]), weights, bias, **options), together[:count])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["plain", *INSTRUCTION_SETS])
def test_what_is_not_finite_stays_visible(name, value):
    require(name)
    x, weights, bias = draw(3, 40, 20)
    x[1, 7] = value
    found = multiply(x, weights, bias, instruction_set=name)
    assert not np.isfinite(found[1]).any()
    assert np.isfinite(found[[0, 2]]).all()


def test_unknown_instruction_set_is_refused():
    with pytest.raises(SettingsError, match=r"instruction set mmx is not supported here: choose .*plain"):
        open_library().choose("mmx")


def test_environment_names_the_instruction_set(monkeypatch):
    monkeypatch.setenv("SIGHTLINE_ISA", "plain")
    assert open_library().compiled[open_library().choose()] == "plain"
