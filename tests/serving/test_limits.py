"""The table of limits."""

import dataclasses

import pytest

from sightline.errors import SettingsError
from sightline.serving.http import Limits, Problem, overloaded


def test_every_limit_has_an_option_and_a_help_text():
    for field in dataclasses.fields(Limits):
        assert field.metadata["flag"].startswith("--")
        assert len(field.metadata["help"]) > 10
    flags = [field.metadata["flag"] for field in dataclasses.fields(Limits)]
    assert len(set(flags)) == len(flags)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Limits)])
def test_limit_below_its_minimum_is_refused_by_its_option(field):
    with pytest.raises(SettingsError, match=Limits().flag(field)):
        Limits(**{field: -1})


@pytest.mark.parametrize("name", ["choices", "stop_sequences", "inputs", "beams", "new_tokens"])
def test_limit_holds_at_its_value_and_refuses_one_more(name):
    limits = Limits()
    most = getattr(limits, name)
    limits.check(name, most, param="it")
    with pytest.raises(Problem, match=limits.flag(name)) as caught:
        limits.check(name, most + 1, param="it")
    assert caught.value.status == 400
    assert caught.value.param == "it"
    assert f"{most + 1:,}" in caught.value.message
    assert f"{most:,}" in caught.value.message


def test_full_queue_sets_retry_after():
    problem = overloaded(Limits(queue=3), retry_after=7)
    assert problem.status == 503
    assert problem.all_headers() == {"retry-after": "7"}
    assert "--max-queue" in problem.message
