"""A tiny untrained model for every task, and the program run within the test."""

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from sightline.bundle import Bundle, TaskConfig, save
from sightline.bundle import weights as model_weights
from sightline.cli.main import main
from sightline.data.tokenizers import MASKING_TOKENS, SEQUENCE_TOKENS, tag_token, train_bpe
from sightline.decoding import DecodingSettings
from sightline.model.registry import build, read_config

TEXTS = ["tiny models tell no tales", "ein kleines Modell erzählt nichts"] * 3
WORDS = ("tiny", "models", "tell", "tales", "Modell")
SIZES = {"d_model": 8, "n_heads": 2, "d_ff": 16, "max_length": 24}
LANGUAGES = ("de", "fr")


def bundle(architecture: str, task_config: TaskConfig, **settings: object) -> Bundle:
    """A model with random weights, its task and its tokenizer."""
    tokens = MASKING_TOKENS if architecture == "bert" else SEQUENCE_TOKENS
    tokenizer = train_bpe(TEXTS, vocab_size=290, special_tokens=[*tokens, *map(tag_token, task_config.languages)])
    layers = {"n_encoder_layers": 1, "n_decoder_layers": 1} if architecture == "transformer" else {"n_layers": 1}
    torch.manual_seed(1)
    model = build(read_config(architecture, {"vocab_size": tokenizer.vocab_size, **SIZES, **layers, **settings}))
    for parameter in model.parameters():  # larger weights give clear preferences
        torch.nn.init.normal_(parameter, std=0.5)
    others = [id_ for id_ in range(tokenizer.vocab_size) if not readable(tokenizer.token_text(id_))]
    generation = DecodingSettings(bad_words=tuple((id_,) for id_ in others if id_ not in tokenizer.special_ids))
    return Bundle(model, tokenizer, generation, task_config=task_config, words=WORDS)


def readable(token: str) -> bool:
    """Whether a random model may generate it: half a character or a line break would have to be escaped everywhere."""
    return token.isascii() and not token.startswith("\\")


BUNDLES: dict[str, Callable[[], Bundle]] = {
    "translator": lambda: bundle("transformer", TaskConfig("translation")),
    "polyglot": lambda: bundle("transformer", TaskConfig("translation", languages=LANGUAGES)),
    "chat": lambda: bundle("transformer", TaskConfig("chat", context_turns=2)),
    "generator": lambda: bundle("gpt", TaskConfig("language-model")),
    "filler": lambda: bundle("bert", TaskConfig("masked-language-model"), heads=["mlm"]),
    "classifier": lambda: bundle(
        "bert", TaskConfig("classification", labels=("bad", "good")), heads=["sequence_classification"], n_classes=2
    ),
    "tagger": lambda: bundle(
        "bert",
        TaskConfig("classification", labels=("NOUN", "VERB"), per_word=True),
        heads=["token_classification"],
        n_classes=2,
    ),
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return where a model of BUNDLES is saved, to be read only."""
    place = tmp_path_factory.mktemp("models")

    def saved(name: str) -> Path:
        if not (place / name).exists():
            save(BUNDLES[name](), place / name)
        return place / name

    return saved


@pytest.fixture
def precisely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let models compute in double precision: what is asked together is then, to the last digit shown, what is asked
    alone, by other kernels.
    """
    read = model_weights.read_model
    monkeypatch.setattr(model_weights, "read_model", lambda *arguments, **options: read(*arguments, **options).double())


class Ran(NamedTuple):
    """What the program did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        assert self.code == 0, self.err
        assert self.out.endswith("\n") or not self.out
        return self.out.split("\n")[:-1]


class Stdin(io.TextIOWrapper):
    """Standard input, a terminal if the test says so."""

    terminal = False

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], Stdin]:
    """Let stdin hold this."""

    def put(data: str | bytes) -> Stdin:
        stream = Stdin(io.BytesIO(data.encode() if isinstance(data, str) else data), encoding="ascii")
        monkeypatch.setattr(sys, "stdin", stream)
        return stream

    return put


@pytest.fixture
def sightline(give, capsys) -> Iterator[Callable[..., Ran]]:
    """Run the program with these arguments and this standard input."""

    def run(*arguments: object, stdin: str | bytes = "") -> Ran:
        give(stdin)
        code = main([str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return run
