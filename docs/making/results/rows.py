"""The rows, most important first. Tuning used validation sets only (docs/log.md lists what was tried)."""

import math
from collections.abc import Mapping, Sequence
from itertools import product

from making.results.corpora import split_shakespeare, split_wikitext_sentences
from making.results.row import Row, Training, Trial, seeds

MULTI30K = ("train", "val", "test_2016_flickr")


def files(pattern: str, **parts: Sequence[str]) -> tuple[str, ...]:
    """Return the names that a pattern gives for every combination of parts."""
    return tuple(pattern.format(**dict(zip(parts, chosen, strict=True))) for chosen in product(*parts.values()))


TOKENIZED = tuple(
    f"data.{name}={part}.lc.norm.tok.{language}"
    for name, part, language in (
        ("train", "train", "en"),
        ("train_target", "train", "de"),
        ("valid", "val", "en"),
        ("valid_target", "val", "de"),
    )
)
TOKENIZED_TEST = "DATA/multi30k/tok/test_2016_flickr.lc.norm.tok"


def multi30k_tokenized(seed: int) -> Trial:
    """Return the model of Wu et al. 2021, with Muon, weight decay and R-Drop against overfitting."""
    settings = (
        "data.folder=DATA/multi30k/tok", *TOKENIZED, "tokenizer.vocab_size=10000",
        "training.max_epochs=20", "model.dropout=0.2", "training.r_drop=3", "training.weight_decay=0.5",
        f"training.seed={seed}",
    )  # fmt: skip
    return Trial(
        f"seed {seed}",
        (Training(f"seed-{seed}", "multi30k", settings),),
        ("--source", f"{TOKENIZED_TEST}.en", "--target", f"{TOKENIZED_TEST}.de", "--tokenize", "none"),
    )


def multi30k_raw(source: str, target: str) -> Trial:
    """Return the recipe as shipped, in one direction."""
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
    """Return tiny Shakespeare, split as in nanoGPT."""
    files = ("data.folder=RUNS/shakespeare", "data.train=train.txt", "data.valid=val.txt")
    return Trial(
        name,
        (Training(folder, "shakespeare", (*files, *settings)),),
        ("--text", "RUNS/shakespeare/val.txt", "--documents", "file"),
    )


def dailydialog() -> Trial:
    """Return the chat recipe on other dialogues, with a small model and Muon to train within an hour."""
    settings = (
        "data.folder=DATA/dailydialog", "data.train=train.jsonl", "data.valid=validation.jsonl", "data.columns=dialog",
        "model.size=tiny", "training.max_epochs=3", "training.optimizer=muon", "training.learning_rate=0.005",
        "training.ema_decay=0.999", "training.best_metric=loss",
    )  # fmt: skip
    test = ("--dialogues", "DATA/dailydialog/test.jsonl", "--columns", "dialog")
    return Trial("chat", (Training("chat", "chat", settings),), test)


MINI = ("model.preset=bert-mini", "model.positions=rope")
BERT = Training(
    "pretrained",
    "masked-language-model",
    (
        "data.folder=RUNS/bert", "data.train=wikitext-train.txt", "data.valid=wikitext-valid.txt",
        *MINI, "tokenizer.vocab_size=8000", "training.optimizer=muon", "training.learning_rate=0.003",
        "training.weight_decay=0.1", "training.ema_decay=0.999", "training.max_epochs=3",
    ),
)  # fmt: skip


def fine_tuned(task: str, *, pretrained: bool, seed: int) -> Trial:
    """Return a classifier fine-tuned from the pre-trained model, or trained from scratch with its tokenizer."""
    columns, *more = TASKS[task]
    fine_tuning = ("model.init_from=RUNS/bert/pretrained", "training.learning_rate=0.0007")
    start = fine_tuning if pretrained else (*MINI, "tokenizer.path=RUNS/bert/pretrained")
    settings = (
        f"data.folder=DATA/{task}", "data.train=train.tsv", f"data.columns={columns}", *more, *start,
        f"training.max_epochs={EPOCHS[task]}", "training.batch_tokens=2048", f"training.seed={seed}",
    )  # fmt: skip
    pair = ["--pair"] if "data.label_level=pair" in more else []
    how = "pre-trained" if pretrained else "from scratch"
    own = Training(f"{task}-{how.replace(' ', '-')}-{seed}", "classification", settings)
    return Trial(
        f"{task}, {how}, seed {seed}",
        (BERT, own) if pretrained else (own,),
        ("--labeled", f"DATA/{task}/dev.tsv", "--columns", columns, *pair),
        prerequisites=() if pretrained else (BERT,),
    )


