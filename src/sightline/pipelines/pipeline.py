"""What every pipeline can do: it knows its model and tokenizer, turns texts into vectors, and leaves no trace.

Texts in, texts (or numbers) out. A pipeline does not know files, devices to choose, or how its model was trained.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sightline.bundle import Bundle, Purpose
from sightline.decoding import DecodingSettings, Finish
from sightline.errors import InputError
from sightline.model import GPT, Bert, Model, Transformer
from sightline.model.registry import architecture_of
from sightline.pipelines.batches import BATCH_TOKENS, batches
from sightline.pipelines.neighbors import Neighbor, WordList
from sightline.pipelines.overrides import overridden
from sightline.pipelines.passages import NOTHING, framed
from sightline.pipelines.rows import grid
from sightline.settings import to_mapping
from sightline.text import Tokenizer
from sightline.text.special import Role
from sightline.tracing import Alignment, BertPass, Passage, Sighting, Trace, Wishes, look


class Pipeline:
    """A model with its tokenizer, to be asked in plain text.

    The model is in evaluation mode for the time of a call only, so that one may be asked while it is being trained.
    """

    takes: ClassVar[tuple[type[Model], ...]] = (Transformer, Bert, GPT)
    """The architectures this pipeline works with."""
    model: Model

    def __init__(self, bundle: Bundle, *, folder: Path | None = None) -> None:
        if bundle.tokenizer is None:
            raise InputError("this model has no tokenizer (tokenizer.json): it can be given ids, but no text")
        if not isinstance(bundle.model, self.takes):
            raise InputError(f"a {type(bundle.model).__name__} cannot do the work of a {type(self).__name__}")
        self.bundle = bundle
        self.folder = folder
        self.model = bundle.model
        self._modules = tuple(bundle.model.modules())
        self.tokenizer: Tokenizer = bundle.tokenizer
        self.purpose: Purpose | None = bundle.purpose
        self.generation: DecodingSettings = bundle.generation
        self.max_length: int | None = bundle.model.config.max_length
        """The most tokens the model can take at once; None for no limit."""
        self._words = WordList(bundle.words, bundle.tokenizer)

    def settings(self, **overrides: object) -> DecodingSettings:
        """Return the decoding settings of the model, some of them given anew (see `DecodingSettings`)."""
        return overridden(self.generation, overrides)

    def embed(self, texts: Sequence[str], *, batch_tokens: int = BATCH_TOKENS) -> Float[Tensor, "n E"]:
        """Return a vector for each text: the mean of what the last layer makes of its tokens; zeros for an empty one.

        The last layer is the encoder's, in a GPT the decoder's.
        """
        before, after = self.frame()
        rows = [[*before, *ids, *after] if ids else [] for ids in self.encoded(texts)]
        self.check_lengths(rows)
        vectors = torch.zeros(len(rows), self.model.config.d_model)
        with self.at_work():
            for chosen, ids, lengths in self.in_batches(rows, batch_tokens=batch_tokens):
                hidden = self.hidden(ids, lengths).float()
                vectors[chosen] = means(hidden, lengths, skip=(len(before), len(after))).cpu()
        return vectors

    def word_vectors(self, words: Sequence[str]) -> Float[Tensor, "n E"]:
        """Return the vector of each word, known or not: the mean of its tokens' embeddings, as in running text."""
        return self._words.vectors(words, self.weight.detach()).cpu()

    def neighbors(self, word: str, *, n: int = 10) -> list[Neighbor]:
        """Return the words of the model's list whose vectors point most nearly where this word's does."""
        return self._words.nearest(word, self.weight.detach(), n=n)

    def trace(self, text: str, **options: Any) -> Trace:
        """Return what the model does with a text, value by value; `options` are those of `tracing.Wishes`."""
        model = self.model
        if not isinstance(model, Bert):
            raise InputError(f"a {type(model).__name__} is traced at work: by a Translator, a Chat or a Generator")
        wishes, _ = Wishes.of(options, writes=False)
        before, after = self.frame()
        source = framed(text, self.tokenizer, before=before, after=after)
        self.check_lengths([source.tokens])
        with self.at_work():
            work = BertPass(model, [token.id for token in source.tokens], head=None)
            return self.traced(look(work, wishes, [], name=self.tokenizer.token_text), source)

    def traced(
        self,
        seen: Sighting,
        source: Passage,
        *,
        target: Passage = NOTHING,
        inputs: Passage = NOTHING,
        forced: bool = False,
        finish: Finish | None = None,
        alignment: Alignment | None = None,
    ) -> Trace:
        """Return what was seen, with the texts it was seen at."""
        config = self.model.config
        scalars = {name: value for name, value in to_mapping(config).items() if not isinstance(value, list | tuple)}
        return Trace(
            family=architecture_of(config),  # type: ignore[arg-type]
            task=self.purpose.task if self.purpose else None,
            model=scalars,  # type: ignore[arg-type]
            source=source,
            target=target,
            inputs=inputs,
            steps=seen.steps,
            probes=seen.probes,
            heads=seen.heads,
            forced=forced,
            finish=finish,
            knocked_out=seen.knocked_out,
            tree=seen.tree,
            alignment=alignment,
            readout=seen.readout,
            knockouts=seen.knockouts,
        )

    def hidden(self, ids: Int[Tensor, "B T"], lengths: Int[Tensor, "B"]) -> Float[Tensor, "N E"]:
        """Return what the last layer makes of every token, padding left out."""
        model = self.model
        if isinstance(model, Transformer):
            return model.encode(ids, lengths=lengths, packed=True).hidden
        if isinstance(model, GPT):
            return model.decode(ids, lengths=lengths, packed=True)
        return model(ids, lengths=lengths, packed=True)  # type: ignore[no-any-return]

    def frame(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return the ids that stand before and after a text that is read."""
        if isinstance(self.model, Bert):
            return [self.role_id("cls")], [self.role_id("sep")]
        return [], []

    @property
    def weight(self) -> Float[Tensor, "V E"]:
        """The embeddings of the tokens that are read."""
        model = self.model
        embedding = model.source_embedding if isinstance(model, Transformer) else model.embedding
        return embedding.tokens.weight

    def encoded(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text."""
        if isinstance(texts, str):
            raise InputError("a list of texts is needed, not one text: put it in brackets")
        return self.tokenizer.encode_batch(texts)

    def in_batches(
        self, rows: Sequence[Sequence[int]], *, batch_tokens: int
    ) -> Iterator[tuple[list[int], Int[Tensor, "B T"], Int[Tensor, "B"]]]:
        """Yield the rows in batches: the numbers of those that go together, their ids as a grid, and their lengths."""
        for chosen in batches([len(row) for row in rows], batch_tokens=batch_tokens):
            yield chosen, *grid([rows[number] for number in chosen], like=self.weight)

    def check_lengths(self, rows: Sequence[Sequence[object]], *, what: str = "text") -> None:
        """Refuse what the model cannot take, naming the first such text and both numbers."""
        for number, row in enumerate(rows, start=1):
            if self.max_length is not None and len(row) > self.max_length:
                which = f"{what} {number}" if len(rows) > 1 else f"the {what}"
                most = f"the {self.max_length:,} this model can take"
                raise InputError(f"{which} has {len(row):,} tokens, more than {most}: shorten it")

    def role_id(self, role: Role, tokenizer: Tokenizer | None = None) -> int:
        """Return the id of a special token that this work needs."""
        found: int | None = getattr(tokenizer or self.tokenizer, f"{role}_id")
        if found is None:
            raise InputError(f"the model's tokenizer has no {role} token, which a {type(self).__name__} needs")
        return found

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Put the model into evaluation mode, without gradients, and afterwards back as it was."""
        learning = [module for module in self._modules if module.training]
        for module in learning:
            module.training = False
        try:
            with torch.inference_mode():
                yield
        finally:
            for module in learning:
                module.training = True


def means(hidden: Float[Tensor, "N E"], lengths: Int[Tensor, "B"], *, skip: tuple[int, int]) -> Float[Tensor, "B E"]:
    """Return the mean of each text's tokens, without so many at its beginning and end."""
    before, after = skip
    texts = torch.split(hidden, lengths.tolist())
    return torch.stack([text[before : len(text) - after].mean(dim=0) for text in texts])
