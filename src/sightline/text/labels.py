"""The names of classes, and their ids: sorted, so that they do not depend on the order of the data."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from sightline.errors import InputError
from sightline.settings import unknown_name
from sightline.text.files import Place
from sightline.text.record import Record

MOST = 10_000
"""More different labels than this are not labels but texts in the wrong column."""


@dataclass(frozen=True)
class Labels:
    """Every class a model tells apart."""

    names: tuple[str, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ids", {name: id_ for id_, name in enumerate(self.names)})

    @classmethod
    def found_in(cls, records: Iterable[Record]) -> "Labels":
        """Collect the labels of a corpus: the last field of each record."""
        names: set[str] = set()
        for record in records:
            last = record.fields[-1]
            names.update((last,) if isinstance(last, str) else last)
            if len(names) > MOST:
                raise InputError(f"{record.place}: more than {MOST:,} labels: is that the column of the labels?")
        if len(names) < 2:
            raise InputError(f"there is only the label {next(iter(names), '')!r}: two or more are needed to learn from")
        return cls(tuple(sorted(names)))

    def __len__(self) -> int:
        return len(self.names)

    def id_of(self, name: str, place: Place) -> int:
        """Return the id of a label, or say where an unknown one stands."""
        if name not in self._ids:
            known = ", ".join(self.names[:20]) + (", …" if len(self.names) > 20 else "")
            raise InputError(f"{place}: {unknown_name(name, self.names, what='label')}: the model knows {known}")
        return self._ids[name]
