"""A model that is writing for several requests at once."""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.decoding import Advance, Together
from sightline.pipelines import Author
from sightline.serving.work import Piece, Work


@dataclass(frozen=True)
class Entry:
    """One task of one request."""

    work: Work
    number: int

    @property
    def n_rows(self) -> int:
        """Rows that it takes up, at most."""
        task = self.work.tasks[self.number]
        return task.n_rows if task else 0

    @property
    def n_ids(self) -> int:
        """Tokens to be read before the first is written."""
        task = self.work.tasks[self.number]
        return len(task.ids) if task else 0


@dataclass(frozen=True)
class News:
    """What a step brought one request; to be told on its event loop."""

    work: Work
    pieces: Sequence[Piece] = ()
    is_done: bool = False
    error: BaseException | None = None

    def tell(self) -> None:
        """Tell those who wait."""
        for piece in self.pieces:
            self.work.pieces.put_nowait(piece)
        if self.is_done:
            self.work.settle(error=self.error)


class Running:
    """The tasks of one model that share its steps."""

    def __init__(self, author: Author) -> None:
        self.author = author
        self.together = Together(author.step)
        self.entries: dict[int, Entry] = {}
        """By the identity of their searches."""

    @property
    def works(self) -> list[Work]:
        """The requests that have a task here."""
        return list({id(entry.work): entry.work for entry in self.entries.values()}.values())

    def admit(self, entries: Sequence[Entry]) -> None:
        """Read what these tasks begin with, all at once, and let them join."""
        tasks = [task for entry in entries if (task := entry.work.tasks[entry.number]) is not None]
        with self.author.at_work():
            state = self.author.prefilled([task.ids for task in tasks])
            self.together.join([task.search for task in tasks], state)
        self.entries |= {id(task.search): entry for task, entry in zip(tasks, entries, strict=True)}

    def drop(self, works: Sequence[Work]) -> None:
        """Let requests go that nobody waits for, or that have failed."""
        gone = {id(work) for work in works}
        searches = [
            member.search for member in self.together.members if id(self.entries[id(member.search)].work) in gone
        ]
        with self.author.at_work():
            self.together.leave(searches)
        for search in searches:
            del self.entries[id(search)]

    def advance(self) -> list[News]:
        """Take one step for everyone."""
        with self.author.at_work():
            advances = self.together.advance()
        found = [self._news(advance) for advance in advances]
        if failed := [news.work for news in found if news.error is not None]:
            self.drop(failed)
        return [news for news in found if news.pieces or news.is_done]

    def _news(self, advance: Advance) -> News:
        entry = self.entries[id(advance.search)]
        if advance.is_done:
            del self.entries[id(advance.search)]
        if advance.error is not None:
            entry.work.cancel()  # its other texts are of no use alone
            return News(entry.work, is_done=True, error=advance.error)
        pieces = entry.work.pieces_of(entry.number, advance.stride, is_done=advance.is_done)
        if advance.is_done:
            entry.work.open.discard(entry.number)
        return News(entry.work, pieces, is_done=not entry.work.open)
