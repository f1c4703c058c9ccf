"""Options shared by several commands: one definition, applied where a command asks for it."""

import dataclasses
import inspect

import pytest

from sightline.cli.options import DECODING_OPTIONS, decoding_overrides, with_decoding
from sightline.decoding import DecodingSettings


def test_decoding_options_are_decoding_settings():
    assert set(DECODING_OPTIONS) <= {field.name for field in dataclasses.fields(DecodingSettings)}


def test_options_are_listed_where_the_command_wants_them():
    @with_decoding("top_k", "seed", after="first")
    def command(first: str, last: bool = False, **decoding: object) -> None: ...

    assert list(inspect.signature(command).parameters) == ["first", "top_k", "seed", "last"]


def test_command_receives_what_was_set():
    received = {}

    @with_decoding("top_k", "beam_size", "seed", after="first")
    def command(first: str, **decoding: object) -> None:
        received.update(decoding)

    command(first="a", top_k=0, beam_size=None, seed=3)
    assert received == {"top_k": 0, "seed": 3}


@pytest.mark.parametrize(
    ("temperature", "overrides"), [(None, {}), (0.7, {"temperature": 0.7}), (0.0, {"do_sample": False})]
)
def test_temperature_of_zero_disables_sampling(temperature, overrides):
    assert decoding_overrides(temperature=temperature, seed=None) == overrides
