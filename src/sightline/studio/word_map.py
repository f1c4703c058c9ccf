"""/studio-api/words and /studio-api/neighbors: word embeddings projected to a map, and nearest neighbors."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, Field
from torch import Tensor

from sightline.errors import InputError
from sightline.pipelines import Pipeline
from sightline.pipelines.neighbors import WORDS_PER_CHUNK, WordList, mean_embeddings
from sightline.serving.api import Submitter
from sightline.serving.http import Body, Router
from sightline.tracing.vectors import PCA, unit_vectors

MAX_SHOWN = 5_000
MAX_WORDS, MAX_WORD_LENGTH = 500, 60
MAX_NEIGHBORS = 50
MAX_CACHED_MAPS = 8
"""The PCA of thousands of words takes a while."""

Word = Annotated[str, Field(min_length=1, max_length=MAX_WORD_LENGTH)]
Measure = Literal["cosine", "distance"]


class WordsBody(Body):
    """The words of a map and the measure of similarity."""

    model: str | None = None
    words: Annotated[list[Word], Field(max_length=MAX_WORDS)] = Field(
        [], description="Used instead of the model's list."
    )
    measure: Measure = Field("cosine", description="cosine ignores the lengths of vectors, distance does not.")


class NeighborsBody(WordsBody):
    """The word whose neighbors are searched."""

    word: Word
    n: Annotated[int, Field(ge=1, le=MAX_NEIGHBORS)] = 10


class MappedWords(BaseModel):
    """Words and their coordinates."""

    words: list[str]
    x: list[float]
    y: list[float]
    explained_variance: float = Field(description="Share of the variance of all vectors that the map shows.")
    listed: int = Field(description="Number of words in the model's own list.")


class Neighbor(BaseModel):
    """A word, its similarity to the given word, and its coordinates."""

    word: str
    cosine: float
    distance: float
    x: float
    y: float


class Neighbors(BaseModel):
    """A word and its nearest neighbors."""

    word: str
    known: bool = Field(description="Whether the word is in the list; else its vector only comes from its tokens.")
    tokens: list[str] = Field(description="The tokens of the word, whose mean embedding is its vector.")
    x: float
    y: float
    neighbors: list[Neighbor]


class WordMap:
    """The embeddings of a list of words, by one measure, and the map of the first of them."""

    def __init__(self, pipeline: Pipeline, words: Sequence[str], measure: Measure) -> None:
        self.pipeline, self.measure = pipeline, measure
        self.list = WordList(tuple(words), pipeline.tokenizer)

    @cached_property
    def pca(self) -> PCA:
        """The first two principal components of the words shown."""
        return PCA.of(self.vectors(self.list.word_ids[:MAX_SHOWN]))

    @property
    def weight(self) -> Float[Tensor, "V E"]:
        """The embeddings of all tokens."""
        return self.pipeline.embedding_weight.detach()

    def vectors(self, word_ids: Sequence[Sequence[int]]) -> Float[np.ndarray, "n E"]:
        """Return the embeddings of words, normalized for cosine."""
        found = np.asarray(mean_embeddings(word_ids, self.weight).float().cpu().numpy())
        return unit_vectors(found) if self.measure == "cosine" else found

    def similarities(
        self, own: Float[np.ndarray, "E"], word_ids: Sequence[Sequence[int]]
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """Return the cosine similarities and the distances between a vector and the embeddings of words."""
        others = np.asarray(mean_embeddings(word_ids, self.weight).float().cpu().numpy()).astype(np.float64)
        cosines: np.ndarray = unit_vectors(others) @ unit_vectors(own[None].astype(np.float64))[0]
        return cosines, np.linalg.norm(others - own, axis=1)

    def project(self) -> MappedWords:
        """Return the map; empty without words."""
        if not self.list.words:
            return MappedWords(words=[], x=[], y=[], explained_variance=0, listed=0)
        flat = self.pca(self.vectors(self.list.word_ids[:MAX_SHOWN]))
        return MappedWords(
            words=list(self.list.words[:MAX_SHOWN]),
            x=flat[:, 0].tolist(),
            y=flat[:, 1].tolist(),
            explained_variance=float(self.pca.explained_variance.sum()),
            listed=len(self.pipeline.bundle.words),
        )

    def nearest(self, word: str, *, n: int) -> Neighbors:
        """Return the nearest neighbors of a word in the whole list; ties go to the more frequent word."""
        if not self.list.words:
            raise InputError("this model has no word list: give `words`")
        own = np.asarray(self.list.vectors([word], self.weight).float().cpu().numpy())
        some = [
            self.list.word_ids[start : start + WORDS_PER_CHUNK]
            for start in range(0, len(self.list.words), WORDS_PER_CHUNK)
        ]
        found = [self.similarities(own[0], word_ids) for word_ids in some]
        cosines, distances = (np.concatenate(one) for one in zip(*found, strict=True))
        order = np.argsort(-cosines if self.measure == "cosine" else distances, kind="stable")
        best = [int(index) for index in order[: n + 1] if self.list.words[index] != word][:n]
        [ids] = self.list.encode_words([word])
        flat = self.pca(self.vectors([ids, *(self.list.word_ids[index] for index in best)]))
        near = [
            Neighbor(
                word=self.list.words[index], cosine=float(cosines[index]), distance=float(distances[index]), x=x, y=y
            )
            for index, (x, y) in zip(best, flat[1:].tolist(), strict=True)
        ]
        tokens = [self.pipeline.tokenizer.token_text(id_) for id_ in ids]
        [(x, y), *_] = flat.tolist()
        return Neighbors(word=word, known=word in self.list.words, tokens=tokens, x=x, y=y, neighbors=near)


@dataclass(frozen=True)
class MapKey:
    """The key of a cached map."""

    model: str | None
    words: tuple[str, ...]
    measure: Measure

    @classmethod
    def of(cls, body: WordsBody) -> "MapKey":
        """Return the key of a request."""
        return cls(body.model, tuple(dict.fromkeys(body.words)), body.measure)


def router(submitter: Submitter) -> Router:
    """Return the routes of the word map."""
    routes = Router(include_in_schema=False)

    @lru_cache(maxsize=MAX_CACHED_MAPS)
    def word_map(key: MapKey) -> WordMap:
        pipeline = submitter.models.get(key.model)
        words = key.words or pipeline.bundle.words
        if key.words:
            pipeline.word_vectors(key.words)  # raises InputError for what is not a word
        return WordMap(pipeline, words, key.measure)

    @routes.post("/studio-api/words")
    async def words(body: WordsBody) -> MappedWords:
        # A unique key: an error must not reach other requests of the same batch.
        [found] = await submitter.call(
            object(), lambda many: [word_map(one).project() for one in many], [MapKey.of(body)]
        )
        shown: MappedWords = found
        return shown

    @routes.post("/studio-api/neighbors")
    async def neighbors(body: NeighborsBody) -> Neighbors:
        key = MapKey.of(body)
        [found] = await submitter.call(
            object(), lambda many: [word_map(key).nearest(word, n=body.n) for word in many], [body.word]
        )
        near: Neighbors = found
        return near

    return routes
