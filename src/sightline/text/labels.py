"""Class labels and their ids: sorted by name, so that ids do not depend on the order of the data."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from sightline.errors import InputError
from sightline.settings import unknown_name
from sightline.text.files import Location
from sightline.text.record import Record

MAX_LABELS = 10_000
"""More distinct labels than this are probably texts in the wrong column."""


@dataclass(frozen=True)
class Labels:
    """The classes of a classifier, by id."""

    names: tuple[str, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ids", {name: id_ for id_, name in enumerate(self.names)})

    @classmethod
    def collect(cls, records: Iterable[Record]) -> "Labels":
        """Collect the labels of a corpus: the last field of each record."""
        names: set[str] = set()
        for record in records:
            last = record.fields[-1]
            names.update((last,) if isinstance(last, str) else last)
            if len(names) > MAX_LABELS:
                raise InputError(
                    f"{record.location}: more than {MAX_LABELS:,} distinct labels: is this the label column?"
                )
        if len(names) < 2:
            raise InputError(f"the only label is {next(iter(names), '')!r}: training needs two or more")
        return cls(tuple(sorted(names)))

    def __len__(self) -> int:
        return len(self.names)

    def id_of(self, name: str, location: Location) -> int:
        """Return the id of a label, refusing an unknown one with its location."""
        if name not in self._ids:
            known = ", ".join(self.names[:20]) + (", …" if len(self.names) > 20 else "")
            raise InputError(f"{location}: {unknown_name(name, self.names, what='label')}: the model knows {known}")
        return self._ids[name]
