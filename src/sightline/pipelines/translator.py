"""Translation of sentences, of texts with many of them, and of documents."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal, TypeVar, overload

from sightline.bundle.calibration import Confidence
from sightline.bundle.language_statistics import MAX_DETECTED_LENGTH
from sightline.config import one_of, unknown_name
from sightline.data.sentences import Span, cut_sentence, split_lines, split_sentences
from sightline.data.tokenizers import tag_token
from sightline.decoding import DecodingSettings, FinishReason, Hypothesis
from sightline.engine.torch_engine import cross_attention_point, require_cross_attention
from sightline.errors import InputError
from sightline.pipelines.documents import Document, Markup, read_document
from sightline.pipelines.generation import Generation, GenerationJob, JobGroup
from sightline.pipelines.pipeline import BATCH_TOKENS, find_token_spans, tokenize_input
from sightline.pipelines.scoring import compute_cross_attention
from sightline.pipelines.segments import LOOK_AHEAD, Segment, SegmentedText, process_stream
from sightline.pipelines.seq2seq import Seq2SeqPipeline
from sightline.tracing import Link, Trace
from sightline.tracing.tokenized_text import EMPTY_TEXT, find_links

Item = TypeVar("Item")


@dataclass(frozen=True)
class TranslatedSentence:
    """A sentence of a translated text, or a part of one that was too long."""

    source: str
    text: str
    source_span: Span
    """Where it stands in the whole text; in a document, in the text between two block tags."""
    target_span: Span
    score: float
    log_probability: float
    finish_reason: FinishReason
    confidence: Confidence | None = None
    """As in `Translation`."""


@dataclass(frozen=True)
class Translation(Generation):
    """A translation with its scores: of several sentences, `score` and `log_probability` are the sums of theirs."""

    alignment: tuple[Link, ...] | None = None
    """Word links by cross-attention (a hint, not an alignment: see `tracing.alignment`); None if not requested."""
    confidence: Confidence | None = None
    """How often one with a score like this was right on the validation set; None where that is not known.

    That is: for a model without a calibration, decoding settings other than the measured ones, a given prefix, results
    but the best one, texts of several sentences (each has its own), and scores below all that were seen.
    """
    sentences: tuple[TranslatedSentence, ...] = ()
    """The sentences, in order; the second-best translation of a text has the second-best of every sentence."""
    warnings: tuple[str, ...] = ()
    """What the user should know, such as sentences that were too long."""
    to: str | None = None
    """The language of the translation, as given or as the model chose it; None if it does not name its languages."""


def mean_log_probability(found: Generation) -> float | None:
    """Return the log-probability per token, with the end token; None for a text without one, cut or not generated."""
    return found.log_probability / (len(found.tokens) + 1) if found.finish_reason == "eos" and found.tokens else None


NO_RESULT: tuple[float, float, tuple[str, ...], FinishReason] = (0.0, 0.0, (), "eos")
"""Scores of a translation that needs no model."""
CLEAR, CERTAIN = 0.9, 0.99
"""Probabilities: below the first, the language of a text is unclear; from the second on, a sentence is in it."""
MAX_SHOWN = 40
"""Characters of a text in a warning."""
MAX_MULTI_SENTENCE_SHARE = 0.2
"""Share of training sources with several sentences up to which texts are split into sentences by default."""


@dataclass(frozen=True)
class TranslationOptions:
    """How to translate."""

    settings: DecodingSettings
    to: str | None = None
    from_: str | None = None
    prefix: str = ""
    split: bool | None = None
    """Whether sentences are translated one by one; None: unless the model was trained on several at once."""
    markup: Markup = "text"
    alignment: bool = False
    batch_tokens: int = BATCH_TOKENS


@dataclass(frozen=True)
class SegmentedDocument:
    """A document and its blocks of text, each with its segments."""

    document: Document
    blocks: Sequence[SegmentedText]
    to: str | None = None
    """The target language."""
    warnings: Sequence[str] = ()

    @cached_property
    def segments(self) -> list[Segment]:
        """All segments, in order."""
        return [segment for block in self.blocks for segment in block.segments]


class Translator(Seq2SeqPipeline):
    """Translates texts, with a multilingual model into the requested language."""

    takes_language = True

    @property
    def languages(self) -> tuple[str, ...]:
        """Target languages of a multilingual model; empty for others."""
        return self.task_config.languages if self.task_config else ()

    @property
    def chooses_target(self) -> bool:
        """Whether it finds the target language of a text itself: of two languages, the one that the text is not in."""
        return len(self.languages) == 2 and self.bundle.training.languages is not None

    @property
    def direction(self) -> tuple[str, str] | None:
        """Source and target language of a model of one direction, if they are known."""
        config = self.task_config
        if config is None or config.source_language is None or config.target_language is None:
            return None
        return config.source_language, config.target_language

    @property
    def splits_sentences(self) -> bool:
        """Whether texts are split into sentences by default: unless many training sources had several."""
        return (self.bundle.training.multi_sentence_share or 0.0) <= MAX_MULTI_SENTENCE_SHARE

    @property
    def max_segment_tokens(self) -> int | None:
        """Length up to which a sentence is translated at once: what was learned, within the limit of the model."""
        limit = self.max_length
        if limit is not None and self.in_sequence:
            limit = max(1, limit // 2)  # the target needs room, too
        learned = self.bundle.training.max_source_tokens
        return min((one for one in (limit, learned) if one is not None), default=None)

    @overload
    def translate(  # type: ignore[overload-overlap]  # a text is a sequence of texts to the type checker
        self, text: str, *, to: str | None = ..., from_: str | None = ..., prefix: str | None = ...,
        split: bool | None = ..., markup: Markup = ..., n_best: Literal[1] = 1, batch_tokens: int = ...,
        **overrides: object,
    ) -> str: ...  # fmt: skip
    @overload
    def translate(
        self, text: Sequence[str], *, to: str | None = ..., from_: str | None = ..., prefix: str | None = ...,
        split: bool | None = ..., markup: Markup = ..., n_best: Literal[1] = 1, batch_tokens: int = ...,
        **overrides: object,
    ) -> list[str]: ...  # fmt: skip
    @overload
    def translate(
        self, text: str | Sequence[str], *, to: str | None = ..., from_: str | None = ..., prefix: str | None = ...,
        split: bool | None = ..., markup: Markup = ..., n_best: int, batch_tokens: int = ..., **overrides: object,
    ) -> str | list[str] | list[list[str]]: ...  # fmt: skip
    def translate(
        self,
        text: str | Sequence[str],
        *,
        to: str | None = None,
        from_: str | None = None,
        prefix: str | None = None,
        split: bool | None = None,
        markup: Markup = "text",
        n_best: int = 1,
        batch_tokens: int = BATCH_TOKENS,
        **overrides: object,
    ) -> str | list[str] | list[list[str]]:
        """Return the translation of a text, or of each of several; with `n_best` above 1 a list for each.

        Sentences are translated one by one, unless `split` is False; a text may be a document in a `markup` (html,
        markdown, srt). Every translation begins with `prefix`; `overrides` are decoding settings (`beam_size=4`).
        """
        texts = [text] if isinstance(text, str) else list(text)
        found = self.translations(
            texts,
            to=to,
            from_=from_,
            prefixes=None if prefix is None else [prefix] * len(texts),
            split=split,
            markup=markup,
            settings=self.settings(n_best=n_best, **overrides),
            batch_tokens=batch_tokens,
        )
        for message in dict.fromkeys(chain.from_iterable(translations[0].warnings for translations in found)):
            warnings.warn(message, stacklevel=2)
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
        split: bool | None = None,
        markup: Markup = "text",
        alignment: bool = False,
        settings: DecodingSettings | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[list[Translation]]:
        """Return the translations of each text with their scores, best first.

        `to` may name a language for each text. A blank text becomes its prefix, without the model.
        """
        if isinstance(texts, str):
            raise InputError("expected a list of texts, not one text: put it in brackets")
        self.language_tags(to, from_, texts)
        names = [to] * len(texts) if to is None or isinstance(to, str) else list(to)
        beginnings = [""] * len(texts) if prefixes is None else list(prefixes)
        if len(beginnings) != len(texts):
            raise InputError(f"there are {len(beginnings)} prefixes for {len(texts)} texts: give one for each")
        options = TranslationOptions(
            settings or self.generation,
            from_=from_,
            split=split,
            markup=markup,
            alignment=alignment,
            batch_tokens=batch_tokens,
        )
        inputs = zip(texts, names, beginnings, range(1, len(texts) + 1), strict=True)

        def segment(given: tuple[str, str | None, str, int]) -> SegmentedText | SegmentedDocument:
            text, name, prefix, number = given
            own = replace(options, to=name, prefix=prefix)
            return self.segment(text, own, name=f"text {number}" if len(texts) > 1 else "the text")

        return [found for _, found in self.stream([inputs], segment, options)]

    def stream(
        self,
        blocks: Iterable[Iterable[Item]],
        segment: Callable[[Item], SegmentedText | SegmentedDocument],
        options: TranslationOptions,
        *,
        look_ahead: int = LOOK_AHEAD,
    ) -> Iterator[tuple[Item, list[Translation]]]:
        """Yield each input with its translations, best first, in order (see `process_stream`).

        `segment` splits an input, by this pipeline's own `segment`; memory is bounded by the look-ahead in segments.
        """
        if options.alignment:
            require_cross_attention(self.model)
        for item, text, found in process_stream(
            blocks,
            split=segment,
            parts_of=lambda text: text.segments,
            work=lambda segments: self.translate_segments(segments, options),
            look_ahead=look_ahead,
        ):
            yield item, self.join(text, found, alignment=options.alignment)

    def segment(
        self, text: str, options: TranslationOptions, *, name: str = "the text"
    ) -> SegmentedText | SegmentedDocument:
        """Split a text or a document into segments that the model can read; `name` is for errors."""
        document = None if options.markup == "text" else read_document(text, options.markup)
        whole = text if document is None else " ".join(document.texts)
        [to] = self.target_languages(options.to, options.from_, [whole])
        notes = [] if options.to or options.from_ else self.describe_choice(whole)
        if document is None:
            found = self.segment_text(text, to, options, name=name)
            return replace(found, warnings=(*notes, *found.warnings))
        blocks = (self.segment_text(block, to, replace(options, prefix=""), name=name) for block in document.texts)
        return SegmentedDocument(document, list(blocks), to, notes)

    def segment_text(
        self, text: str, to: str | None, options: TranslationOptions, *, name: str = "the text"
    ) -> SegmentedText:
        """Split a text into sentences, and those that are too long into parts."""
        tag = self.language_tag(to)
        if not text.strip():
            return SegmentedText(text, (), options.prefix, to=to)
        split = self.splits_sentences if options.split is None else options.split
        find_spans = split_sentences if split else split_lines
        spans = [(0, len(text))] if options.split is False else find_spans(text)
        prefix = self.target_tokenizer.encode(options.prefix)
        limit, segments, notes = self.max_segment_tokens, list[Segment](), list[str]()
        queue = list(reversed(spans))
        while queue:
            start, end = queue.pop()
            ids = [*tag, *self.tokenizer.encode(text[start:end])]
            if limit is not None and len(ids) > limit:
                parts = self.cut(text[start:end], limit - len(tag), options)
                notes.append(describe_cut(len(ids), limit, len(parts)))
                if len(parts) > 1:
                    queue += [(start + one, start + other) for one, other in reversed(parts)]
                    continue
            if len(ids) > len(tag):
                segments.append(Segment(text[start:end], (start, end), ids, prefix if not segments else ()))
        for segment in segments:
            self.check_sources([segment.ids], [segment.prefix], options.settings, name=name)
            if self.is_translated(segment, to, n_tags=len(tag)):
                notes.append(
                    f"{clip(segment.text)!r} is in the target language ({to}) already: do not trust its output"
                )
        return SegmentedText(text, segments, options.prefix, tuple(dict.fromkeys(notes)), to)

    def describe_choice(self, text: str) -> list[str]:
        """Return a warning if the language of a text, which decides on that of its translation, is not clear."""
        found = self.detect_language(text) if self.chooses_target else {}
        source = next(iter(found), None)
        if source is None or found[source] >= CLEAR or not text.strip():
            return []
        return [f"{clip(text.strip())!r} was taken for {source} ({found[source]:.0%} sure): name the target language"]

    def is_translated(self, segment: Segment, to: str | None, *, n_tags: int) -> bool:
        """Return whether a sentence is clearly in the language that a model of two should translate it into."""
        statistics = self.bundle.training.languages
        if not self.chooses_target or statistics is None or to is None:
            return False
        return statistics.detect(segment.ids[n_tags:]).get(to, 0.0) >= CERTAIN

    def cut(self, sentence: str, limit: int, options: TranslationOptions) -> list[Span]:
        """Return the parts of a sentence that is too long, or of a line of several."""
        if options.split is False:
            return [(0, len(sentence))]
        sentences = split_sentences(sentence)
        if len(sentences) > 1:
            return sentences
        return cut_sentence(sentence, limit=max(1, limit), offsets=self.tokenizer.offsets)

    def translate_segments(self, segments: Sequence[Segment], options: TranslationOptions) -> list[list[Translation]]:
        """Return the translations of each segment, best first."""
        found = self.decode_sources(
            [segment.ids for segment in segments],
            settings=options.settings,
            prefixes=[segment.prefix for segment in segments],
            batch_tokens=options.batch_tokens,
        )
        return self.build_translations(segments, found, options)

    def build_translations(
        self, segments: Sequence[Segment], found: Sequence[Sequence[Hypothesis]], options: TranslationOptions
    ) -> list[list[Translation]]:
        """Return search results as translations, with word links where they are needed."""
        results = [
            [
                Translation.from_hypothesis(one, self.decode_hypothesis(one, options.settings), self.target_tokenizer)
                for one in hypotheses
            ]
            for hypotheses in found
        ]
        for segment, several in zip(segments, results, strict=True):
            if several and not segment.prefix:
                several[0] = replace(several[0], confidence=self.estimate_confidence(several[0], options.settings))
        is_document = options.markup != "text" and cross_attention_point(self.model) is not None
        if not (options.alignment or is_document):
            return results
        return self.add_alignment(segments, found, results, batch_tokens=options.batch_tokens)

    def join(
        self,
        text: SegmentedText | SegmentedDocument,
        found: Sequence[Sequence[Translation]],
        *,
        alignment: bool = False,
    ) -> list[Translation]:
        """Return the translations of a whole text from those of its segments, best first."""
        n_ranks = max(map(len, found), default=1)
        ranked = [[several[min(rank, len(several) - 1)] for several in found] for rank in range(n_ranks)]
        if isinstance(text, SegmentedDocument):
            return [join_document(text, best) for best in ranked]
        return [join_text(text, best, alignment=alignment) for best in ranked]

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
        split: bool | None = None,
        **options: object,
    ) -> Trace:
        """Trace the model while it translates a sentence: every value, every step, every choice.

        With a `target`, trace the model forced to generate it. Several sentences, which would be translated one by one,
        are refused, unless `split` is False: then the model reads them at once. `options` are those of
        `tracing.TraceOptions` (`activations`, `layers`, `heads`, `candidates`, `logit_lens`, `head_ablation`,
        `hypotheses`, `ablate_heads`, `limit`, `progress`) and decoding settings (`beam_size=4`).
        """
        if to is None and target is not None and self.chooses_target:
            to = next(iter(self.detect_language(target)))  # surer than what the text is not in
        [tag] = self.language_tags(to, from_, [text])
        if target is None and split is not False:
            self.require_one_sentence(text)
        source = tokenize_input(text, self.tokenizer, before=tag if text.strip() else [])
        return self.trace_source(source if text.strip() else EMPTY_TEXT, target, options)

    def require_one_sentence(self, text: str) -> None:
        """Refuse to trace several sentences that would be translated one by one."""
        spans = split_sentences(text) if self.splits_sentences else split_lines(text)
        if len(spans) > 1:
            start, end = spans[0]
            first = text[start:end] if end - start <= 80 else f"{text[start : start + 78]} …"
            raise InputError(
                f"the text has {len(spans):,} sentences, which are translated one by one: trace one of them, "
                f"such as {first!r}"
            )

    def add_alignment(
        self,
        segments: Sequence[Segment],
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
                [segments[number].ids for number, _ in pairs],
                contents,
                start_id=self.start_id,
                batch_tokens=batch_tokens,
            )
        for (number, rank), content, weights in zip(pairs, contents, attention, strict=True):
            source, target = segments[number].text, results[number][rank].text
            spans = self.tokenizer.offsets(source)
            tag = [(0, 0)] * (len(segments[number].ids) - len(spans))
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
        """Create the job of translating a text as one segment; None for a blank one."""
        [source] = self.encode_sources([text], to, from_)
        return self.create_source_job(source, settings, self.target_tokenizer.encode(prefix)) if source else None

    def encode_sources(
        self, texts: Sequence[str], to: str | Sequence[str] | None, from_: str | None
    ) -> list[list[int]]:
        """Tokenize texts, each after its language tag; a blank one becomes empty."""
        tags = self.language_tags(to, from_, texts)
        return [
            [*tag, *ids] if ids and text.strip() else []
            for text, tag, ids in zip(texts, tags, self.encode_texts(texts), strict=True)
        ]

    def create_job_group(self, given: str, settings: DecodingSettings, **options: Any) -> JobGroup:
        """Create the jobs of translating a text, one for each segment; the options are `TranslationOptions`."""
        chosen = TranslationOptions(settings, **options)
        segmented = self.segment(given, chosen)
        segments = list(segmented.segments)
        jobs = [self.create_source_job(segment.ids, settings, segment.prefix) for segment in segments]

        def build() -> list[Generation]:
            if isinstance(segmented, SegmentedText) and not jobs:
                return []
            found = [job.search.hypotheses[0] for job in jobs]
            return list(self.join(segmented, self.build_translations(segments, found, chosen)))

        return JobGroup(jobs, build, uses_model=chosen.alignment or chosen.markup != "text")

    def language_tags(self, to: str | Sequence[str] | None, from_: str | None, texts: Sequence[str]) -> list[list[int]]:
        """Return the target-language tag before each text; without `to`, see `choose_target`."""
        return [self.language_tag(name) for name in self.target_languages(to, from_, texts)]

    def target_languages(
        self, to: str | Sequence[str] | None, from_: str | None, texts: Sequence[str]
    ) -> list[str | None]:
        """Return the target language of each text, given or chosen; None where there is nothing to choose."""
        names = [to] * len(texts) if to is None or isinstance(to, str) else list(to)
        if len(names) != len(texts):
            raise InputError(f"there are {len(names)} languages for {len(texts)} texts: give one, or one for each")
        if from_ is not None:
            self.check_language(from_, option="from_")  # a typo should be reported, also where it decides nothing
            if from_ in names:
                raise InputError(f"the source language is {from_} too: they must differ", option="to")
        chosen = [
            self.choose_target(text, from_) if name is None else name for name, text in zip(names, texts, strict=True)
        ]
        for name in set(chosen):
            self.language_tag(name)  # refuses one that it does not know
        return chosen

    def choose_target(self, text: str, from_: str | None = None) -> str | None:
        """Return the target language of a text for which none is given: of two languages, the one it is not in.

        None for a model that cannot tell (see `chooses_target`).
        """
        if not self.chooses_target:
            return None
        first, second = self.languages
        source = from_ or next(iter(self.detect_language(text)))
        return second if source == first else first

    def detect_language(self, text: str, *, markup: Markup = "text") -> dict[str, float]:
        """Return the probability of each language of a multilingual model, the likeliest first.

        Empty for a model that cannot tell: of one direction, or trained before these statistics were recorded. Of a
        text that says nothing, such as a number, the last language is the likeliest: its translation is in the first.
        """
        statistics = self.bundle.training.languages
        if statistics is None:
            return {}
        read = text if markup == "text" else " ".join(read_document(text, markup).texts)
        found = statistics.detect(self.tokenizer.encode(read.strip()[:MAX_DETECTED_LENGTH]))
        order = list(reversed(self.languages))
        known = ((language, found[language]) for language in order if language in found)
        return dict(sorted(known, key=lambda pair: -pair[1]))

    def bits_per_character(self, text: str) -> float:
        """Return how unlikely a text is in the likeliest of the model's languages: high for a text in none of them."""
        read, statistics = text.strip()[:MAX_DETECTED_LENGTH], self.bundle.training.languages
        if statistics is None or not read:
            return 0.0
        return -float(statistics.sum_bits(self.tokenizer.encode(read)).max()) / len(read)

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


