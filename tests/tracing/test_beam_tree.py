"""The tree of a beam search is its history."""

import numpy as np
import pytest

from sightline.decoding import search_beams

from .models import ENCODERS, GENERATORS, SENTENCE, pipeline, text_for, trace_options


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize(
    "settings", [{"beam_size": 3}, {"beam_size": 4, "n_best": 3, "stop": "t"}, {"beam_size": 2, "min_new_tokens": 3}]
)
def test_tree_holds_every_node_of_the_search(name, settings):
    work = pipeline(name)
    trace = work.trace(SENTENCE, **settings, **trace_options(name))
    ids = [token.id for token in trace.source.tokens]
    with work.inference_mode():
        result = search_beams(*work.prepare_search([ids], work.settings(**settings)), keep_history=True)
    [history], [hypotheses] = result.histories, result.hypotheses
    nodes = [node for step in history.steps for node in step]
    tree = trace.tree
    assert [(node.id, node.fate) for node in tree.nodes] == [(node.token, node.fate) for node in nodes]
    assert [node.log_probability for node in tree.nodes] == pytest.approx([node.log_probability for node in nodes])
    assert [node.score for node in tree.nodes] == pytest.approx([node.score for node in nodes])
    assert tree.attention == {}
    for rank, place in enumerate(tree.results()):
        path = [tree.nodes[at] for at in tree.path(place)]
        assert path[-1].result == rank
        assert tuple(node.id for node in path) == hypotheses[rank].ids
    best = tree.path(tree.results()[0])
    assert [tree.nodes[at].id for at in best] == [token.id for token in trace.target.tokens]


@pytest.mark.parametrize("name", GENERATORS)
def test_siblings_share_the_attention_row_they_were_chosen_at(name):
    tree = pipeline(name).trace(SENTENCE, beam_size=3, **trace_options(name)).tree
    rows = {}
    for node in tree.nodes:
        assert rows.setdefault(node.row, node.parent) == node.parent
    assert sorted(rows) == list(range(len(rows)))


@pytest.mark.parametrize("name", ["transformer", "gpt"])
def test_hypotheses_show_the_chosen_heads_of_the_chosen_layers(name):
    work = pipeline(name)
    whole = work.trace(SENTENCE, beam_size=3, hypotheses=True).tree
    part = work.trace(SENTENCE, beam_size=3, hypotheses=True, layers=[1], heads=[1]).tree
    assert {point.split(".")[1] for point in part.attention} == {"1"}
    for point, array in part.attention.items():
        np.testing.assert_allclose(array, whole.attention[point][1:2], atol=1e-5)


@pytest.mark.parametrize("name", ["transformer", "gpt", *ENCODERS])
def test_there_is_no_tree_without_a_beam(name):
    assert pipeline(name).trace(text_for(name)).tree is None
