"""Error messages never repeat what the client sent."""

import pytest

from sightline.config import unknown_name
from sightline.errors import InputError
from sightline.serving.http.problem import refusal

MADE_UP = ["../../secret", "it's secret", 'a "secret"', "it's a \"secret\" \\' '", "secret\n\x00", "", "décoder" * 30]


@pytest.mark.parametrize("name", MADE_UP)
def test_an_unknown_name_is_not_repeated(name):
    known = ["decoder.0.self_attention", "logits"]
    problem = refusal(InputError(f"{unknown_name(name, known, what='hooks')}: docs/shapes.md names them all"))
    assert (problem.status, str(problem)) == (400, "unknown hooks: docs/shapes.md names them all")


def test_the_suggestion_is_kept():
    problem = refusal(InputError(unknown_name("logit", ["logits"], what="hooks")))
    assert str(problem) == "unknown hooks (did you mean 'logits'?)"
