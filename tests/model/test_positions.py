"""Sinusoids and rotations (spec 2.2 – 2.5)."""

import math

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from sightline.model.config import Rope
from sightline.model.positions import (
    frequencies,
    rope_amplitude,
    rope_frequencies,
    rotate,
    rotation_at,
    rotation_table,
    round_up,
    sinusoid_table,
)

D_MODEL = 32
ROPE = Rope(d_head=8)


def code(position: int, d_model: int) -> list[float]:
    """PE(pos), written out as in the paper."""
    values = []
    for i in range(d_model // 2):
        angle = position / 10_000 ** (2 * i / d_model)
        values += [math.sin(angle), math.cos(angle)]
    return values


@given(st.integers(0, 100_000), st.sampled_from([2, 6, 8]))
def test_sinusoid_table_holds_the_formula_at_any_position(position, d_model):
    """sin and cos of pos / 10000^(2i/d), in turn; no table limit, and far positions stay exact (spec 2.2)."""
    found = sinusoid_table(round_up(position + 1), d_model)[position]
    assert_close(found, torch.tensor(code(position, d_model)), atol=1e-6, rtol=0.0)


def test_sinusoid_table_of_a_longer_length_begins_with_the_shorter():
    """A position's code must not depend on how much room was made."""
    assert torch.equal(sinusoid_table(256, D_MODEL)[:64], sinusoid_table(64, D_MODEL))


def test_sinusoid_table_in_halves_is_the_same_numbers_sorted():
    """Some published weights expect all sines first."""
    whole = sinusoid_table(64, D_MODEL)
    halves = sinusoid_table(64, D_MODEL, halves=True)
    assert torch.equal(halves, torch.cat((whole[:, 0::2], whole[:, 1::2]), dim=1))


@pytest.mark.parametrize("offset", range(101))
def test_sinusoids_move_by_one_matrix_for_every_offset(offset):
    """One M_k takes PE(pos) to PE(pos + k) at every pos, so that relative offsets can be learned (spec 2.3)."""
    shift = torch.zeros(D_MODEL, D_MODEL, dtype=torch.float64)
    for i in range(D_MODEL // 2):
        angle = offset / 10_000 ** (2 * i / D_MODEL)
        here = slice(2 * i, 2 * i + 2)
        shift[here, here] = torch.tensor(
            [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], dtype=torch.float64
        )
    table = sinusoid_table(1024, D_MODEL).double()
    assert_close(table[: 1024 - offset] @ shift.T, table[offset:], atol=1e-6, rtol=0.0)


@given(st.integers(0, 400))
def test_sinusoids_of_neighbors_are_more_alike_than_any_others(position):
    """Nearby positions have similar codes (spec 2.3)."""
    table = sinusoid_table(1024, D_MODEL)
    alike = table[position : position + 200] @ table[position]
    assert alike[0] > alike[1] > alike[2] > alike[3:].max()


def test_sinusoids_are_as_alike_wherever_the_pair_stands():
    """Similarity depends on distance only, not on position."""
    table = sinusoid_table(256, D_MODEL).double()
    products = table @ table.T
    assert_close(products[1:, 1:], products[:-1, :-1], atol=1e-5, rtol=0.0)


def test_frequencies_fall_from_one_by_a_constant_ratio():
    """Wavelengths are a geometric progression from 2π towards 10000·2π (3.5)."""
    found = frequencies(8)
    assert found[0] == 1.0
    assert_close(found[1:] / found[:-1], torch.full((3,), 10_000 ** (-2 / 8), dtype=torch.float64))


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_rotated_product_depends_on_distance_only(query_at, key_at, shift):
    """Moving query and key together must not change their score (Su et al. 2021)."""
    query, key = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(1))

    def product(m: int, n: int) -> torch.Tensor:
        turned = [rotate(x, rotation_at(torch.tensor([at]), 1024, ROPE)) for x, at in ((query, m), (key, n))]
        return (turned[0] * turned[1]).sum()

    assert_close(product(query_at, key_at), product(query_at + shift, key_at + shift), atol=1e-5, rtol=0.0)


def test_rotated_product_changes_with_distance():
    """A rotation that did nothing would pass the test above."""
    query, key = torch.randn(2, 1, 1, 1, 8)
    turned = rotate(query.expand(1, 1, 9, 8), rotation_at(torch.arange(9), 9, ROPE))
    assert (turned @ key.mT).unique().numel() == 9


def test_rotation_keeps_lengths():
    """Turning is not stretching."""
    x = torch.randn(2, 3, 50, 8)
    assert_close(rotate(x, rotation_at(torch.arange(50), 50, ROPE)).norm(dim=-1), x.norm(dim=-1))


def test_rotation_at_position_zero_changes_nothing():
    """The first token stays as it is."""
    x = torch.randn(2, 3, 1, 8)
    assert torch.equal(rotate(x, rotation_at(torch.tensor([0]), 1, ROPE)), x)


def test_rotation_of_rows_equals_that_of_each_row():
    """Rows at different positions are rotated together, each by its own angle."""
    x = torch.randn(2, 3, 2, 8)
    positions = torch.tensor([[0, 1], [7, 8]])
    together = rotate(x, rotation_at(positions, 9, ROPE))
    for row in range(2):
        alone = rotate(x[[row]], rotation_at(positions[row], 9, ROPE))
        assert torch.equal(together[[row]], alone)


PUBLISHED = {
    "Llama 3.1": (
        Rope(d_head=128, theta=500_000.0, scaling="llama3", factor=8.0, original_max_length=8192),
        {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
    ),
    "Llama 3.2": (
        Rope(d_head=64, theta=500_000.0, scaling="llama3", factor=32.0, original_max_length=8192),
        {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
    ),
    "Qwen 2.5": (
        Rope(d_head=128, theta=1_000_000.0, scaling="yarn", factor=4.0, original_max_length=32_768),
        {"factor": 4.0, "original_max_position_embeddings": 32_768},
    ),
    "gpt-oss": (
        Rope(d_head=64, theta=150_000.0, scaling="yarn", factor=32.0, original_max_length=4096, truncate=False),
        {"factor": 32.0, "truncate": False, "original_max_position_embeddings": 4096},
    ),
    "one frequency to blend": (
        Rope(
            d_head=16, scaling="yarn", factor=2.0, original_max_length=64, beta_fast=1.1, beta_slow=1.0,
            attention_factor=0.7,
        ),
        {
            "factor": 2.0, "beta_fast": 1.1, "beta_slow": 1.0, "attention_factor": 0.7,
            "original_max_position_embeddings": 64,
        },
    ),
    "shorter than a turn": (
        Rope(d_head=8, scaling="yarn", factor=2.0, original_max_length=2, truncate=False),
        {"factor": 2.0, "truncate": False, "original_max_position_embeddings": 2},
    ),
    "a range of nothing": (
        Rope(d_head=8, scaling="yarn", factor=2.0, original_max_length=2),
        {"factor": 2.0, "original_max_position_embeddings": 2},
    ),
    "interpolated": (Rope(d_head=32, scaling="linear", factor=2.5), {"factor": 2.5}),
}  # fmt: skip


@pytest.mark.parametrize(("rope", "theirs"), PUBLISHED.values(), ids=PUBLISHED)
def test_scaled_frequencies_are_those_of_transformers(rope, theirs):
    """With the settings of published models, and at the edges of the formulas."""
    config = transformers.LlamaConfig(
        hidden_size=rope.d_head,
        num_attention_heads=1,
        rope_parameters={"rope_type": rope.scaling, "rope_theta": rope.theta, **theirs},
    )
    expected, amplitude = ROPE_INIT_FUNCTIONS[rope.scaling](config)
    assert_close(rope_frequencies(rope).float(), expected, rtol=1e-5, atol=0.0)
    assert rope_amplitude(rope) == pytest.approx(amplitude)


def test_unscaled_frequencies_are_the_plain_ones():
    assert torch.equal(rope_frequencies(Rope(d_head=8, theta=500.0)), frequencies(8, 500.0))


@pytest.mark.parametrize("scaling", ["linear", "llama3", "yarn"])
def test_scaling_by_one_changes_nothing(scaling):
    """A factor of 1 asks for texts no longer than before."""
    scaled = Rope(d_head=8, scaling=scaling, original_max_length=64)
    for one, other in zip(rotation_table(64, scaled), rotation_table(64, ROPE), strict=True):
        assert_close(one, other)


def test_linear_scaling_puts_a_position_where_a_fraction_of_it_was():
    """Position interpolation: position 8 of a text twice as long is position 4 (Chen et al. 2023)."""
    scaled = rotation_at(torch.tensor([8]), 64, Rope(d_head=8, scaling="linear", factor=2.0))
    for one, other in zip(scaled, rotation_at(torch.tensor([4]), 64, ROPE), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("scaling", ["llama3", "yarn"])
def test_scaling_keeps_the_fastest_frequency_and_divides_the_slowest(scaling):
    """Neighbors must stay as far apart as before; only long distances are squeezed."""
    scaled = rope_frequencies(Rope(d_head=64, scaling=scaling, factor=8.0, original_max_length=2048))
    plain = frequencies(64)
    assert scaled[0] == plain[0]
    assert scaled[-1] == plain[-1] / 8
    assert ((scaled[:-1] > scaled[1:]) & (scaled[1:] <= plain[1:])).all()


def test_yarn_multiplies_queries_and_keys():
    """Longer texts flatten the softmax; a higher temperature of its scores makes up for it (YaRN, 3.4)."""
    x = torch.randn(1, 1, 9, 8, generator=torch.Generator().manual_seed(1))
    rope = Rope(d_head=8, scaling="yarn", factor=8.0, original_max_length=64)
    assert_close(
        rotate(x, rotation_at(torch.arange(9), 9, rope)).norm(dim=-1), x.norm(dim=-1) * (0.1 * math.log(8) + 1)
    )


def test_tables_of_different_scalings_are_kept_apart():
    """Two models in one process, equal but for one setting of their scaling."""
    ropes = [Rope(d_head=8, scaling="llama3", factor=8.0, original_max_length=n) for n in (64, 128)]
    tables = [rotation_table(64, rope)[0] for rope in ropes]
    assert not torch.equal(*tables)
    assert rotation_table(64, ropes[0])[0] is tables[0]


@given(st.integers(1, 100_000))
def test_rounded_up_holds_the_length_in_a_power_of_two(length):
    """Few tables serve all lengths."""
    found = round_up(length)
    assert found >= length
    assert found.bit_count() == 1


@pytest.mark.parametrize("table", [lambda: sinusoid_table(2048, 4), lambda: rotation_table(2048, Rope(d_head=4))[0]])
def test_tables_first_made_without_gradients_serve_in_training(table):
    """A table is kept between calls; one made in inference mode would break the next training step."""
    with torch.inference_mode():
        kept = table()
    assert not kept.is_inference()


def test_tables_first_made_on_the_meta_device_serve_elsewhere():
    """Counting a model's parameters or shapes without memory must not break the models that compute."""
    with torch.device("meta"):
        sinusoid_table(4096, 4)
    assert sinusoid_table(4096, 4).device.type == "cpu"
