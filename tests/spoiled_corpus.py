"""A corpus spoiled on purpose: pairs with known amounts of every kind of dirt that cleaning has a rule for."""

import random
from collections.abc import Callable, Sequence

from sightline.data.corpora.builtin import make_phrasebook

Pair = tuple[str, str]

CYRILLIC = str.maketrans("abcdefghijklmnopqrstuvwxyz", "абцдефгхийклмнопярстувжкыз")


def phrase_pairs(n: int, *, seed: int = 3) -> list[Pair]:
    """Return n clean pairs of the phrasebook, English and German."""
    phrases = make_phrasebook(n_train=n, n_unseen=0, seed=seed, languages=("en", "de")).train
    pairs = [(phrase.text("en"), phrase.text("de")) for phrase in phrases]
    return [pair for pair in pairs if pair[0] != pair[1]]


def misread(text: str) -> str:
    """Return a text whose UTF-8 was read as Windows-1252."""
    data = text.encode("utf-8")
    return "".join(bytes([b]).decode("cp1252") if b not in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else chr(b) for b in data)


def change_number(text: str) -> str:
    """Return a text with another last digit, or with a year if it has no number."""
    at = max((at for at, mark in enumerate(text) if mark.isdigit()), default=None)
    return f"{text} 2001" if at is None else f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}"


def shuffle_words(text: str) -> str:
    words = text.split()
    return " ".join(words[1:] + words[:1])


def repeat(pair: Pair, *, characters: int = 1_200) -> Pair:
    times = characters // min(map(len, pair)) + 1
    return " ".join([pair[0]] * times), " ".join([pair[1]] * times)


DIRT: dict[str, Callable[[Pair], Pair]] = {
    "empty": lambda pair: (pair[0], "…"),
    "too_long": repeat,
    "length_ratio": lambda pair: (
        pair[0],
        " ".join([pair[1], *["und so weiter und so fort"] * (len(pair[1]) // 5 + 3)]),
    ),
    "identical": lambda pair: (pair[0], pair[0]),
    "swapped": lambda pair: (pair[1], pair[0]),
    "wrong_language": lambda pair: (pair[0], shuffle_words(pair[0])),
    "wrong_script": lambda pair: (pair[0], pair[1].lower().translate(CYRILLIC)),
    "numbers": lambda pair: (pair[0], change_number(pair[1])),
    "encoding": lambda pair: (misread(pair[0]), misread(pair[1])),
    "markup": lambda pair: (f"<b>{pair[0]}</b>", f"{pair[1]}&nbsp;"),
    "controls": lambda pair: (f"{pair[0][:2]}\x07{pair[0][2:]}", pair[1]),
    "duplicate": lambda pair: pair,
    "near_duplicate": lambda pair: (f"{pair[0].upper()} !", pair[1].upper()),
}
"""Rule → what makes a clean pair into one that it should find."""
REPETITIONS = ("duplicate", "near_duplicate")
LONG = 20
"""Letters of a side whose language can be told."""


def is_suitable(rule: str, pair: Pair) -> bool:
    """Return whether the dirt of a rule can be seen in a pair at all."""
    if rule == "encoding":
        return not "".join(pair).isascii()
    letters = min(sum(map(str.isalpha, side)) for side in pair)
    if rule in ("swapped", "wrong_language"):
        return letters >= LONG and len(set(pair[0].split())) > 2
    return letters > 2


def spoil(pairs: Sequence[Pair], *, each: int, seed: int, kinds: Sequence[str] = tuple(DIRT)) -> list[Pair]:
    """Return the pairs with `each` of every kind of dirt, in random order; no pair is spoiled twice."""
    rng = random.Random(seed)  # noqa: S311
    order = list(range(len(pairs)))
    rng.shuffle(order)
    found, added = list(pairs), []
    for rule in kinds:
        chosen = [number for number in order if is_suitable(rule, pairs[number])][:each]
        if len(chosen) < each:
            raise ValueError(f"only {len(chosen)} pairs are suitable for {rule}")
        order = [number for number in order if number not in set(chosen)]
        for number in chosen:
            dirty = DIRT[rule](pairs[number])
            if rule in REPETITIONS:
                added.append(dirty)
            else:
                found[number] = dirty
    rng.shuffle(found)
    return found + added  # repetitions come after what they repeat
