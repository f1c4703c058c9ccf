"""Who waits for a model, in the order of their coming."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sightline.serving.running import Entry
from sightline.serving.work import Call, Errand, Work

READ_AT_ONCE = 4_096
"""Tokens that newcomers may have to read between two steps: everyone else waits for that long."""
CALLED_AT_ONCE = 64
"""Items of calls that are put together."""


@dataclass
class Room:
    """What the next step has room for."""

    rows: int
    to_read: int = READ_AT_ONCE
    is_empty: bool = False
    """Nobody is at work: then even one who needs more than there is may come in, alone."""

    def take(self, entry: Entry) -> bool:
        """Let a task in, if it finds room."""
        if not self.is_empty and (entry.n_rows > self.rows or entry.n_ids > self.to_read):
            return False
        self.rows -= entry.n_rows
        self.to_read -= entry.n_ids
        self.is_empty = False
        return True


@dataclass
class Next:
    """What is done next: tasks that join, and calls of one kind."""

    entries: list[Entry] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def take(self, call: Call) -> bool:
        """Put a call to those that are of its kind."""
        if self.calls and (call.key != self.calls[0].key or n_items(self.calls) >= CALLED_AT_ONCE):
            return False
        self.calls.append(call)
        return True


class WorkQueue:
    """What is not begun; not safe for several threads by itself."""

    def __init__(self) -> None:
        self.places: deque[Entry | Call] = deque()

    def __bool__(self) -> bool:
        return bool(self.places)

    @property
    def errands(self) -> list[Errand]:
        """The errands that wait; one with many texts is one. May be asked by any thread: `list` takes all in one go."""
        return list({id(errand): errand for errand in map(errand_of, list(self.places))}.values())

    def add(self, errand: Work | Call) -> None:
        """Take an errand in, each of its texts at a place of its own."""
        if isinstance(errand, Call):
            self.places.append(errand)
        else:
            self.places.extend(Entry(errand, number) for number in sorted(errand.open))

    def take(self, room: Room) -> Next:
        """Return what is done next. Nobody overtakes: where one task finds no room, those behind it wait as well."""
        self.places = deque(place for place in self.places if not errand_of(place).is_cancelled)
        result, later, is_full = Next(), deque[Entry | Call](), False
        for place in self.places:
            if isinstance(place, Call):
                if not result.take(place):
                    later.append(place)
            elif is_full or not room.take(place):
                is_full = True
                later.append(place)
            else:
                result.entries.append(place)
        self.places = later
        return result

    def clear(self) -> list[Errand]:
        """Let everyone go, and say who that was."""
        errands = self.errands
        self.places.clear()
        return errands


def errand_of(place: Entry | Call) -> Errand:
    """Return what waits at a place."""
    return place.work if isinstance(place, Entry) else place


def n_items(calls: Sequence[Call]) -> int:
    """Return how many things some calls are about."""
    return sum(len(call.items) for call in calls)