def clip(text: str) -> str:
    """Return the beginning of a text, for messages."""
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 2]} …"


def describe_cut(n_tokens: int, limit: int, n_parts: int) -> str:
    """Return the warning about a sentence that is too long."""
    what = f"has {n_tokens:,} tokens, more than the {limit:,} that this model learned to read at once"
    if n_parts > 1:
        return f"a sentence {what}: it was translated in parts, which may read badly"
    return f"the text {what}: its translation may be incomplete"


FINISH_REASONS: tuple[FinishReason, ...] = ("length", "stop")
"""Reasons that a text has if one of its sentences has them, the first one first."""


def join_text(text: SegmentedText, best: Sequence[Translation], *, alignment: bool) -> Translation:
    """Return one translation of a text from one of each segment."""
    joined, spans = text.join([one.text for one in best])
    if not best:
        return Translation(joined, *NO_RESULT, alignment=() if alignment else None, to=text.to)
    sentences = tuple(
        TranslatedSentence(
            segment.text,
            one.text,
            segment.span,
            span,
            one.score,
            one.log_probability,
            one.finish_reason,
            one.confidence,
        )
        for segment, one, span in zip(text.segments, best, spans, strict=True)
    )
    links = tuple(
        Link(
            link.source_start + sentence.source_span[0],
            link.source_end + sentence.source_span[0],
            link.target_start + sentence.target_span[0],
            link.target_end + sentence.target_span[0],
            link.weight,
        )
        for one, sentence in zip(best, sentences, strict=True)
        for link in one.alignment or ()
    )
    is_empty = [not one.text.strip() for one in best]
    empty = ("a sentence was translated to nothing",) if any(is_empty) and not all(is_empty) else ()
    has_links = alignment or any(one.alignment is not None for one in best)
    found = summarize(joined, best, sentences, links if has_links else None, (*text.warnings, *empty))
    return replace(found, to=text.to)


