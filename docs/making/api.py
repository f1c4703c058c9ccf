"""`make docs-api`: write docs/api.md from the signatures and docstrings of what `sightline` exports.

A test compares the file with what this makes, so the page cannot be out of date.
"""

import inspect
import re
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import sightline

PAGE = Path(__file__).parents[1] / "api.md"

INTRODUCTION = """# Python API

Everything a user needs is importable from `sightline`. This page is made from the docstrings (`make docs-api`), and a
test keeps it up to date.

```python
import sightline

model = sightline.load("runs/en-de")  # the pipeline for the model's task
model.translate(["How are you?"])
sightline.evaluate(model, source="test.en", target="test.de")
model.trace("How are you?")  # what the model did; draws itself in a notebook
```
"""

GROUPS = {
    "Functions": ("load", "train", "evaluate"),
    "Pipelines": ("Pipeline", "Translator", "Chat", "Conversation", "Generator", "Filler", "Classifier"),
    "Results": ("Generation", "Translation", "Classification", "Trace", "Report", "Result"),
    "Settings": ("DecodingSettings", "TrainingSettings"),
    "Models": (
        "build", "preset", "ModelConfig", "TransformerConfig", "BertConfig", "GPTConfig", "Hooks", "ActivationCache",
        "ablate_heads",
    ),
    "Tokenizers": ("Tokenizer", "train_tokenizer"),
    "Errors": ("SightlineError", "RefusedError", "SettingsError", "InputError", "JSONError", "ModelFileError"),
}  # fmt: skip

METHODS = {
    "Pipeline": ("settings", "embed", "word_vectors", "neighbors", "trace", "task", "languages"),
    "Translator": ("translate", "translations", "token_log_probs", "trace"),
    "Chat": ("reply", "replies", "conversation", "context_turns", "trace"),
    "Conversation": ("say",),
    "Generator": ("generate", "stream", "continuations", "log_likelihoods", "trace"),
    "Filler": ("fill", "fillings", "trace"),
    "Classifier": ("classify", "tag", "tags", "trace"),
    "Result": ("load",),
    "Report": ("lines",),
    "Trace": (
        "names", "attentions", "attention", "axes", "words", "log_probability", "to_json", "save", "load",
    ),
    "Hooks": (),
    "ActivationCache": (),
    "Tokenizer": ("encode", "encode_batch", "decode", "token_text", "special_id", "to_json", "from_json"),
}  # fmt: skip
"""What users call of each class; the rest are steps of these. Settings and errors have nothing to call."""


def build_page() -> str:
    """Return the text of docs/api.md."""
    parts = [INTRODUCTION]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        parts += [describe(name, getattr(sightline, name)) for name in names]
    return "\n".join(parts).rstrip() + "\n"


def describe(name: str, thing: Any) -> str:
    """Describe a function or a class."""
    if not inspect.isclass(thing):
        return f"### `{name}{signature_of(thing)}`\n\n{docstring_of(thing)}\n"
    bases = [base.__name__ for base in thing.__bases__ if base.__name__ in sightline.__all__]
    inherits = f" Inherits from {', '.join(f'`{base}`' for base in bases)}." if bases else ""
    lines = [f"### `{name}`\n", docstring_of(thing) + inherits + "\n"]
    if is_dataclass(thing):
        own = [field for field in fields(thing) if field.name in vars(thing).get("__annotations__", {})]
        lines += [describe_field(field) for field in own if not field.name.startswith("_")]
    lines += [describe_method(entry, find_member(thing, entry)) for entry in METHODS.get(name, ())]
    return "\n".join(line for line in lines if line).rstrip() + "\n"


def describe_field(field: Any) -> str:
    """Describe a field of a dataclass: type, default, help."""
    default = "" if field.default is MISSING else f" = {field.default!r}"
    help_text = field.metadata.get("help", "")
    return f"- `{field.name}: {plain_type(field.type)}{default}`" + (f": {help_text}" if help_text else "")


def describe_method(name: str, member: Any) -> str:
    """Describe a method or a property by its first sentence."""
    if isinstance(member, property):
        return f"- `{name}`: {first_paragraph(member)}"
    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    return f"- `{name}{signature_of(function)}`: {first_paragraph(function)}"


def find_member(thing: type, name: str) -> Any:
    """Return a method or property as the class that defines it holds it."""
    return next(vars(kind)[name] for kind in thing.__mro__ if name in vars(kind))


def signature_of(thing: Any) -> str:
    """Return a signature without `self`, with short types."""
    found = inspect.signature(thing)
    kept = [parameter for name, parameter in found.parameters.items() if name not in ("self", "cls")]
    return plain_type(str(found.replace(parameters=kept)))


def plain_type(kind: Any) -> str:
    """Return a type as it is written: without module names and quotes, the same in every version of Python."""
    text = kind.__name__ if isinstance(kind, type) else str(kind)
    text = re.sub(r"\b(?:[a-z_][a-z_0-9]*\.)+([A-Za-z_])", r"\1", text)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text).replace("NoneType", "None")
    while (start := text.find("Optional[")) >= 0:
        end = closing_bracket(text, start + len("Optional"))
        text = f"{text[:start]}{text[start + len('Optional[') : end]} | None{text[end + 1 :]}"
    return text


def closing_bracket(text: str, start: int) -> int:
    """Return where the bracket that opens at `start` closes."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"[": 1, "]": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError(text)


def docstring_of(thing: Any) -> str:
    """Return the docstring, its paragraphs joined to lines."""
    paragraphs = (inspect.getdoc(thing) or "").split("\n\n")
    return "\n\n".join(
        paragraph if paragraph.startswith(" ") else " ".join(paragraph.split()) for paragraph in paragraphs
    )


def first_paragraph(thing: Any) -> str:
    """Return the first paragraph of a docstring."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(build_page(), encoding="utf-8")