TASKS = {  # the columns, and what else is set
    "sst2": ("sentence,label",),
    # Of 3,668 pairs 37 are held out: too few to select a model by.
    "mrpc": ("#1 String,#2 String,Quality", "data.label_level=pair", "training.best_metric=last"),
}
EPOCHS = {"sst2": 1, "mrpc": 3}


def all_fine_tuned() -> tuple[Trial, ...]:
    """Return both tasks, with and without pre-training, five seeds each."""
    return tuple(
        fine_tuned(task, pretrained=pretrained, seed=seed)
        for task in TASKS
        for pretrained in (True, False)
        for seed in range(1, 6)
    )


def wikitext() -> Trial:
    """Return a subword language model whose perplexity is stated per word.

    Evaluated with most of its length as context: the published models are recurrent over the whole text.
    """
    settings = (
        "data.folder=DATA/wikitext2", "data.train=train.raw.txt", "data.valid=valid.raw.txt",
        "data.document_separator=file", "tokenizer.vocab_size=8000", "model.n_layers=4", "model.d_model=192",
        "model.n_heads=4", "model.d_ff=768",
        "model.max_length=256", "model.dropout=0.1", "model.positions=rope", "training.optimizer=muon",
        "training.schedule=linear", "training.learning_rate=0.004", "training.min_lr_ratio=0",
        "training.ema_decay=0.999", "training.max_epochs=5",
    )  # fmt: skip
    test = ("--text", "DATA/wikitext2/test.raw.txt", "--documents", "file", "--context", "224")
    return Trial("word-level", (Training("pieces", "language-model", settings),), test)


def word_level_perplexity(scores: Mapping[str, object]) -> float:
    """Return the perplexity per word and line end, as word-level models state it."""
    nats = float(str(scores["loss"])) * int(str(scores["tokens"]))
    return math.exp(nats / WORDS_AND_LINES)


WORDS_AND_LINES = 245_569
"""In the test set of WikiText-2."""

ROWS = (
    Row(
        "multi30k-tok",
        "Multi30k en → de, lowercased and tokenized, test_2016_flickr; 4+4 layers, d_model 128, 2.6 M parameters",
        "bleu",
        "41.02 (Wu et al. 2021, Transformer-tiny)",
        files("multi30k/tok/{part}.lc.norm.tok.{side}", part=MULTI30K, side=("en", "de")),
        seeds(multi30k_tokenized, n=3),
        also=("chrf",),
    ),
    Row(
        "shakespeare",
        "tiny Shakespeare by characters, loss on the whole validation set",
        "loss",
        "1.88 (nanoGPT's CPU setting, on random batches of it); 1.4697 (its GPU setting, 6 layers, d_model 384)",
        ("tinyshakespeare/input.txt",),
        (
            shakespeare("nanoGPT's model and tokens", "nanogpt", "training.best_metric=last"),
            shakespeare(
                "15 minutes, any recipe", "free", "model.d_model=192", "model.d_ff=768", "model.max_length=256",
                "model.positions=rope", "model.dropout=0.1", "training.batch_tokens=4096", "training.max_steps=1400",
                "training.max_minutes=15", "training.best_metric=last",
            ),
        ),
        split_shakespeare,
        decimals=3,
    ),
    Row(
        "multi30k",
        "Multi30k, raw text, test_2016_flickr; the recipe `multi30k`",
        "bleu",
        "",
        files("multi30k/{part}.{side}", part=MULTI30K, side=("en", "de")),
        (multi30k_raw("en", "de"), multi30k_raw("de", "en")),
        also=("chrf",),
    ),
    Row(
        "dailydialog",
        "DailyDialog, replies in the test set",
        "perplexity_per_word",
        "",
        files("dailydialog/{part}.jsonl", part=("train", "validation", "test")),
        (dailydialog(),),
    ),
    Row(
        "bert",
        "BERT-mini pre-trained on WikiText-2, fine-tuned on SST-2 and MRPC (dev sets)",
        "accuracy",
        "85.9 and 71.8 (Turc et al. 2019, on GLUE's test sets, pre-trained on 1,000 times as much text)",
        files("{task}/{part}.tsv", task=("sst2", "mrpc"), part=("train", "dev"))
        + files("wikitext2/{part}.raw.txt", part=("train", "valid")),
        all_fine_tuned(),
        split_wikitext_sentences,
        also=("macro_f1",),
        falls_short=True,
    ),
    Row(
        "wikitext2",
        "WikiText-2 language model, test set, perplexity per word and line end (245,569)",
        "word-level perplexity",
        "65.8 (AWD-LSTM, Merity et al. 2018; 33 M parameters, rare words replaced by `<unk>`)",
        files("wikitext2/{part}.raw.txt", part=("train", "valid", "test")),
        (wikitext(),),
        derive=word_level_perplexity,
        falls_short=True,
    ),
)  # fmt: skip
