"""Save a bundle as a model folder and load it, with its word list (words.txt) and model card (README.md)."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from sightline import __version__
from sightline.bundle.builtin import find_builtin_model, list_builtin_models
from sightline.bundle.contents import Bundle, Metadata, find_mismatches, get_metadata
from sightline.bundle.manifest import (
    MAX_CONFIG_BYTES,
    Manifest,
    format_generation,
    format_manifest,
    format_training_facts,
    read_generation,
    read_manifest,
    read_training_facts,
    shorten,
)
from sightline.bundle.training_facts import TrainingFacts
from sightline.config import to_mapping
from sightline.data.tokenizers import Tokenizer
from sightline.decoding.settings import DecodingSettings
from sightline.errors import InputError, ModelFileError, SightlineError
from sightline.model.registry import family_of
from sightline.storage import current_folder, open_regular, read_bytes, read_limited, replace_folder

if TYPE_CHECKING:
    import torch

    from sightline.model.interfaces import Model

FILE_NAMES = (
    "config.json", "model.safetensors", "tokenizer.json", "target_tokenizer.json", "generation.json", "words.txt",
    "training.json", "README.md",
)  # fmt: skip

MAX_TOKENIZER_BYTES = 40_000_000
"""The largest in use have about 35 million bytes."""


def load(folder: Path | str, *, device: "torch.device | str" = "cpu") -> Bundle:
    """Load a model folder, that of a run, or a built-in model by its name, onto a device.

    Any problem is a one-line `ModelFileError`.
    """
    from sightline.bundle.weights import read_model

    folder = find_model_folder(Path(folder))
    with open_files(folder) as files:
        for name in ("config.json", "model.safetensors"):
            if name not in files:
                raise ModelFileError(folder / name, "is missing: the model folder is incomplete")
        data = {
            name: read_limited(
                file, folder / name, max_bytes=MAX_TOKENIZER_BYTES if "tokenizer" in name else MAX_CONFIG_BYTES
            )
            for name, file in files.items()
            if name.endswith(".json")
        }
        card = read_card(files["README.md"], folder / "README.md") if "README.md" in files else ""
        manifest = read_manifest(data["config.json"], folder / "config.json")
        generation = DecodingSettings()
        if "generation.json" in data:
            generation = read_generation(data["generation.json"], folder / "generation.json")
        tokenizer, target_tokenizer = (
            read_tokenizer(data.get(name), roles, folder / name)
            for name, roles in (
                ("tokenizer.json", manifest.special_tokens),
                ("target_tokenizer.json", manifest.target_special_tokens),
            )
        )
        metadata = Metadata(manifest.config, tokenizer, target_tokenizer, generation, manifest.task_config)
        for name, reason in find_mismatches(metadata):
            raise ModelFileError(folder / name, reason)
        words = read_words_file(files.get("words.txt"), folder / "words.txt")
        training = TrainingFacts()
        if "training.json" in data:
            training = read_training_facts(data["training.json"], folder / "training.json")
        model = read_model(manifest.config, files["model.safetensors"], folder / "model.safetensors", device=device)
    return Bundle(
        model, tokenizer, generation, card, manifest.version, manifest.task_config, target_tokenizer, words, training
    )


def find_model_folder(folder: Path) -> Path:
    """Return the folder of the model: `model` of a run folder, that of a built-in model, else the folder itself.

    Anything of one's own precedes a built-in model of the same name: a model, but also a run that has none yet.
    """
    for path in (folder, folder / "model"):
        if os.path.lexists(current_folder(path) / "config.json"):
            return path
    return folder if is_occupied(folder) else find_builtin_model(folder) or folder


def is_occupied(folder: Path) -> bool:
    """Return whether a file, or a folder that is not empty, has this name."""
    try:
        return next(folder.iterdir(), None) is not None
    except NotADirectoryError:
        return True
    except (OSError, ValueError):
        return False


OPEN_ATTEMPTS = 10


@contextmanager
def open_files(folder: Path) -> Iterator[dict[str, FileIO]]:
    """Open all files of a model that exist, all from the same save, even while another save is replacing them."""
    for _ in range(OPEN_ATTEMPTS):
        current = current_folder(folder)
        before = folder_identity(current)
        with ExitStack() as stack:
            files = {name: stack.enter_context(file) for name in FILE_NAMES if (file := open_regular(current / name))}
            if before is not None and folder_identity(current) == before and current_folder(folder) == current:
                yield files
                return
    raise ModelFileError(folder, explain_absence(folder))


def folder_identity(folder: Path) -> tuple[int, int, int] | None:
    """Return values that distinguish a folder from its replacement."""
    try:
        status = folder.stat()
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino, status.st_mtime_ns) if stat.S_ISDIR(status.st_mode) else None


def explain_absence(folder: Path) -> str:
    """Return why a model folder cannot be read."""
    try:
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        names = ", ".join(list_builtin_models()) if len(folder.parts) == 1 else ""
        return "no such model folder" + (f"; the built-in models are {names}" if names else "")
    except ValueError:
        return "is not a valid folder name"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "is being replaced faster than it can be read: try again" if is_folder else "is a file, not a model folder"


MAX_CARD_BYTES = 1 << 20


def read_card(file: FileIO, path: Path) -> str:
    """Return the beginning of a README, whatever it contains: it is only for readers."""
    try:
        return (file.read(MAX_CARD_BYTES) or b"").decode("utf-8", errors="replace")
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from None


def read_tokenizer(data: bytes | None, roles: Mapping[str, object] | None, path: Path) -> Tokenizer | None:
    """Return a tokenizer of the folder, or None if it has none."""
    if data is None:
        if roles is not None:
            raise ModelFileError(path, "is missing, although config.json lists its special tokens")
        return None
    return parse_tokenizer(data, path, roles=roles)


def load_tokenizer(path: Path | str) -> Tokenizer:
    """Load any tokenizer.json; the roles of its special tokens are recognized by their common names."""
    path = Path(path)
    if (file := open_regular(path)) is None:
        raise ModelFileError(path, "is missing")
    with file:
        return parse_tokenizer(read_limited(file, path, max_bytes=MAX_TOKENIZER_BYTES), path, roles=None)


def parse_tokenizer(data: bytes, path: Path, *, roles: Mapping[str, object] | None) -> Tokenizer:
    """Build a tokenizer; errors name the file."""
    try:
        return Tokenizer.from_json(data, roles=roles)
    except InputError as error:
        raise ModelFileError(path, shorten(str(error))) from None


def save(bundle: Bundle, folder: Path | str) -> None:
    """Save a bundle as a model folder, atomically replacing an existing model."""
    from sightline.bundle.weights import has_non_finite

    folder = Path(folder).resolve()
    check_destination(folder)
    for name, reason in find_mismatches(get_metadata(bundle)):
        raise ModelFileError(folder / name, f"was not written: it {reason}")
    if problem := find_words_problem(bundle.words):
        raise ModelFileError(folder / "words.txt", f"was not written: {problem}")
    texts = format_files(bundle)
    if (size := len(texts["config.json"].encode("utf-8"))) > MAX_CONFIG_BYTES:
        raise ModelFileError(folder / "config.json", f"was not written: its {size:,} bytes exceed {MAX_CONFIG_BYTES:,}")
    for name, parameter in bundle.model.named_parameters():
        if has_non_finite(parameter.detach()):
            raise SightlineError(f"the model was not saved: its weight {name} holds NaN or infinity")
    try:
        with replace_folder(folder) as new:
            write_files(texts, bundle.model, new)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SightlineError(f"could not save the model as {folder}: {reason}") from error


def check_destination(folder: Path) -> None:
    """Refuse to replace anything but a model folder or an empty one: its contents would be lost."""
    if not folder.name or (folder.exists() and not folder.is_dir()):
        raise ModelFileError(folder, "cannot be replaced by a model folder: choose another name")
    others = sorted(path.name for path in folder.iterdir() if path.name not in FILE_NAMES) if folder.exists() else []
    if others:
        raise ModelFileError(
            folder, f"contains files that are not part of a model ({others[0]}): choose another folder"
        )


def format_files(bundle: Bundle) -> dict[str, str]:
    """Return the contents of every file but the weights."""
    tokenizers = {"tokenizer.json": bundle.tokenizer, "target_tokenizer.json": bundle.target_tokenizer}
    roles, target_roles = (tokenizer.roles if tokenizer else None for tokenizer in tokenizers.values())
    manifest = Manifest(
        bundle.model.config, special_tokens=roles, target_special_tokens=target_roles, task_config=bundle.task_config
    )
    texts = {
        "config.json": format_manifest(manifest),
        "generation.json": format_generation(bundle.generation),
        "README.md": bundle.card or build_model_card(bundle.model, bundle.tokenizer),
    }
    if bundle.words:
        texts["words.txt"] = format_words(bundle.words)
    if bundle.training != TrainingFacts():
        texts["training.json"] = format_training_facts(bundle.training)
    return texts | {name: tokenizer.to_json() for name, tokenizer in tokenizers.items() if tokenizer}


def write_files(texts: Mapping[str, str], model: "Model", folder: Path) -> None:
    """Write every file of a model folder."""
    from sightline.bundle.weights import write_weights

    for name, text in texts.items():
        with (folder / name).open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    write_weights(model, folder / "model.safetensors", like=folder / "config.json")


MAX_WORDS = 200_000
MAX_WORDS_BYTES = 20_000_000
MAX_WORD_LENGTH = 1_000
CONTROLS = frozenset(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))


def read_words_file(file: FileIO | None, path: Path) -> tuple[str, ...]:
    """Read words.txt, if there is one; it may begin with "<", by which other files are taken for a web page."""
    return () if file is None else read_words(read_bytes(file, path, max_bytes=MAX_WORDS_BYTES), path)


def read_words(data: bytes, path: Path) -> tuple[str, ...]:
    """Return the words of words.txt, refusing what is not a list of words."""
    if not data:
        raise ModelFileError(path, "is empty: a model without words has no such file")
    if data.count(b"\n") > MAX_WORDS:
        raise ModelFileError(path, f"has more than {MAX_WORDS:,} lines")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelFileError(path, f"is not text: byte {error.start:,} is not UTF-8") from None
    *words, rest = text.split("\n")
    if rest:
        raise ModelFileError(path, "does not end with a line break: it is truncated")
    if problem := find_words_problem(words):
        raise ModelFileError(path, problem)
    return tuple(words)


def format_words(words: Sequence[str]) -> str:
    """Return the text of words.txt."""
    return "".join(f"{word}\n" for word in words)


def find_words_problem(words: Sequence[str]) -> str | None:
    """Return why these are not a valid word list, or None."""
    if len(words) > MAX_WORDS:
        return f"has {len(words):,} words, more than {MAX_WORDS:,}"
    for number, word in enumerate(words, start=1):
        if problem := find_word_problem(word):
            return f"line {number:,} {problem}"
    if len(set(words)) < len(words):
        return "contains a word twice"
    size = len(format_words(words).encode("utf-8"))
    return f"has {size:,} bytes, more than {MAX_WORDS_BYTES:,}" if size > MAX_WORDS_BYTES else None


def find_word_problem(word: str) -> str | None:
    """Return why this is not a valid word, or None."""
    if not word:
        return "is empty"
    if len(word) > MAX_WORD_LENGTH:
        return f"has {len(word):,} characters: that is not a word"
    if word.split() != [word] or not CONTROLS.isdisjoint(word):
        return f"is not a single word: {word[:60]!r}"
    return "contains a lone surrogate" if any("\ud800" <= c <= "\udfff" for c in word) else None


def build_model_card(
    model: "Model",
    tokenizer: Tokenizer | None = None,
    *,
    title: str = "A Sightline model",
    created: date | None = None,
    sections: Mapping[str, str] | None = None,
) -> str:
    """Describe a model in Markdown: architecture, size, settings and versions, followed by `sections`."""
    import torch

    family = family_of(model.config)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    vocabulary = f", {tokenizer.vocab_size:,} tokens" if tokenizer else ""
    rows = "\n".join(f"| {name} | {format_value(value)} |" for name, value in to_mapping(model.config).items())
    day = f" on {created.isoformat()}" if created else ""
    more = "".join(f"\n## {name}\n\n{text.strip()}\n" for name, text in (sections or {}).items())
    return (
        f"# {title}\n\n"
        f"{family.title}: {parameters:,} parameters{vocabulary}.\n\n"
        f"| setting | value |\n|---|---|\n| architecture | {family.name} |\n{rows}\n\n"
        f"Created{day} with Sightline {__version__} and torch {torch.__version__}.\n\n"
        f"Run `sightline info` on this folder for details.\n{more}"
    )


def format_value(value: object) -> str:
    """Format a value for readers."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:,}" if isinstance(value, int | float) else str(value)
