"""What a client is told never repeats what it sent."""

import pytest

from sightline.errors import InputError
from sightline.serving.problem import refusal
from sightline.settings import unknown_name

MADE_UP = ["../../secret", "it's secret", 'a "secret"', "it's a \"secret\" \\' '", "secret\n\x00", "", "décoder" * 30]


@pytest.mark.parametrize("name", MADE_UP)
def test_a_name_that_was_made_up_is_not_repeated(name):
    known = ["decoder.0.self_attention", "logits"]
    problem = refusal(InputError(f"{unknown_name(name, known, what='probe')}: docs/shapes.md names them all"))
    assert (problem.status, str(problem)) == (400, "unknown probe: docs/shapes.md names them all")


def test_what_was_meant_is_still_said():
    problem = refusal(InputError(unknown_name("logit", ["logits"], what="probe")))
    assert str(problem) == "unknown probe (did you mean 'logits'?)"
