"""Generators continue from their saved states, and no file can put them into an invalid one."""

import json
import random

import numpy as np
import pytest
import torch

from sightline.errors import InputError
from sightline.training.state import RandomStates


def entries() -> dict:
    return json.loads(json.dumps(RandomStates.capture().to_entries()))


def draw() -> tuple:
    return (
        [random.random(), random.gauss(0, 1)],  # noqa: S311
        np.random.standard_normal(3).tolist(),  # noqa: NPY002
        torch.randn(3).tolist(),
    )


@pytest.mark.parametrize("n_draws", [0, 1, 2])
def test_generators_continue_from_their_states(n_draws):
    """Also in the middle of a pair of normal numbers, of which Python and NumPy keep the second."""
    for _ in range(n_draws):
        draw()
    states = RandomStates.from_entries(entries())
    states.restore()
    expected = draw()
    assert draw() != expected
    states.restore()
    assert draw() == expected


def test_states_survive_json():
    random.seed(3)
    random.gauss(0, 1)
    states = RandomStates.capture()
    read = RandomStates.from_entries(json.loads(json.dumps(states.to_entries())))
    assert read.python == states.python
    assert torch.equal(read.torch, states.torch)
    assert (read.numpy[1] == states.numpy[1]).all()
    assert read.numpy[2:] == states.numpy[2:]


def spoiled(*path: str, value: object) -> dict:
    spoiled_entries = entries()
    place = spoiled_entries
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return spoiled_entries


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("python",), None),
        (("python", "words"), "00"),
        (("python", "words"), "zz" * 2500),
        (("python", "words"), "ff" * 2500),
        (("python", "words"), 7),
        (("python", "gauss"), "x"),
        (("numpy", "words"), "00" * 4),
        (("numpy", "position"), 10**9),
        (("numpy", "position"), -1),
        (("numpy", "position"), 1.5),
        (("numpy", "has_gauss"), "yes"),
        (("numpy", "cached"), []),
        (("torch",), ""),
        (("torch",), "00" * 5056),
        (("torch",), "ff" * 5056),
        (("torch",), "00" * 17),
        (("cuda",), 3),
        (("cuda",), [None]),
    ],
)
def test_invalid_states_are_refused_and_change_nothing(path, value):
    spoiled_entries = spoiled(*path, value=value)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with pytest.raises(InputError, match="are not valid"):
        RandomStates.from_entries(spoiled_entries)
    assert torch.equal(torch.get_rng_state(), before)


def test_missing_states_are_refused():
    with pytest.raises(InputError, match="are not valid"):
        RandomStates.from_entries({})
