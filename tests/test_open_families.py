"""A family from outside: one row registers it; then it trains, is saved, decoded, traced and served like any other."""

import shutil
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn

from runs.small import weights_of
from serving.standing import standing
from serving.wire import asking
from sightline.errors import SettingsError
from sightline.model import registry
from sightline.model.config import ModelConfig
from sightline.model.hooks import NO_HOOKS
from sightline.model.interfaces import CausalLM
from sightline.model.packing import Layout
from sightline.pipelines import Generator
from sightline.runs import train
from sightline.runs.recipe import apply_overrides, read_recipe
from sightline.serving.http import ServingSettings
from sightline.serving.service import service
from sightline.tasks import load
from sightline.tracing import passes


@dataclass(frozen=True, kw_only=True)
class BigramConfig(ModelConfig):
    """A model of pairs of tokens."""

    d_pair: int = field(default=8, metadata={"help": "width of a pair"})


@dataclass(frozen=True)
class Nothing:
    """The state of a model that remembers nothing but the newest token, which it is given anyway."""

    n_rows: int

    def reorder(self, rows: Tensor) -> "Nothing":
        return Nothing(len(rows))

    def join(self, other: "Nothing") -> "Nothing":
        return Nothing(self.n_rows + other.n_rows)


class Words(nn.Module):
    def __init__(self, config: BigramConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)


class Bigram(nn.Module):
    """Predicts each token from the one before it: no attention, no layers, no positions."""

    def __init__(self, config: BigramConfig) -> None:
        super().__init__()
        self.config = config
        self.input_embedding = Words(config)
        self.pair = nn.Linear(config.d_model, config.d_model)
        self.output = nn.Linear(config.d_model, config.vocab_size)

    def tie_weights(self) -> None:
        """Nothing is tied."""

    def decode(self, ids, *, lengths=None, packed=False, hooks=NO_HOOKS):
        ids = Layout.of(ids, lengths, packed=packed).pack(ids)
        return hooks("pair", torch.tanh(self.pair(self.input_embedding.tokens(ids))))

    def logits(self, hidden, *, hooks=NO_HOOKS):
        return hooks("logits", self.output(hidden))

    def start(self, n_rows, *, capacity=0):
        return Nothing(n_rows)

    def step(self, ids, state, *, lengths=None, hooks=NO_HOOKS):
        hidden = self.decode(ids, hooks=hooks)
        last = torch.full((len(ids),), ids.size(1)) if lengths is None else lengths
        return self.logits(hidden[torch.arange(len(ids)), last - 1], hooks=hooks), state


@pytest.fixture(autouse=True)
def family():
    """Register the family for one test; nothing in the package knows of it."""
    row = registry.Family("bigram", "A model of pairs", BigramConfig, Bigram, CausalLM, roles=("start", "end"))
    registry.register(row)
    yield row
    del registry.FAMILIES["bigram"]


@pytest.fixture
def run(tmp_path):
    """A run of the usual recipe of language models, with the other family."""
    text = tmp_path / "text.txt"
    text.write_text("one two three four five six seven eight nine ten\n\n" * 40)
    settings = {
        "data.train": str(text), "data.valid": str(text), "tokenizer.kind": "words",
        "model.family": "bigram", "model.d_model": 24,
        "model.max_length": 16, "model.dropout": 0.0, "training.batch_tokens": 300, "training.max_steps": 80,
        "training.learning_rate": 0.05, "training.checkpoint_every": 40, "decoding.max_new_tokens": 12,
    }  # fmt: skip
    return train("language-model", settings, out=tmp_path / "run")


def test_family_trains_and_is_decoded_by_the_built_in_task(run):
    model = load(run.folder)
    assert isinstance(model, Generator)
    assert isinstance(model.model, Bigram)
    assert model.generate("three four") == " five six seven eight nine ten"
    assert model.generate("three four", beam_size=3) == " five six seven eight nine ten"


def test_family_is_resumed_exactly(run, tmp_path):
    whole = weights_of(run.folder)
    stopped = tmp_path / "stopped"
    shutil.copytree(run.folder, stopped)
    shutil.rmtree(sorted((stopped / "checkpoints").iterdir())[-1])
    train(None, out=stopped, resume=True)
    assert weights_of(stopped) == whole


def test_family_is_traced_by_what_it_names(run, monkeypatch):
    model = load(run.folder)
    trace = model.trace("three four")
    assert (trace.family, trace.target.text) == ("bigram", " five six seven eight nine ten")
    assert trace.logit_lens is None
    with monkeypatch.context() as patch:
        patch.setattr(passes, "POINTS", dict(passes.POINTS))
        passes.register_points(BigramConfig, lambda work: {"pair": (work.n_rows, work.model.config.d_model)})
        trace = model.trace("three four", activations=("pair",))
    assert trace.activations["pair"].shape == (len(trace.inputs.tokens), 24)


def test_family_is_served(run):
    with standing(service({"pairs": load(run.folder)}, ServingSettings(port=0))) as server, asking(server.url) as http:
        answer = http.post("/v1/completions", json={"model": "pairs", "prompt": "three four", "max_tokens": 3})
    assert answer.json()["choices"][0]["text"] == " five six seven"


def test_family_embeds_texts(run):
    assert load(run.folder).embed(["one", "two three"]).shape == (2, 24)


def test_family_of_another_interface_is_refused():
    recipe = read_recipe("translation")
    with pytest.raises(SettingsError, match=r"model\.family is a bert, but translation needs a transformer or a gpt"):
        apply_overrides(recipe, ["data.train=pairs.tsv", "model.family=bert"])
    with pytest.raises(SettingsError, match=r"unknown family 'bigramm' \(did you mean 'bigram'\?\)"):
        apply_overrides(recipe, ["data.train=pairs.tsv", "model.family=bigramm"])


def test_name_is_registered_once(family):
    with pytest.raises(ValueError, match="bigram is registered already"):
        registry.register(family)
