"""Save a bundle as a model folder, and load it."""

from collections.abc import Mapping
from io import FileIO
from pathlib import Path

from safetensors import SafetensorError

from sightline.bundle.card import build_model_card
from sightline.bundle.contents import Bundle, Metadata, find_mismatches, get_metadata
from sightline.bundle.files import FILE_NAMES, find_model_folder, open_files, read_card
from sightline.bundle.manifest import (
    MAX_CONFIG_BYTES,
    Manifest,
    format_generation,
    format_manifest,
    read_generation,
    read_manifest,
    shorten,
)
from sightline.bundle.weights import has_non_finite, read_model, write_weights
from sightline.bundle.words import MAX_BYTES, find_problem, format_words, read_words
from sightline.decoding.settings import DecodingSettings
from sightline.errors import InputError, ModelFileError, SightlineError
from sightline.model.registry import Model
from sightline.storage import open_regular, read_bytes, read_limited, replace_folder
from sightline.text import Tokenizer

MAX_TOKENIZER_BYTES = 40_000_000
"""The largest in use have about 35 million bytes."""


def load(folder: Path | str) -> Bundle:
    """Load a model folder, or that of a run; any problem is a one-line `ModelFileError`."""
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
        words = load_words(files.get("words.txt"), folder / "words.txt")
        model = read_model(manifest.config, files["model.safetensors"], folder / "model.safetensors")
    return Bundle(model, tokenizer, generation, card, manifest.version, manifest.task_config, target_tokenizer, words)


def read_tokenizer(data: bytes | None, roles: Mapping[str, object] | None, path: Path) -> Tokenizer | None:
    """Return a tokenizer of the folder, or None if it has none."""
    if data is None:
        if roles is not None:
            raise ModelFileError(path, "is missing, although config.json lists its special tokens")
        return None
    return parse_tokenizer(data, path, roles=roles)


def load_words(file: FileIO | None, path: Path) -> tuple[str, ...]:
    """Read the word list, if there is one; it may begin with "<", by which other files are taken for a web page."""
    return () if file is None else read_words(read_bytes(file, path, max_bytes=MAX_BYTES), path)


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
    folder = Path(folder).resolve()
    check_destination(folder)
    for name, reason in find_mismatches(get_metadata(bundle)):
        raise ModelFileError(folder / name, f"was not written: it {reason}")
    if problem := find_problem(bundle.words):
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
    return texts | {name: tokenizer.to_json() for name, tokenizer in tokenizers.items() if tokenizer}


def write_files(texts: Mapping[str, str], model: Model, folder: Path) -> None:
    """Write every file of a model folder."""
    for name, text in texts.items():
        with (folder / name).open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    write_weights(model, folder / "model.safetensors", like=folder / "config.json")
