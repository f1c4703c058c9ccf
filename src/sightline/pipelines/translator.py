"""Translation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, overload

from sightline.bundle.calibration import Confidence
from sightline.config import one_of, unknown_name
from sightline.data.tokenizers import tag_token
from sightline.decoding import DecodingSettings, FinishReason, Hypothesis
from sightline.engine.torch_engine import require_cross_attention
from sightline.errors import InputError
from sightline.pipelines.generation import Generation, GenerationJob
from sightline.pipelines.pipeline import BATCH_TOKENS, find_token_spans, tokenize_input
from sightline.pipelines.scoring import compute_cross_attention
from sightline.pipelines.seq2seq import Seq2SeqPipeline
from sightline.tracing import Link, Trace
from sightline.tracing.tokenized_text import EMPTY_TEXT, find_links


@dataclass(frozen=True)
class Translation(Generation):
    """A translation with its scores."""

    alignment: tuple[Link, ...] | None = None
    """Word links by cross-attention (a hint, not an alignment: see `tracing.alignment`); None if not requested."""
    confidence: Confidence | None = None
    """How often one with a score like this was right on the validation set; None where that is not known.

    That is: for a model without a calibration, decoding settings other than the measured ones, a given prefix, results
    but the best one, and scores below all that were seen.
    """


def mean_log_probability(found: Generation) -> float | None:
    """Return the log-probability per token, with the end token; None for a text without one, cut or not generated."""
    return found.log_probability / (len(found.tokens) + 1) if found.finish_reason == "eos" and found.tokens else None


NO_RESULT: tuple[float, float, tuple[str, ...], FinishReason] = (0.0, 0.0, (), "eos")
"""Scores of a translation that needs no model."""


class Translator(Seq2SeqPipeline):
    """Translates texts, with a multilingual model into the requested language."""

    takes_language = True

    @property
    def languages(self) -> tuple[str, ...]:
        """Target languages of a multilingual model; empty for others."""
        return self.task_config.languages if self.task_config else ()

    @property
    def direction(self) -> tuple[str, str] | None:
        """Source and target language of a model of one direction, if they are known."""
        config = self.task_config
        if config is None or config.source_language is None or config.target_language is None:
            return None
        return config.source_language, config.target_language

    @overload
    def translate(  # type: ignore[overload-overlap]  # a text is a sequence of texts to the type checker
        self, text: str, *, to: str | None = ..., from_: str | None = ..., prefix: str | None = ...,
        n_best: Literal[1] = 1, batch_tokens: int = ..., **overrides: object,
    ) -> str: ...  # fmt: skip
    @overload
    def translate(
        self, text: Sequence[str], *, to: str | None = ..., from_: str | None = ..., prefix: str | None = ...,
        n_best: Literal[1] = 1, batch_tokens: int = ..., **overrides: object,
    ) -> list[str]: ...  # fmt: skip
    @overload
    def translate(
        self, text: str | Sequence[str], *, to: str | None = ..., from_: str | None = ..., prefix: str | None = ...,
        n_best: int, batch_tokens: int = ..., **overrides: object,
    ) -> str | list[str] | list[list[str]]: ...  # fmt: skip
    def translate(
        self,
        text: str | Sequence[str],
        *,
        to: str | None = None,
        from_: str | None = None,
        prefix: str | None = None,
        n_best: int = 1,
        batch_tokens: int = BATCH_TOKENS,
        **overrides: object,
    ) -> str | list[str] | list[list[str]]:
        """Return the translation of a text, or of each of several; with `n_best` above 1 a list for each.

        Every translation begins with `prefix`; `overrides` are decoding settings (`beam_size=4`).
        """
        texts = [text] if isinstance(text, str) else list(text)
        found = self.translations(
            texts,
            to=to,
            from_=from_,
            prefixes=None if prefix is None else [prefix] * len(texts),
            settings=self.settings(n_best=n_best, **overrides),
            batch_tokens=batch_tokens,
        )
        results = [[translation.text for translation in translations] for translations in found]
        if n_best > 1:
            return results[0] if isinstance(text, str) else results
        best = [translations[0] for translations in results]
        return best[0] if isinstance(text, str) else best

    def translations(
        self,
        texts: Sequence[str],
        *,
        to: str | Sequence[str] | None = None,
        from_: str | None = None,
        prefixes: Sequence[str] | None = None,
        alignment: bool = False,
        settings: DecodingSettings | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[list[Translation]]:
        """Return the translations of each text with their scores, best first.

        `to` may name a language for each text. A blank text becomes its prefix, without the model.
        """
        settings = settings or self.generation
        if alignment:
            require_cross_attention(self.model)
        sources = self.encode_sources(texts, to, from_)
        beginnings = [""] * len(texts) if prefixes is None else list(prefixes)
        if len(beginnings) != len(texts):
            raise InputError(f"there are {len(beginnings)} prefixes for {len(texts)} texts: give one for each")
        found = self.decode_sources(
            sources,
            settings=settings,
            prefixes=self.target_tokenizer.encode_batch(beginnings),
            batch_tokens=batch_tokens,
        )
        results = [
            [
                Translation.from_hypothesis(one, self.decode_hypothesis(one, settings), self.target_tokenizer)
                for one in hypotheses
            ]
            or [Translation(beginning, *NO_RESULT)]
            for hypotheses, beginning in zip(found, beginnings, strict=True)
        ]
        for several, beginning in zip(results, beginnings, strict=True):
            if not beginning:
                several[0] = replace(several[0], confidence=self.estimate_confidence(several[0], settings))
        return self.add_alignment(texts, sources, found, results, batch_tokens=batch_tokens) if alignment else results

    def estimate_confidence(self, found: Generation, settings: DecodingSettings) -> Confidence | None:
        """Return how often a translation with the score of this one, the best for its text, was right."""
        calibration, score = self.bundle.training.calibration, mean_log_probability(found)
        if calibration is None or score is None or not calibration.applies_to(settings):
            return None
        return calibration.confidence_of(score)

    def trace(
        self,
        text: str,
        *,
        target: str | None = None,
        to: str | None = None,
        from_: str | None = None,
        **options: object,
    ) -> Trace:
        """Trace the model while it translates a text: every value, every step, every choice.

        With a `target`, trace the model forced to generate it. `options` are those of `tracing.TraceOptions`
        (`activations`, `layers`, `heads`, `candidates`, `logit_lens`, `head_ablation`, `hypotheses`, `ablate_heads`,
        `limit`, `progress`) and decoding settings (`beam_size=4`).
        """
        [tag] = self.language_tags(to, from_, 1)
        source = tokenize_input(text, self.tokenizer, before=tag if text.strip() else [])
        return self.trace_source(source if text.strip() else EMPTY_TEXT, target, options)

    def add_alignment(
        self,
        texts: Sequence[str],
        sources: Sequence[Sequence[int]],
        hypotheses: Sequence[Sequence[Hypothesis]],
        translations: Sequence[Sequence[Translation]],
        *,
        batch_tokens: int,
    ) -> list[list[Translation]]:
        """Return the translations with word links by cross-attention."""
        results = [[replace(one, alignment=()) for one in several] for several in translations]
        pairs = [(number, rank) for number, several in enumerate(hypotheses) for rank in range(len(several))]
        contents = [hypotheses[number][rank].content for number, rank in pairs]
        with self.inference_mode():
            attention = compute_cross_attention(
                self.model,
                [sources[number] for number, _ in pairs],
                contents,
                start_id=self.start_id,
                batch_tokens=batch_tokens,
            )
        for (number, rank), content, weights in zip(pairs, contents, attention, strict=True):
            source, target = texts[number], results[number][rank].text
            spans = self.tokenizer.offsets(source)
            tag = [(0, 0)] * (len(sources[number]) - len(spans))
            alignment = find_links(
                weights.numpy(),
                source=source,
                source_spans=[*tag, *spans],
                target=target,
                target_spans=find_token_spans(content, self.target_tokenizer, target),
            )
            results[number][rank] = replace(results[number][rank], alignment=alignment)
        return results

    def create_job(
        self,
        text: str,
        settings: DecodingSettings,
        *,
        to: str | None = None,
        from_: str | None = None,
        prefix: str = "",
    ) -> GenerationJob | None:
        """Create the job of translating a text; None for a blank one."""
        [source] = self.encode_sources([text], to, from_)
        return self.create_source_job(source, settings, self.target_tokenizer.encode(prefix)) if source else None

    def encode_sources(
        self, texts: Sequence[str], to: str | Sequence[str] | None, from_: str | None
    ) -> list[list[int]]:
        """Tokenize texts, each after its language tag; a blank one becomes empty."""
        tags = self.language_tags(to, from_, len(texts))
        return [
            [*tag, *ids] if ids and text.strip() else []
            for text, tag, ids in zip(texts, tags, self.encode_texts(texts), strict=True)
        ]

    def language_tags(self, to: str | Sequence[str] | None, from_: str | None, n_texts: int) -> list[list[int]]:
        """Return the target-language tag before each text."""
        names = [to] * n_texts if to is None or isinstance(to, str) else list(to)
        if len(names) != n_texts:
            raise InputError(f"there are {len(names)} languages for {n_texts} texts: give one, or one for each")
        if from_ is not None:
            self.check_language(from_, option="from_")  # not used by the model, but a typo should be reported
        return [self.language_tag(name) for name in names]

    def language_tag(self, to: str | None) -> list[int]:
        """Return the tag of a language, if this model needs one."""
        if to is None and len(self.languages) > 1:
            raise InputError(f"give the target language, {one_of(self.languages)}", option="to")
        if not self.languages:
            if to is not None:
                self.check_language(to, option="to")
            return []
        language = self.languages[0] if to is None else self.check_language(to, option="to")
        id_ = self.tokenizer.special_id(tag_token(language))
        if id_ is None:
            raise InputError(
                f"the model's tokenizer has no token {tag_token(language)!r} for the language {language!r}"
            )
        return [id_]

    def check_language(self, name: str, *, option: str) -> str:
        """Return the language, or refuse one that the model does not know."""
        if self.direction is not None:
            expected = self.direction[option == "to"]
            if name != expected:
                source, target = self.direction
                raise InputError(
                    f"this model translates {source} to {target}: leave it out, or give {expected}", option=option
                )
            return name
        if not self.languages:
            raise InputError("this model was not trained for several languages: leave it out", option=option)
        if name not in self.languages:
            known = one_of(self.languages)
            raise InputError(
                f"{unknown_name(name, self.languages, what='language')}: it must be {known}", option=option
            )
        return name

    def frame(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return the ids around an input text: with several languages, the tag of the first before it."""
        return (self.language_tag(self.languages[0]) if self.languages else []), []
