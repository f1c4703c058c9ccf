"""/studio-api/words and /studio-api/neighbors: words as points on a map, and which are nearest to one of them."""

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
from sightline.pipelines.neighbors import AT_ONCE, WordList, mean_embeddings
from sightline.serving import Body, Router
from sightline.serving.api import Desk
from sightline.tracing.projection import Projection, unit_vectors

MOST_SHOWN = 5_000
MOST_TYPED, LONGEST = 500, 60
MOST_NEIGHBORS = 50
KEPT = 8
"""Maps that are remembered: to find the two directions of thousands of words takes a while."""

Word = Annotated[str, Field(min_length=1, max_length=LONGEST)]
Measure = Literal["cosine", "distance"]


class WordsBody(Body):
    """Which map."""

    model: str | None = None
    words: Annotated[list[Word], Field(max_length=MOST_TYPED)] = Field([], description="Only these, and not the list.")
    measure: Measure = Field("cosine", description="Whether lengths of vectors count (distance) or not.")


class NeighborsBody(WordsBody):
    """Of which word."""

    word: Word
    n: Annotated[int, Field(ge=1, le=MOST_NEIGHBORS)] = 10


class Map(BaseModel):
    """Words and where they are."""

    words: list[str]
    x: list[float]
    y: list[float]
    share: float = Field(description="Of the variance of all vectors, on this map.")
    listed: int = Field(description="Words in the model's own list.")


class Near(BaseModel):
    """A word, how near it is to the one asked for, and where it is on the map."""

    word: str
    cosine: float
    distance: float
    x: float
    y: float


class Neighbors(BaseModel):
    """A word and those nearest to it."""

    word: str
    x: float
    y: float
    neighbors: list[Near]


class Atlas:
    """The words of a list as vectors, by one measure, and the map of the first of them."""

    def __init__(self, pipeline: Pipeline, words: Sequence[str], measure: Measure) -> None:
        self.pipeline, self.measure = pipeline, measure
        self.list = WordList(tuple(words), pipeline.tokenizer)

    @cached_property
    def plane(self) -> Projection:
        """The directions in which the words that are shown differ most."""
        return Projection.of(self.vectors(self.list.spelled[:MOST_SHOWN]))

    @property
    def weight(self) -> Float[Tensor, "V E"]:
        """The embeddings of all tokens."""
        return self.pipeline.weight.detach()

    def vectors(self, spelled: Sequence[Sequence[int]]) -> Float[np.ndarray, "n E"]:
        """Return the vectors of words as this measure sees them."""
        found = np.asarray(mean_embeddings(spelled, self.weight).float().cpu().numpy())
        return unit_vectors(found) if self.measure == "cosine" else found

    def nearness(
        self, own: Float[np.ndarray, "E"], spelled: Sequence[Sequence[int]]
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """Return the cosine of the angle between a vector and those of some words, and the distance."""
        others = np.asarray(mean_embeddings(spelled, self.weight).float().cpu().numpy()).astype(np.float64)
        cosines: np.ndarray = unit_vectors(others) @ unit_vectors(own[None].astype(np.float64))[0]
        return cosines, np.linalg.norm(others - own, axis=1)

    def map(self) -> Map:
        """Return the map; of no words an empty one."""
        if not self.list.words:
            return Map(words=[], x=[], y=[], share=0, listed=0)
        flat = self.plane(self.vectors(self.list.spelled[:MOST_SHOWN]))
        return Map(
            words=list(self.list.words[:MOST_SHOWN]),
            x=flat[:, 0].tolist(),
            y=flat[:, 1].tolist(),
            share=float(self.plane.shares.sum()),
            listed=len(self.pipeline.bundle.words),
        )

    def nearest(self, word: str, *, n: int) -> Neighbors:
        """Return the words of the whole list that are nearest to a word; in a tie the more frequent."""
        if not self.list.words:
            raise InputError("this model has no list of words: give some for it to be near to")
        own = np.asarray(self.list.vectors([word], self.weight).float().cpu().numpy())
        some = [self.list.spelled[start : start + AT_ONCE] for start in range(0, len(self.list.words), AT_ONCE)]
        found = [self.nearness(own[0], spelled) for spelled in some]
        cosines, distances = (np.concatenate(one) for one in zip(*found, strict=True))
        order = np.argsort(-cosines if self.measure == "cosine" else distances, kind="stable")
        best = [int(place) for place in order[: n + 1] if self.list.words[place] != word][:n]
        flat = self.plane(self.vectors([self.list.spell([word])[0], *(self.list.spelled[place] for place in best)]))
        near = [
            Near(word=self.list.words[place], cosine=float(cosines[place]), distance=float(distances[place]), x=x, y=y)
            for place, (x, y) in zip(best, flat[1:].tolist(), strict=True)
        ]
        return Neighbors(word=word, x=float(flat[0, 0]), y=float(flat[0, 1]), neighbors=near)


@dataclass(frozen=True)
class Wanted:
    """Which map is asked for."""

    model: str | None
    words: tuple[str, ...]
    measure: Measure

    @classmethod
    def of(cls, body: WordsBody) -> "Wanted":
        """Return what a request asks for."""
        return cls(body.model, tuple(dict.fromkeys(body.words)), body.measure)


def router(desk: Desk) -> Router:
    """Return the routes that show words."""
    routes = Router(include_in_schema=False)

    @lru_cache(maxsize=KEPT)
    def atlas(wanted: Wanted) -> Atlas:
        pipeline = desk.shelf.named(wanted.model, Pipeline)
        words = wanted.words or pipeline.bundle.words
        if wanted.words:
            pipeline.word_vectors(wanted.words)  # refuses what is not a word
        return Atlas(pipeline, words, wanted.measure)

    @routes.post("/studio-api/words")
    async def words(body: WordsBody) -> Map:
        # A key of its own: what is refused shall not be refused to others who ask at the same time.
        [found] = await desk.call(object(), lambda many: [atlas(one).map() for one in many], [Wanted.of(body)])
        shown: Map = found
        return shown

    @routes.post("/studio-api/neighbors")
    async def neighbors(body: NeighborsBody) -> Neighbors:
        wanted = Wanted.of(body)
        [found] = await desk.call(
            object(), lambda many: [atlas(wanted).nearest(word, n=body.n) for word in many], [body.word]
        )
        near: Neighbors = found
        return near

    return routes
