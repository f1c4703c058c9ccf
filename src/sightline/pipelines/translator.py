"""Translate: a text in, a text out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, overload

from sightline.decoding import DecodingSettings, Finish, Hypothesis
from sightline.errors import InputError
from sightline.pipelines.alignment import attention_of, written_spans
from sightline.pipelines.batches import BATCH_TOKENS
from sightline.pipelines.passages import NOTHING, framed
from sightline.pipelines.rewriter import Rewriter
from sightline.pipelines.task import Task
from sightline.pipelines.writing import Writing
from sightline.settings import one_of, unknown_name
from sightline.text import tag_token
from sightline.tracing import Link, Trace
from sightline.tracing.alignment import links


@dataclass(frozen=True)
class Translation(Writing):
    """A translation, and what the model thought of it."""

    alignment: tuple[Link, ...] | None = None
    """Which words looked at which (a hint, not an alignment: see `tracing.alignment`); None if nobody asked."""


UNASKED: tuple[float, float, tuple[str, ...], Finish] = (0.0, 0.0, (), "end")
"""What there is to say of a translation that the model was not asked for."""


class Translator(Rewriter):
    """Translates texts; with models of many languages, into the one asked for."""

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages to choose from; none where there is nothing to choose."""
        return self.purpose.languages if self.purpose else ()

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

        `prefix` is what every translation must begin with; `overrides` are decoding settings (`beam=4`).
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
        """Return the translations of each text, best first, with all there is to say of them.

        `to` may name a language for each text. A text with nothing to read becomes its prefix, without the model.
        """
        settings = settings or self.generation
        sources = self.sources(texts, to, from_)
        beginnings = [""] * len(texts) if prefixes is None else list(prefixes)
        if len(beginnings) != len(texts):
            raise InputError(f"there are {len(beginnings)} prefixes for {len(texts)} texts: each needs one")
        found = self.rewrite(
            sources, settings=settings, prefixes=self.writer.encode_batch(beginnings), batch_tokens=batch_tokens
        )
        results = [
            [Translation.of(one, self.written(one, settings), self.writer) for one in hypotheses]
            or [Translation(beginning, *UNASKED)]
            for hypotheses, beginning in zip(found, beginnings, strict=True)
        ]
        return self.aligned(texts, sources, found, results, batch_tokens=batch_tokens) if alignment else results

    def trace(
        self,
        text: str,
        *,
        target: str | None = None,
        to: str | None = None,
        from_: str | None = None,
        **options: object,
    ) -> Trace:
        """Return what the model does while it translates a text: every value, every step, every choice.

        With a `target` it is shown how it would write that one. `options` are those of `tracing.Wishes` (`probes`,
        `layers`, `heads`, `candidates`, `readout`, `knockouts`, `hypotheses`, `knock_out`, `limit`, `progress`) and
        decoding settings (`beam=4`).
        """
        [tag] = self.tags(to, from_, 1)
        source = framed(text, self.tokenizer, before=tag if text.strip() else [])
        return self.trace_source(source if text.strip() else NOTHING, target, options)

    def aligned(
        self,
        texts: Sequence[str],
        sources: Sequence[Sequence[int]],
        hypotheses: Sequence[Sequence[Hypothesis]],
        translations: Sequence[Sequence[Translation]],
        *,
        batch_tokens: int,
    ) -> list[list[Translation]]:
        """Return the translations with what their words looked at."""
        results = [[replace(one, alignment=()) for one in several] for several in translations]
        pairs = [(number, rank) for number, several in enumerate(hypotheses) for rank in range(len(several))]
        contents = [hypotheses[number][rank].content for number, rank in pairs]
        with self.at_work():
            attention = attention_of(
                self.model,
                [sources[number] for number, _ in pairs],
                contents,
                start_id=self.start_id,
                batch_tokens=batch_tokens,
            )
        for (number, rank), content, weights in zip(pairs, contents, attention, strict=True):
            source, target = texts[number], results[number][rank].text
            spans = self.tokenizer.spans(source)
            tag = [(0, 0)] * (len(sources[number]) - len(spans))
            alignment = links(
                weights.numpy(),
                source=source,
                source_spans=[*tag, *spans],
                target=target,
                target_spans=written_spans(content, self.writer, target),
            )
            results[number][rank] = replace(results[number][rank], alignment=alignment)
        return results

    def task(
        self,
        text: str,
        settings: DecodingSettings,
        *,
        to: str | None = None,
        from_: str | None = None,
        prefix: str = "",
    ) -> Task | None:
        """Return the task to translate a text; None where there is nothing to read."""
        [source] = self.sources([text], to, from_)
        return self.task_for(source, settings, self.writer.encode(prefix)) if source else None

    def sources(self, texts: Sequence[str], to: str | Sequence[str] | None, from_: str | None) -> list[list[int]]:
        """Return what the model reads for each text, nothing where there is nothing to translate."""
        tags = self.tags(to, from_, len(texts))
        return [
            [*tag, *ids] if ids and text.strip() else []
            for text, tag, ids in zip(texts, tags, self.encoded(texts), strict=True)
        ]

    def tags(self, to: str | Sequence[str] | None, from_: str | None, n_texts: int) -> list[list[int]]:
        """Return what stands before each text to say into which language it goes."""
        names = [to] * n_texts if to is None or isinstance(to, str) else list(to)
        if len(names) != n_texts:
            raise InputError(f"there are {len(names)} languages for {n_texts} texts: give one, or one for each")
        if from_ is not None:
            self.known_language(from_, option="from_")  # the model sees that for itself; a mistake is worth a word
        return [self.tag(name) for name in names]

    def tag(self, to: str | None) -> list[int]:
        """Return the token for a language, if this model needs one."""
        if to is None and len(self.languages) > 1:
            raise InputError(f"into which language? Give `to`, {one_of(self.languages)}")
        if to is None and not self.languages:
            return []
        language = self.languages[0] if to is None else self.known_language(to, option="to")
        id_ = self.tokenizer.special_id(tag_token(language))
        if id_ is None:
            raise InputError(
                f"the model's tokenizer has no token {tag_token(language)!r} for the language {language!r}"
            )
        return [id_]

    def known_language(self, name: str, *, option: str) -> str:
        """Return a language the model knows, or say which those are."""
        if not self.languages:
            raise InputError(f"this model was not made for several languages: leave `{option}` out")
        if name not in self.languages:
            known = one_of(self.languages)
            raise InputError(f"{unknown_name(name, self.languages, what='language')}: `{option}` is {known}")
        return name

    def frame(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return what stands around a text that is read: with several languages, the first of them as its target."""
        return (self.tag(self.languages[0]) if self.languages else []), []
