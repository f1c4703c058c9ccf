"""`sightline embed`: vectors in full precision."""

import json

import pytest
import torch

from sightline.tasks import load

TEXTS = ["tiny models", "tell no tales"]


def numbers(lines: list[str]) -> torch.Tensor:
    return torch.tensor([[float(number) for number in line.split("\t")] for line in lines])


@pytest.mark.parametrize("name", ["translator", "generator", "filler"])
def test_vectors_are_printed_in_full_precision(sightline, folder, name):
    expected = load(folder(name)).embed(TEXTS)
    assert torch.equal(numbers(sightline("embed", folder(name), *TEXTS).lines), expected)


def test_normalized_vectors_have_length_one_and_their_direction(sightline, folder):
    found = numbers(sightline("embed", folder("filler"), *TEXTS, "--normalize").lines)
    expected = torch.nn.functional.normalize(load(folder("filler")).embed(TEXTS))
    torch.testing.assert_close(found, expected)


def test_blank_line_has_no_vector(sightline, folder):
    lines = sightline("embed", folder("filler"), stdin="tiny\n\ntell\n").lines
    assert lines[1] == ""
    assert len(lines) == 3


def test_json_has_text_and_vector(sightline, folder):
    model = folder("filler")
    first, blank = map(json.loads, sightline("embed", model, "--json", stdin="tiny\n\n").lines)
    assert first["text"] == "tiny"
    assert torch.equal(torch.tensor(first["vector"]), load(model).embed(["tiny"])[0])
    assert blank["vector"] is None
