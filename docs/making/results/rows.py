"""The rows, in order of worth. What was tuned, was tuned on validation sets alone (docs/log.md says what was tried)."""

import math
from collections.abc import Mapping, Sequence
from itertools import product

from making.results.corpora import sentences_of_wikitext, two_parts_of_shakespeare
from making.results.row import Row, Training, Trial, seeds

MULTI30K = ("train", "val", "test_2016_flickr")


def files(pattern: str, **parts: Sequence[str]) -> tuple[str, ...]:
    """Return the names that a pattern gives with every combination of some parts."""
    return tuple(pattern.format(**dict(zip(parts, chosen, strict=True))) for chosen in product(*parts.values()))


TOKENISED = tuple(
    f"data.{name}={part}.lc.norm.tok.{language}"
    for name, part, language in (
        ("train", "train", "en"),
        ("train_target", "train", "de"),
        ("valid", "val", "en"),
        ("valid_target", "val", "de"),
    )
)
TOKENISED_TEST = "DATA/multi30k/tok/test_2016_flickr.lc.norm.tok"


def multi30k_tokenised(seed: int) -> Trial:
    """The model of Wu et al. 2021, with Muon, whose weights shrink, and agreement: both against learning by heart."""
    settings = (
        "data.folder=DATA/multi30k/tok", *TOKENISED, "tokenizer.vocab_size=10000",
        "training.max_epochs=20", "model.dropout=0.2", "training.agreement=3", "training.weight_decay=0.5",
        f"training.seed={seed}",
    )  # fmt: skip
    return Trial(
        f"seed {seed}",
        (Training(f"seed-{seed}", "multi30k", settings),),
        ("--source", f"{TOKENISED_TEST}.en", "--target", f"{TOKENISED_TEST}.de", "--tokenize", "none"),
    )


def multi30k_raw(source: str, target: str) -> Trial:
    """The recipe as it is shipped, in one direction."""
    turned = tuple(
        f"data.{name}={part}.{language}"
        for part, names in (("train", ("train", "train_target")), ("val", ("valid", "valid_target")))
        for name, language in zip(names, (source, target), strict=True)
    )
    test = f"DATA/multi30k/test_2016_flickr.{source}", f"DATA/multi30k/test_2016_flickr.{target}"
    return Trial(
        f"{source} → {target}",
        (Training(f"{source}-{target}", "multi30k", ("data.folder=DATA/multi30k", *turned)),),
        ("--source", test[0], "--target", test[1]),
    )


def shakespeare(name: str, folder: str, *settings: str) -> Trial:
    """Tiny Shakespeare, cut as nanoGPT cuts it."""
    files = ("data.folder=RUNS/shakespeare", "data.train=train.txt", "data.valid=val.txt")
    return Trial(
        name,
        (Training(folder, "shakespeare", (*files, *settings)),),
        ("--text", "RUNS/shakespeare/val.txt", "--documents", "file"),
    )


def dailydialog() -> Trial:
    """The chat recipe on other dialogues, with a small model and Muon, so that an hour is enough."""
    settings = (
        "data.folder=DATA/dailydialog", "data.train=train.jsonl", "data.valid=validation.jsonl", "data.columns=dialog",
        "model.size=tiny", "training.max_epochs=3", "training.optimizer=muon", "training.learning_rate=0.005",
        "training.average_decay=0.999", "training.best_by=loss",
    )  # fmt: skip
    test = ("--dialogues", "DATA/dailydialog/test.jsonl", "--columns", "dialog")
    return Trial("chat", (Training("chat", "chat", settings),), test)


MINI = ("model.preset=bert-mini", "model.positions=rotary")
BERT = Training(
    "pretrained",
    "masked-language-model",
    (
        "data.folder=RUNS/bert", "data.train=wikitext-train.txt", "data.valid=wikitext-valid.txt",
        *MINI, "tokenizer.vocab_size=8000", "training.optimizer=muon", "training.learning_rate=0.003",
        "training.weight_decay=0.1", "training.average_decay=0.999", "training.max_epochs=3",
    ),
)  # fmt: skip


def fine_tuned(task: str, *, pretrained: bool, seed: int) -> Trial:
    """A classifier that goes on from the pre-trained model, or one that has only its size and its tokenizer."""
    columns, *more = TASKS[task]
    goes_on = ("model.start=RUNS/bert/pretrained", "training.learning_rate=0.0007")
    start = goes_on if pretrained else (*MINI, "tokenizer.folder=RUNS/bert/pretrained")
    settings = (
        f"data.folder=DATA/{task}", "data.train=train.tsv", f"data.columns={columns}", *more, *start,
        f"training.max_epochs={EPOCHS[task]}", "training.batch_tokens=2048", f"training.seed={seed}",
    )  # fmt: skip
    pair = ["--pair"] if "data.classified=pair" in more else []
    how = "pre-trained" if pretrained else "from scratch"
    own = Training(f"{task}-{how.replace(' ', '-')}-{seed}", "classification", settings)
    return Trial(
        f"{task}, {how}, seed {seed}",
        (BERT, own) if pretrained else (own,),
        ("--labeled", f"DATA/{task}/dev.tsv", "--columns", columns, *pair),
        beforehand=() if pretrained else (BERT,),
    )


