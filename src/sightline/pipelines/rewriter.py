"""What translation and chat have in common: a text is read by an encoder, another one written by a decoder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sightline.bundle import Bundle
from sightline.decoding import DecodingSettings, Hypothesis, Request, search
from sightline.errors import InputError
from sightline.model import Transformer
from sightline.pipelines.batches import batches
from sightline.pipelines.pipeline import Pipeline
from sightline.pipelines.rows import grid
from sightline.pipelines.steps import attentive_step_of, step_of
from sightline.pipelines.writing import finished
from sightline.text import Tokenizer
from sightline.text.batch import real_tokens


class Rewriter(Pipeline):
    """Reads ids and writes others. Sources have no start or end; what is written begins after the start token."""

    takes = (Transformer,)
    model: Transformer

    def __init__(self, bundle: Bundle, *, folder: Path | None = None) -> None:
        super().__init__(bundle, folder=folder)
        self.writer: Tokenizer = bundle.target_tokenizer or self.tokenizer
        """What turns ids into the text that is written."""
        self.start_id, self.end_id = self.role_id("start", self.writer), self.role_id("end", self.writer)

    def rewrite(
        self,
        sources: Sequence[Sequence[int]],
        *,
        settings: DecodingSettings,
        prefixes: Sequence[Sequence[int]],
        batch_tokens: int,
    ) -> list[list[Hypothesis]]:
        """Return up to `n_best` results for each source, best first; none for an empty one.

        No result depends on which other sources there are.
        """
        self.check_lengths(sources)
        settings = self.within_limit(settings)
        self.check_prefixes(prefixes, settings)
        results: list[list[Hypothesis]] = [[] for _ in sources]
        n_rows = max(settings.beam, settings.n_best)
        for chosen in batches([len(source) for source in sources], batch_tokens=batch_tokens, rows=n_rows):
            with self.at_work():
                found = self.rewrite_batch(
                    [sources[number] for number in chosen], settings, [prefixes[number] for number in chosen]
                )
            for number, hypotheses in zip(chosen, found, strict=True):
                results[number] = hypotheses
        return results

    def rewrite_batch(
        self, sources: Sequence[Sequence[int]], settings: DecodingSettings, prefixes: Sequence[Sequence[int]]
    ) -> list[list[Hypothesis]]:
        """Return the results of sources that are read together."""
        ids, lengths = grid(sources, like=self.weight)
        state = self.model.start(self.model.encode(ids, lengths=lengths, packed=True))
        request = Request(
            [[self.start_id]] * len(sources),
            settings,
            end_ids=[self.end_id],
            prefixes=prefixes if any(prefixes) else None,
            to_text=self.writer.decode,
            source_mask=real_tokens(ids, lengths),
            device=ids.device,
        )
        step = attentive_step_of(self.model) if settings.coverage_penalty else step_of(self.model)
        return search(step, state, request)

    def within_limit(self, settings: DecodingSettings) -> DecodingSettings:
        """Return settings that ask for no more tokens than the decoder has places."""
        most = min(settings.max_length, self.max_length or settings.max_length)
        return replace(settings, max_length=most, min_length=min(settings.min_length, most))

    def check_prefixes(self, prefixes: Sequence[Sequence[int]], settings: DecodingSettings) -> None:
        """Refuse a beginning that is longer than the whole may be."""
        for number, prefix in enumerate(prefixes, start=1):
            if len(prefix) > settings.max_length:
                raise InputError(
                    f"the prefix of text {number} has {len(prefix):,} tokens, but at most {settings.max_length:,} are "
                    "written: shorten it, or raise max_length"
                )

    def written(self, hypothesis: Hypothesis, settings: DecodingSettings) -> str:
        """Return the text of a result."""
        return finished(self.writer.decode(hypothesis.content), hypothesis, settings)
