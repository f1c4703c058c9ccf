"""The base of all pipelines, and what several of them need: batches, settings with overrides, texts for traces."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeGuard

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.bundle import Bundle, TaskConfig
from sightline.bundle.input_statistics import KnownWords, UnfamiliarInput, find_unfamiliar
from sightline.config import from_mapping, to_mapping
from sightline.data.datasets.batch import pad
from sightline.data.tokenizers import Tokenizer
from sightline.data.tokenizers.tokenizer import Role
from sightline.decoding import DecodingSettings
from sightline.engine.torch_engine import inference_mode
from sightline.errors import InputError, SettingsError
from sightline.model import CausalLM, Model, Seq2Seq, TextEncoder
from sightline.model.config import Head
from sightline.model.registry import interface_of
from sightline.pipelines.detokenizer import DetokenizerState, IncrementalDetokenizer
from sightline.pipelines.neighbors import Neighbor, WordList
from sightline.tracing import (
    CausalLMPass,
    Seq2SeqPass,
    TextEncoderPass,
    Token,
    TokenizedText,
    Trace,
    TraceOptions,
    run_trace,
)
from sightline.tracing.passes import Pass
from sightline.tracing.tokenized_text import Span

BATCH_TOKENS = 4_096
"""Default budget of a batch, in tokens; padding counts."""

HiddenStates = Callable[[Any, Tensor, Tensor], Tensor]
HIDDEN_STATES: dict[type, HiddenStates] = {
    Seq2Seq: lambda model, ids, lengths: model.encode(ids, lengths=lengths, packed=True).hidden,
    CausalLM: lambda model, ids, lengths: model.decode(ids, lengths=lengths, packed=True),
    TextEncoder: lambda model, ids, lengths: model(ids, lengths=lengths, packed=True),
}
"""The last layer's hidden state of every token of a batch, without padding: the encoder's, where there is one."""


def register_hidden_states(interface: type, compute: HiddenStates) -> None:
    """Embed texts with models of an interface by this function of model, ids and lengths."""
    HIDDEN_STATES[interface] = compute


@dataclass(frozen=True)
class PassIds:
    """The ids of one forward pass, as a trace has them, and the head that reads its output."""

    source: Sequence[int]
    inputs: Sequence[int]
    """What a decoder reads; a decoder without an encoder reads the source here too."""
    segments: Sequence[int] | None
    head: Head | None


def build_seq2seq_pass(model: Seq2Seq, ids: PassIds) -> Seq2SeqPass:
    """Return the pass of a source and a target."""
    require_ids(source=ids.source, inputs=ids.inputs)
    return Seq2SeqPass(model, ids.source, ids.inputs)


def build_causal_lm_pass(model: CausalLM, ids: PassIds) -> CausalLMPass:
    """Return the pass of a text."""
    require_ids(inputs=ids.inputs)
    return CausalLMPass(model, ids.inputs)


def build_text_encoder_pass(model: TextEncoder, ids: PassIds) -> TextEncoderPass:
    """Return the pass of a text, or a pair of texts, through a head."""
    require_ids(source=ids.source)
    n_segments = getattr(model.config, "n_segments", 1)
    if ids.segments and (
        len(ids.segments) != len(ids.source) or not all(0 <= one < n_segments for one in ids.segments)
    ):
        raise InputError(f"give each token of the source one of {n_segments} segments", option="segments")
    return TextEncoderPass(model, ids.source, head=ids.head, segments=ids.segments or None)


def require_ids(**given: Sequence[int]) -> None:
    """Refuse sequences without ids, by name."""
    for name, ids in given.items():
        if not ids:
            raise InputError("it is empty", option=name)


BuildPass = Callable[[Any, PassIds], Pass]
PASSES: dict[type, BuildPass] = {
    Seq2Seq: build_seq2seq_pass,
    CausalLM: build_causal_lm_pass,
    TextEncoder: build_text_encoder_pass,
}
"""The forward pass of models of an interface."""


def register_pass(interface: type, build: BuildPass) -> None:
    """Trace models of an interface by the pass that this function builds."""
    PASSES[interface] = build


class Pipeline:
    """A model with its tokenizer, called with plain text: embeds texts, finds the neighbors of words, traces.

    A pipeline does not know files, choose devices, or know how its model was trained. The model is in evaluation mode
    only during a call, so a model can be used while it is being trained.
    """

    interfaces: ClassVar[tuple[type, ...]] = (Model,)
    """What this pipeline can use: models with one of these Protocols of `sightline.model.interfaces`."""
    generates: ClassVar[bool] = False
    """Whether it generates text: then it is a `GenerativePipeline`, with an engine."""
    takes_language: ClassVar[bool] = False
    """Whether it is told the target language (`to`)."""
    model: Model

    def __init__(self, bundle: Bundle, *, folder: Path | None = None) -> None:
        if bundle.tokenizer is None:
            raise InputError("this model has no tokenizer (tokenizer.json): it accepts ids, but no text")
        if not self.supports(bundle.model):
            raise InputError(f"a {type(self).__name__} cannot use a {type(bundle.model).__name__}")
        self.bundle = bundle
        self.folder = folder
        self.model = bundle.model
        self._modules = tuple(bundle.model.modules())
        self.tokenizer: Tokenizer = bundle.tokenizer
        self.task_config: TaskConfig | None = bundle.task_config
        self.generation: DecodingSettings = bundle.generation
        self.max_length: int | None = bundle.model.config.max_length
        """Maximum input length in tokens; None for no limit."""
        self._words = WordList(bundle.words, bundle.tokenizer)

    @functools.cached_property
    def _known_words(self) -> KnownWords | None:
        statistics = self.bundle.training.inputs
        return KnownWords.of(self.tokenizer, self.bundle.words, statistics) if statistics else None

    @classmethod
    def supports(cls, model: Model) -> bool:
        """Tell whether this kind of pipeline can use a model."""
        return Model in cls.interfaces or interface_of(model.config) in cls.interfaces

    @property
    def languages(self) -> tuple[str, ...]:
        """Target languages; empty for all but multilingual translators."""
        return ()

    @property
    def chooses_target(self) -> bool:
        """Whether it finds the target language of a text itself, if none is given."""
        return False

    @property
    def head(self) -> Head | None:
        """The head that reads the model's output, if this pipeline uses one."""
        return None

    def settings(self, **overrides: object) -> DecodingSettings:
        """Return the model's decoding settings with some overridden (see `DecodingSettings`)."""
        return override_settings(self.generation, overrides)

    def embed(self, texts: Sequence[str], *, batch_tokens: int = BATCH_TOKENS) -> Float[Tensor, "n E"]:
        """Return a vector for each text: the mean of the last layer's hidden states; zeros for an empty text.

        The last layer is the encoder's; in a GPT, the decoder's.
        """
        before, after = self.frame()
        rows = [[*before, *ids, *after] if ids else [] for ids in self.encode_texts(texts)]
        self.check_lengths(rows)
        vectors = torch.zeros(len(rows), self.model.config.d_model)
        with self.inference_mode():
            for chosen, ids, lengths in self.iterate_batches(rows, batch_tokens=batch_tokens):
                hidden = self.hidden_states(ids, lengths).float()
                vectors[chosen] = mean_pool(hidden, lengths, skip=(len(before), len(after))).cpu()
        return vectors

    def word_vectors(self, words: Sequence[str]) -> Float[Tensor, "n E"]:
        """Return a vector for each word, in the word list or not: the mean of its token embeddings."""
        return self._words.vectors(words, self.embedding_weight.detach()).cpu()

    def neighbors(self, word: str, *, n: int = 10) -> list[Neighbor]:
        """Return the words of the model's list with the highest cosine similarity to this word."""
        return self._words.nearest(word, self.embedding_weight.detach(), n=n)

    def find_unfamiliar(self, text: str) -> UnfamiliarInput | None:
        """Return why a text is unlike anything the model was trained to read.

        None if it is like the validation inputs, or if the model folder does not say what they looked like.
        """
        return find_unfamiliar(text, self._known_words) if self._known_words else None

    def trace(self, text: str, **options: Any) -> Trace:
        """Trace the model on a text, value by value; `options` are those of `tracing.TraceOptions`."""
        if not is_text_encoder(self.model):
            raise InputError(
                f"a {type(self.model).__name__} is traced while it generates: use a Translator, a Chat or a Generator"
            )
        trace_options, _ = TraceOptions.of(options, generates=False)
        before, after = self.frame()
        source = tokenize_input(text, self.tokenizer, before=before, after=after)
        self.check_lengths([source.tokens])
        with self.inference_mode():
            work = self.forward_pass([token.id for token in source.tokens])
            return run_trace(work, trace_options, [], source=source, task=self.task, name=self.tokenizer.token_text)

    def parse_input(self, given: str | Sequence[str]) -> Any:
        """Return an input in the form that `trace` takes; refuse one that this pipeline cannot read."""
        if not isinstance(given, str):
            raise InputError("this model takes one text", option="input")
        return given

    def forward_pass(
        self, source_ids: Sequence[int], input_ids: Sequence[int] = (), *, segments: Sequence[int] | None = None
    ) -> Pass:
        """Return the forward pass over ids as a trace has them: the tokens of its `source` and its `inputs`."""
        build = PASSES.get(interface_of(self.model.config))
        if build is None:
            raise InputError("this kind of model has no forward pass over ids")
        return build(self.model, PassIds(source_ids, input_ids, segments, self.head))

    @property
    def task(self) -> str | None:
        """The task the model was trained for, if known."""
        return self.task_config.task if self.task_config else None

    def hidden_states(self, ids: Int[Tensor, "B T"], lengths: Int[Tensor, "B"]) -> Float[Tensor, "N E"]:
        """Return the last layer's hidden state of every token, without padding."""
        return HIDDEN_STATES[interface_of(self.model.config)](self.model, ids, lengths)

    def frame(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return the special ids before and after every input text."""
        if is_text_encoder(self.model):
            return [self.require_special_id("cls")], [self.require_special_id("sep")]
        return [], []

    @property
    def embedding_weight(self) -> Float[Tensor, "V E"]:
        """The embedding matrix of the input tokens."""
        embedding: Any = self.model.input_embedding
        weight: Tensor = embedding.tokens.weight
        return weight

    def encode_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize each text."""
        if isinstance(texts, str):
            raise InputError("expected a list of texts, not one text: put it in brackets")
        return self.tokenizer.encode_batch(texts)

    def iterate_batches(
        self, rows: Sequence[Sequence[int]], *, batch_tokens: int
    ) -> Iterator[tuple[list[int], Int[Tensor, "B T"], Int[Tensor, "B"]]]:
        """Yield the rows in batches: their indices, their ids padded to one length, and their lengths."""
        for chosen in batch_by_tokens([len(row) for row in rows], batch_tokens=batch_tokens):
            yield chosen, *pad([rows[number] for number in chosen], device=self.embedding_weight.device)

    def check_lengths(self, rows: Sequence[Sequence[object]], *, what: str = "text", name: str | None = None) -> None:
        """Refuse inputs that are too long, naming the first (`name`, or by number) and both lengths."""
        for number, row in enumerate(rows, start=1):
            if self.max_length is not None and len(row) > self.max_length:
                which = name or (f"{what} {number}" if len(rows) > 1 else f"the {what}")
                limit = f"the {self.max_length:,} this model can take"
                raise InputError(f"{which} has {len(row):,} tokens, more than {limit}: shorten it")

    def require_special_id(self, role: Role, tokenizer: Tokenizer | None = None) -> int:
        """Return the id of a special token, which this pipeline needs."""
        found: int | None = getattr(tokenizer or self.tokenizer, f"{role}_id")
        if found is None:
            raise InputError(f"the model's tokenizer has no {role} token, which a {type(self).__name__} needs")
        return found

    def inference_mode(self) -> AbstractContextManager[None]:
        """Switch the model to evaluation mode without gradients, and back afterwards."""
        return inference_mode(self._modules)


def is_text_encoder(model: Model) -> TypeGuard[TextEncoder]:
    """Tell whether a model reads whole texts between special tokens and has heads."""
    return interface_of(model.config) is TextEncoder


def mean_pool(
    hidden: Float[Tensor, "N E"], lengths: Int[Tensor, "B"], *, skip: tuple[int, int]
) -> Float[Tensor, "B E"]:
    """Return the mean over each text's tokens, skipping the first and last few (its special tokens)."""
    before, after = skip
    texts = torch.split(hidden, lengths.tolist())
    return torch.stack([text[before : len(text) - after].mean(dim=0) for text in texts])


MIN_WIDTH = 8
"""Minimum length a text counts as: each row holds logits over the whole vocabulary, however short it is."""


def batch_by_tokens(lengths: Sequence[int], *, batch_tokens: int, rows: int = 1) -> Iterator[list[int]]:
    """Yield the indices of each batch, longest texts first, so that running out of memory shows at once.

    Padding counts, and so do the `rows` (beams, samples) of each text. A text that exceeds the budget by itself is
    a batch of its own; a text without tokens is left out.
    """
    if batch_tokens < 1:
        raise SettingsError(f"batch_tokens must be 1 or more, not {batch_tokens}")
    order = sorted((number for number, length in enumerate(lengths) if length), key=lambda number: -lengths[number])
    while order:
        width = max(lengths[order[0]], MIN_WIDTH) * rows
        size = max(1, batch_tokens // width)
        yield order[:size]
        order = order[size:]


SAMPLING_SETTINGS = ("temperature", "top_k", "top_p", "min_p", "seed")
"""Settings that imply sampling."""


def override_settings(settings: DecodingSettings, overrides: Mapping[str, object]) -> DecodingSettings:
    """Return the settings with these overrides, and with what they imply.

    A sampling setting implies `do_sample`; a beam implies no sampling; `n_best` implies a beam at least as wide.
    Overrides are never changed: if they contradict each other, the settings refuse them.
    """
    given = {
        name: (value,) if name == "stop" and isinstance(value, str) else value for name, value in overrides.items()
    }
    return from_mapping(
        DecodingSettings, {**to_mapping(settings), **implied_settings(settings, given), **given}, where="decoding"
    )


def implied_settings(settings: DecodingSettings, given: Mapping[str, object]) -> dict[str, object]:
    """Return the other settings that must change with the given ones."""
    beam_size, n_best = given.get("beam_size"), given.get("n_best")
    implied = any(given.get(name) is not None for name in SAMPLING_SETTINGS)
    do_sample = given.get("do_sample", implied or (settings.do_sample and not exceeds(beam_size, 1)))
    if do_sample is True:
        return {"do_sample": True, "beam_size": 1, "coverage_penalty": 0.0}
    wider = {"beam_size": n_best} if exceeds(n_best, settings.beam_size) else {}
    return {"do_sample": False, **wider}


def exceeds(value: object, limit: int) -> bool:
    """Tell whether a value, which may be of any type, is an integer above the limit."""
    return isinstance(value, int) and value > limit


def tokenize_input(
    text: str, tokenizer: Tokenizer, *, before: Sequence[int] = (), after: Sequence[int] = ()
) -> TokenizedText:
    """Tokenize an input text, with special ids before and after it."""
    ids, spans = tokenizer.encode_with_offsets(text)
    end = (len(text), len(text))
    return build_tokenized_text(
        text, [*before, *ids, *after], [*[(0, 0)] * len(before), *spans, *[end] * len(after)], tokenizer
    )


def tokenize_output(
    text: str, ids: Sequence[int], tokenizer: Tokenizer, *, ended: bool, context: Sequence[int] = ()
) -> TokenizedText:
    """Return a generated text with its tokens; with `ended`, the last id is the end token."""
    content = ids[:-1] if ended else ids
    spans = find_token_spans(content, tokenizer, text, context=context)
    return build_tokenized_text(text, ids, [*spans, *[(len(text), len(text))] * (len(ids) - len(content))], tokenizer)


def build_tokenized_text(
    text: str, ids: Sequence[int], spans: Sequence[Span], tokenizer: Tokenizer, *, segments: Sequence[int] | None = None
) -> TokenizedText:
    """Return a text with its tokens at these spans."""
    special = tokenizer.special_ids
    tokens = (
        Token(id_, tokenizer.token_text(id_), start, end, id_ in special, segment)
        for id_, (start, end), segment in zip(ids, spans, segments or [0] * len(ids), strict=True)
    )
    return TokenizedText(text, tuple(tokens))


def find_token_spans(ids: Sequence[int], tokenizer: Tokenizer, text: str, *, context: Sequence[int] = ()) -> list[Span]:
    """Return the span of each id in the generated text; ids that share a character share its span."""
    detokenizer, state, spans = IncrementalDetokenizer(tokenizer, context), DetokenizerState(), list[Span]()
    for count in range(1, len(ids) + 1):
        start = min(len(state.text), len(text))
        state = detokenizer.extend(state, ids[:count], last=count == len(ids))
        if state.read_offset == count:
            spans += [(start, min(len(state.text), len(text)))] * (count - len(spans))
    return spans
