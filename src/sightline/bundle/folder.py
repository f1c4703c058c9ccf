"""Save a bundle as a model folder, and load it."""

from collections.abc import Mapping
from io import FileIO
from pathlib import Path

from safetensors import SafetensorError

from sightline.bundle.atomic import replace_folder
from sightline.bundle.card import model_card
from sightline.bundle.contents import Bundle, Facts, disagreements, facts_of
from sightline.bundle.manifest import (
    LARGEST,
    Manifest,
    generation_text,
    manifest_text,
    read_generation,
    read_manifest,
    shortened,
)
from sightline.bundle.source import (
    FILE_NAMES,
    model_place,
    open_regular,
    opened_files,
    read_all,
    read_bytes,
    read_card,
)
from sightline.bundle.weights import not_finite, read_model, write_weights
from sightline.bundle.words import MOST_BYTES, problem_with, read_words, words_text
from sightline.decoding.settings import DecodingSettings
from sightline.errors import InputError, ModelFileError, SightlineError
from sightline.model.registry import Model
from sightline.text import Tokenizer

LARGEST_TOKENIZER = 40_000_000
"""The largest in use have some 35 million bytes."""


def load(folder: Path | str) -> Bundle:
    """Load a model folder, or that of a run; whatever is wrong with it is a `ModelFileError` of one line."""
    folder = model_place(Path(folder))
    with opened_files(folder) as files:
        for name in ("config.json", "model.safetensors"):
            if name not in files:
                raise ModelFileError(folder / name, "is missing: this is not a complete model folder")
        data = {
            name: read_all(file, folder / name, most=LARGEST_TOKENIZER if "tokenizer" in name else LARGEST)
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
        facts = Facts(manifest.config, tokenizer, target_tokenizer, generation, manifest.purpose)
        for name, reason in disagreements(facts):
            raise ModelFileError(folder / name, reason)
        words = load_words(files.get("words.txt"), folder / "words.txt")
        model = read_model(manifest.config, files["model.safetensors"], folder / "model.safetensors")
    return Bundle(model, tokenizer, generation, card, manifest.version, manifest.purpose, target_tokenizer, words)


def read_tokenizer(data: bytes | None, roles: Mapping[str, object] | None, path: Path) -> Tokenizer | None:
    """Read a tokenizer of the folder, if it has one."""
    if data is None:
        if roles is not None:
            raise ModelFileError(path, "is missing, though config.json names its special tokens")
        return None
    return parse_tokenizer(data, path, roles=roles)


def load_words(file: FileIO | None, path: Path) -> tuple[str, ...]:
    """Read the folder's list of words, if it has one; "<", at which other files are taken for a web page, is a word."""
    return () if file is None else read_words(read_bytes(file, path, most=MOST_BYTES), path)


def load_tokenizer(path: Path | str) -> Tokenizer:
    """Load a tokenizer.json of any origin; the roles of its special tokens are found by their usual names."""
    path = Path(path)
    if (file := open_regular(path)) is None:
        raise ModelFileError(path, "is missing")
    with file:
        return parse_tokenizer(read_all(file, path, most=LARGEST_TOKENIZER), path, roles=None)


def parse_tokenizer(data: bytes, path: Path, *, roles: Mapping[str, object] | None) -> Tokenizer:
    """Build a tokenizer, naming the file if it cannot be one."""
    try:
        return Tokenizer.from_json(data, roles=roles)
    except InputError as error:
        raise ModelFileError(path, shortened(str(error))) from None


def save(bundle: Bundle, folder: Path | str) -> None:
    """Save a bundle as a model folder, in the place of a model that is there: at every instant one of them loads."""
    folder = Path(folder).resolve()
    check_target(folder)
    for name, reason in disagreements(facts_of(bundle)):
        raise ModelFileError(folder / name, f"is not written: it {reason}")
    if problem := problem_with(bundle.words):
        raise ModelFileError(folder / "words.txt", f"is not written: {problem}")
    texts = texts_of(bundle)
    if (size := len(texts["config.json"].encode("utf-8"))) > LARGEST:
        raise ModelFileError(folder / "config.json", f"is not written: its {size:,} bytes are more than {LARGEST:,}")
    for name, parameter in bundle.model.named_parameters():
        if not_finite(parameter.detach()):
            raise SightlineError(f"the model is not saved: its weight {name} holds NaN or infinity")
    try:
        replace_folder(folder, lambda place: write_files(texts, bundle.model, place))
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SightlineError(f"could not save the model as {folder}: {reason}") from error


def check_target(folder: Path) -> None:
    """Refuse to replace anything but a model folder or an empty one: what is in it would be gone."""
    if not folder.name or (folder.exists() and not folder.is_dir()):
        raise ModelFileError(folder, "cannot be replaced by a model folder: choose another name")
    others = sorted(path.name for path in folder.iterdir() if path.name not in FILE_NAMES) if folder.exists() else []
    if others:
        raise ModelFileError(folder, f"holds what is not part of a model ({others[0]}): choose another folder")


def texts_of(bundle: Bundle) -> dict[str, str]:
    """Return the contents of every file but the weights."""
    tokenizers = {"tokenizer.json": bundle.tokenizer, "target_tokenizer.json": bundle.target_tokenizer}
    roles, target_roles = (tokenizer.roles if tokenizer else None for tokenizer in tokenizers.values())
    manifest = Manifest(
        bundle.model.config, special_tokens=roles, target_special_tokens=target_roles, purpose=bundle.purpose
    )
    texts = {
        "config.json": manifest_text(manifest),
        "generation.json": generation_text(bundle.generation),
        "README.md": bundle.card or model_card(bundle.model, bundle.tokenizer),
    }
    if bundle.words:
        texts["words.txt"] = words_text(bundle.words)
    return texts | {name: tokenizer.to_json() for name, tokenizer in tokenizers.items() if tokenizer}


def write_files(texts: Mapping[str, str], model: Model, place: Path) -> None:
    """Write every file of a model folder."""
    for name, text in texts.items():
        with (place / name).open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    write_weights(model, place / "model.safetensors", like=place / "config.json")