def join_document(text: SegmentedDocument, best: Sequence[Translation]) -> Translation:
    """Return one translation of a document from one of each segment."""
    blocks, start = list[Translation](), 0
    for block in text.blocks:
        end = start + len(block.segments)
        blocks.append(join_text(block, best[start:end], alignment=True))
        start = end
    rendered, notes = text.document.render([(block.text, block.alignment or ()) for block in blocks])
    notes = [*text.warnings, *notes]
    sentences = tuple(chain.from_iterable(block.sentences for block in blocks))
    messages = dict.fromkeys(chain(*(block.warnings for block in blocks), notes))
    return replace(summarize(rendered, best, sentences, None, tuple(messages)), to=text.to)


def summarize(
    text: str,
    best: Sequence[Translation],
    sentences: tuple[TranslatedSentence, ...],
    alignment: tuple[Link, ...] | None,
    messages: tuple[str, ...],
) -> Translation:
    """Return the translation of a whole text with the sums of its sentences' scores."""
    reasons = {one.finish_reason for one in best}
    return Translation(
        text,
        sum((one.score for one in best), 0.0),
        sum((one.log_probability for one in best), 0.0),
        tuple(token for one in best for token in one.tokens),
        next((reason for reason in FINISH_REASONS if reason in reasons), "eos"),
        alignment,
        best[0].confidence if len(best) == 1 else None,
        sentences,
        messages,
    )