TASKS = {  # the columns, and what else is set
    "sst2": ("sentence,label",),
    # Of 3,668 pairs 37 are set aside: too few to choose a model by.
    "mrpc": ("#1 String,#2 String,Quality", "data.classified=pair", "training.best_by=last"),
}
EPOCHS = {"sst2": 1, "mrpc": 3}


def all_fine_tuned() -> tuple[Trial, ...]:
    """Both tasks, with and without what was learned before, five seeds each."""
    return tuple(
        fine_tuned(task, pretrained=pretrained, seed=seed)
        for task in TASKS
        for pretrained in (True, False)
        for seed in range(1, 6)
    )


def wikitext() -> Trial:
    """A language model of pieces of words, its perplexity stated for words.

    With most of its length as context: the published models remember all the text before a word.
    """
    settings = (
        "data.folder=DATA/wikitext2", "data.train=train.raw.txt", "data.valid=valid.raw.txt", "data.documents=file",
        "tokenizer.vocab_size=8000", "model.n_layers=4", "model.d_model=192", "model.n_heads=4", "model.d_ff=768",
        "model.max_length=256", "model.dropout=0.1", "model.positions=rotary", "training.optimizer=muon",
        "training.schedule=linear", "training.learning_rate=0.004", "training.final_learning_rate=0",
        "training.average_decay=0.999", "training.max_epochs=5",
    )  # fmt: skip
    test = ("--text", "DATA/wikitext2/test.raw.txt", "--documents", "file", "--context", "224")
    return Trial("word-level", (Training("pieces", "language-model", settings),), test)


def for_words_and_lines(scores: Mapping[str, object]) -> float:
    """Perplexity as word-level models state it: the end of a line is a word, whatever pieces a model spells with."""
    nats = float(str(scores["loss"])) * int(str(scores["tokens"]))
    return math.exp(nats / WORDS_AND_LINES)


WORDS_AND_LINES = 245_569
"""Of the test set of WikiText-2."""

ROWS = (
    Row(
        "multi30k-tok",
        "Multi30k en → de, lower-cased and tokenised, test_2016_flickr; 4+4 layers, 128 wide, 2.6 M parameters",
        "bleu",
        "41.02 (Wu et al. 2021, Transformer-tiny)",
        files("multi30k/tok/{part}.lc.norm.tok.{side}", part=MULTI30K, side=("en", "de")),
        seeds(multi30k_tokenised, n=3),
        also=("chrf",),
    ),
    Row(
        "multi30k",
        "Multi30k as it is written, test_2016_flickr; the recipe `multi30k`",
        "bleu",
        "",
        files("multi30k/{part}.{side}", part=MULTI30K, side=("en", "de")),
        (multi30k_raw("en", "de"), multi30k_raw("de", "en")),
        also=("chrf",),
    ),
    Row(
        "shakespeare",
        "tiny Shakespeare, a letter at a time, loss on the whole validation part",
        "loss",
        "1.88 (nanoGPT's CPU setting, on random parts of it); 1.4697 (its GPU setting, 6 layers, 384 wide)",
        ("tinyshakespeare/input.txt",),
        (
            shakespeare("nanoGPT's model and tokens", "nanogpt", "training.best_by=last"),
            shakespeare(
                "15 minutes, any recipe", "free", "model.d_model=192", "model.d_ff=768", "model.max_length=256",
                "model.positions=rotary", "model.dropout=0.1", "training.batch_tokens=4096", "training.max_steps=1400",
                "training.max_minutes=15", "training.best_by=last",
            ),
        ),
        two_parts_of_shakespeare,
        places=3,
    ),
    Row(
        "dailydialog",
        "DailyDialog, replies of the test set",
        "perplexity_per_word",
        "",
        files("dailydialog/{part}.jsonl", part=("train", "validation", "test")),
        (dailydialog(),),
    ),
    Row(
        "bert",
        "BERT-mini pre-trained on WikiText-2, then SST-2 and MRPC (their dev sets)",
        "accuracy",
        "85.9 and 71.8 (Turc et al. 2019, on GLUE's test sets, pre-trained on a thousand times the text)",
        files("{task}/{part}.tsv", task=("sst2", "mrpc"), part=("train", "dev"))
        + files("wikitext2/{part}.raw.txt", part=("train", "valid")),
        all_fine_tuned(),
        sentences_of_wikitext,
        also=("macro_f1",),
    ),
    Row(
        "wikitext2",
        "WikiText-2 language model, test set, perplexity for each word and line end (245,569)",
        "perplexity for words and lines",
        "65.8 (AWD-LSTM, Merity et al. 2018; 33 M parameters, and rare words are all the same word, `<unk>`)",
        files("wikitext2/{part}.raw.txt", part=("train", "valid", "test")),
        (wikitext(),),
        derive=for_words_and_lines,
    ),
)  # fmt: skip
