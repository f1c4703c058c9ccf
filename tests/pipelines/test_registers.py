"""What pipelines need of an interface is a table each, to which one from outside is added."""

import torch

from sightline.model import CausalLM, Seq2Seq
from sightline.pipelines import Translator, pipeline, scoring
from sightline.pipelines.pipeline import register_hidden_states
from sightline.pipelines.scoring import PAIR_READERS, PairReader, register_pair_reader
from sightline.tasks import pipeline_for

from .tiny import generator_bundle, translator_bundle


def test_texts_are_embedded_as_registered(monkeypatch):
    monkeypatch.setattr(pipeline, "HIDDEN_STATES", dict(pipeline.HIDDEN_STATES))
    register_hidden_states(CausalLM, lambda model, ids, lengths: torch.ones(int(lengths.sum()), model.config.d_model))
    assert pipeline_for(generator_bundle()).embed(["the cat"]).eq(1).all()


def test_pairs_are_scored_as_registered(monkeypatch):
    monkeypatch.setattr(scoring, "PAIR_READERS", dict(PAIR_READERS))
    usual, seen = PAIR_READERS[Seq2Seq], []

    def decode(model, pairs, hooks):
        seen.append(pairs.inputs.shape)
        return usual.decode(model, pairs, hooks)

    register_pair_reader(Seq2Seq, PairReader(decode, in_sequence=False))
    translator = Translator(translator_bundle())
    sources = translator.encode_sources(["the cat"], None, None)
    assert len(translator.token_log_probs(sources, ["a dog"])[0]) == seen[0][1]
