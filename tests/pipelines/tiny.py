"""Tiny models for tests: random weights, fixed seeds, real tokenizers."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from tokenizers import Encoding

from sightline.bundle import Bundle, TaskConfig
from sightline.data.tokenizers import MASKING_TOKENS, SEQUENCE_TOKENS, Tokenizer, tag_token, train_bpe, train_characters
from sightline.decoding import DecodingSettings
from sightline.model import Model, build
from sightline.model.registry import read_config

LINES = [
    "the cat sat on the mat",
    "a dog ran to the house",
    "où est la gare ?",
    "14 März 2026",
    "naïve 漢字 👩‍👧 x",
] * 3
TARGETS = ["die Katze saß auf der Matte", "ein Hund lief zum Haus", "wo ist der Bahnhof ?", "im März"] * 3
LANGUAGES = ("en", "de", "fr")
WORDS = ("the", "cat", "dog", "house", "mat", "on", "gare", "漢字")

BPE = train_bpe(LINES, vocab_size=330)
TARGET_BPE = train_bpe(TARGETS, vocab_size=310)
CHARACTERS = train_characters(LINES)
TAGGED = train_bpe(LINES, vocab_size=330, special_tokens=(*SEQUENCE_TOKENS, *map(tag_token, LANGUAGES)))
MASKING = train_bpe(LINES, vocab_size=330, special_tokens=MASKING_TOKENS)
MASKING_CHARACTERS = train_characters(LINES, special_tokens=MASKING_TOKENS)

LAYERS = {
    "transformer": {"n_encoder_layers": 1, "n_decoder_layers": 2},
    "bert": {"n_layers": 2},
    "gpt": {"n_layers": 2},
}
GENERATION = DecodingSettings(max_new_tokens=8)


def tiny_model(architecture: str, tokenizer: Tokenizer, *, seed: int = 0, **settings: object) -> Model:
    """Build a model whose random weights are large enough for clear preferences."""
    sizes = {"vocab_size": tokenizer.vocab_size, "d_model": 16, "n_heads": 2, "d_ff": 32, "max_length": 48}
    torch.manual_seed(seed)
    model = build(read_config(architecture, {**sizes, **LAYERS[architecture], **settings}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model


def precise(bundle: Bundle) -> Bundle:
    """Let a model compute in double precision, where no rounding decides between words that are nearly alike.

    For comparing texts generated in a batch with texts generated alone, which other kernels compute.
    """
    bundle.model.double()
    return bundle


def translator_bundle(**settings: object) -> Bundle:
    model = tiny_model("transformer", BPE, **settings)
    return Bundle(model, BPE, GENERATION, task_config=TaskConfig("translation"), words=WORDS)


def one_direction_bundle(source: str = "en", target: str = "de") -> Bundle:
    """A translator that knows the names of its two languages."""
    task_config = TaskConfig("translation", source_language=source, target_language=target)
    return replace(translator_bundle(), task_config=task_config)


def many_languages_bundle() -> Bundle:
    task_config = TaskConfig("translation", languages=LANGUAGES)
    return Bundle(tiny_model("transformer", TAGGED), TAGGED, GENERATION, task_config=task_config, words=WORDS)


def two_vocabularies_bundle() -> Bundle:
    model = tiny_model("transformer", BPE, target_vocab_size=TARGET_BPE.vocab_size)
    return Bundle(model, BPE, GENERATION, task_config=TaskConfig("translation"), target_tokenizer=TARGET_BPE)


def chat_bundle(**settings: object) -> Bundle:
    return Bundle(
        tiny_model("transformer", BPE, **settings), BPE, GENERATION, task_config=TaskConfig("chat", context_turns=2)
    )


def generator_bundle(tokenizer: Tokenizer = BPE, **settings: object) -> Bundle:
    model = tiny_model("gpt", tokenizer, **settings)
    return Bundle(model, tokenizer, GENERATION, task_config=TaskConfig("language-model"), words=WORDS)


def filler_bundle(tokenizer: Tokenizer = MASKING) -> Bundle:
    return Bundle(
        tiny_model("bert", tokenizer), tokenizer, task_config=TaskConfig("masked-language-model"), words=WORDS
    )


def classifier_bundle(*, per_word: bool = False) -> Bundle:
    heads = ["token_classification" if per_word else "sequence_classification"]
    model = tiny_model("bert", MASKING, heads=heads, n_classes=3)
    task_config = TaskConfig("classification", labels=("bad", "fair", "good"), per_word=per_word)
    return Bundle(model, MASKING, task_config=task_config, words=WORDS)


def record_encoded_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that will hold every text that any tokenizer encodes, as often as it does."""
    texts: list[str] = []
    encoding, encode_batch = Tokenizer._encoding, Tokenizer.encode_batch

    def record_one(self: Tokenizer, text: str, **options: bool) -> Encoding:
        texts.append(text)
        return encoding(self, text, **options)

    def record_all(self: Tokenizer, several: Sequence[str], **options: bool) -> list[list[int]]:
        texts.extend(several)
        return encode_batch(self, several, **options)

    monkeypatch.setattr(Tokenizer, "_encoding", record_one)
    monkeypatch.setattr(Tokenizer, "encode_batch", record_all)
    return texts
