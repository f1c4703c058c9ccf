"""`sightline bench startup`: commands in fresh interpreters: what an import takes, and the first translation of all."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sightline.bench.contenders import Plan, Result
from sightline.bench.limits import describe_machine
from sightline.bench.measure import time_interleaved
from sightline.bench.report import Report
from sightline.bench.shapes import Shape, random_model
from sightline.errors import SightlineError

IMPORTS = {
    "import sightline": ["-c", "import sightline"],
    "sightline --help": ["-m", "sightline", "--help"],
    "python, nothing else": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
}
"""Without a model."""

HUGGING_FACE = """
import sys, torch
from tokenizers import Tokenizer
from transformers import MarianMTModel
tokenizer = Tokenizer.from_file(sys.argv[1] + "/tokenizer.json")
model = MarianMTModel.from_pretrained(sys.argv[1] + "/hf")
ids = torch.tensor([tokenizer.encode("hello").ids])
print(tokenizer.decode(model.generate(ids, max_new_tokens=20, num_beams=4)[0].tolist()))
"""
CTRANSLATE2 = """
import sys, ctranslate2
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1] + "/tokenizer.json")
model = ctranslate2.Translator(sys.argv[1] + "/ct2", compute_type="int8")
words = [str(number) for number in tokenizer.encode("hello").ids]
found = model.translate_batch([words], beam_size=4, max_decoding_length=20)[0].hypotheses[0]
print(tokenizer.decode([int(word) for word in found if word.isdigit()]))
"""


def fresh_interpreter(arguments: list[str]) -> Callable[[], object]:
    """Return a function that runs python with these arguments and waits for it."""
    command = [sys.executable, *arguments]

    def run() -> None:
        done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - our own words
        if done.returncode:
            raise SightlineError(f"python {' '.join(arguments[:2])} failed: {done.stderr.strip()[-300:]}")

    return run


@contextmanager
def first_translations() -> Iterator[dict[str, list[str]]]:
    """Yield commands that translate one word with a tiny model, cold: ours, and scripts of other libraries."""
    from sightline.bundle import Bundle, TaskConfig, save
    from sightline.data.tokenizers import train_characters
    from sightline.decoding import DecodingSettings

    tokenizer = train_characters(["hello"])
    shape = Shape("tiny", vocabulary=tokenizer.vocab_size)
    model: Any = random_model(shape)
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        settings = DecodingSettings(max_new_tokens=20, beam_size=4)
        save(Bundle(model, tokenizer, settings, task_config=TaskConfig("translation")), folder / "ours")
        (folder / "tokenizer.json").write_bytes((folder / "ours" / "tokenizer.json").read_bytes())
        commands = {"sightline translate": ["-m", "sightline", "translate", str(folder / "ours"), "hello"]}
        if find_spec("transformers"):
            import transformers

            from sightline.bench.peers.huggingface import same_marian

            saved: Any = same_marian(shape)
            transformers.utils.logging.disable_progress_bar()
            saved.save_pretrained(folder / "hf")
            commands["HF Marian, a script"] = ["-c", HUGGING_FACE, root]
        if find_spec("ctranslate2"):
            from sightline.bench.peers.ctranslate2 import save as save_theirs

            save_theirs(model, folder / "ct2")
            commands["CTranslate2, a script"] = ["-c", CTRANSLATE2, root]
        yield commands


def bench_startup(plan: Plan) -> Report:
    """Time the start of a new interpreter for each command, to compare ours with the others."""
    machine = describe_machine()
    with first_translations() as translating:
        contenders = {name: fresh_interpreter(words) for name, words in (translating | IMPORTS).items()}
        timings = time_interleaved(
            contenders,
            rounds=plan.rounds,
            warm_up=1,
            after_round=lambda number: plan.note(f"round {number + 1} of {plan.rounds}"),
        )
    results = [Result(one.name, timing=one, is_peer=one.name not in IMPORTS) for one in timings]
    return Report("startup", "Start-up: one fresh interpreter each", results, machine)
