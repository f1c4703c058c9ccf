"""Score a model on a test set, by the metrics of its task."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sightline.errors import InputError
from sightline.tasks.loading import load
from sightline.tasks.registry import task_of
from sightline.tasks.task import EvaluationOptions

if TYPE_CHECKING:
    from sightline.evaluation.report import Report
    from sightline.pipelines.pipeline import Pipeline

BleuTokenizer = Literal["13a", "none", "intl", "zh", "char"]
DocumentEnd = Literal["blank", "line", "file"]


def evaluate(
    model: "Pipeline | Path | str",
    *,
    source: Path | str | None = None,
    target: Path | str | None = None,
    tsv: Path | str | None = None,
    text: Path | str | None = None,
    dialogues: Path | str | None = None,
    labeled: Path | str | None = None,
    columns: tuple[str, ...] = (),
    pair: bool = False,
    limit: int | None = None,
    to: str | None = None,
    from_: str | None = None,
    tokenize: BleuTokenizer | None = None,
    documents: DocumentEnd | None = None,
    context: int | None = None,
    output: Path | str | None = None,
    engine: str = "torch",
    **decoding: Any,
) -> "Report":
    """Score a model, or the one in a folder, on one test set: a file of the kind its task has.

    `source` and `target` or `tsv` for translation (BLEU, chrF), `dialogues` for chat (perplexity), `text` for language
    models (perplexity, bits per character) and masked words (accuracy), `labeled` for classification (accuracy, F1).
    `decoding` overrides decoding settings (`beam_size=4`). The translations, replies or predicted classes are the
    `outputs` of the report, and are written to the file `output`, one per line, in the order of the test set. `engine`
    generates them, if a folder is given (see `load`).
    """
    from sightline.evaluation.evaluation_set import EvaluationSet

    options = EvaluationOptions(to, from_, tokenize, documents, context, decoding)
    examples = EvaluationSet.of(
        {"source": source, "target": target, "tsv": tsv, "text": text, "dialogues": dialogues, "labeled": labeled},
        columns=columns,
        pair=pair,
        limit=limit,
        options={
            **{name: value for name, value in vars(options).items() if name != "decoding"},
            **decoding,
            "output": output,
        },
    )
    if output is not None and (Path(output).is_dir() or not Path(output).resolve().parent.is_dir()):
        raise InputError(f"{output} is a folder, or in none: name a file in a folder that exists", option="output")
    pipeline = load(model, engine=engine) if isinstance(model, Path | str) else model
    task = task_of(pipeline)
    kinds = task.evaluation_sets if task else ()
    if task is None or examples.kind not in kinds:
        advice = f"give {' or '.join(kinds)}" if kinds else "it has no head that could be scored"
        raise InputError(f"not for this model: {advice}", option=examples.kind)
    report = task.evaluate(pipeline, examples, options)
    if output is not None:
        report.write_outputs(Path(output))
    return report
