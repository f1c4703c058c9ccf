"""Names that version 0.1.0 used: its folders are read by them, and a user who types one is told the new name.

Plain data, read in two places: `bundle/migration.py` translates the files of 0.1.0, and `config.py` looks here
first when a name is unknown. Nothing else knows an old name, and nothing accepts one.
"""

SETTINGS: dict[str, dict[str, str]] = {
    "data": {
        "typed_in_haste": "casual_user_turns",
        "history": "context_turns",
        "classified": "label_level",
        "documents": "document_separator",
        "on_long": "too_long",
        "drop_copies": "drop_identical",
    },
    "tokenizer": {"separate": "shared_vocab", "folder": "path"},
    "masking": {"chosen": "mask_rate", "masked": "mask_prob", "randomised": "random_prob"},
    "model": {
        "start": "init_from",
        "norm_order": "pre_norm",
        "norm_epsilon": "norm_eps",
        "scaled_embedding": "scale_embeddings",
        "tied_output": "tie_embeddings",
        "rotary_base": "rope_theta",
    },
    "training": {
        "accumulate": "gradient_accumulation",
        "clip_norm": "grad_clip",
        "average_decay": "ema_decay",
        "agreement": "r_drop",
        "final_learning_rate": "min_lr_ratio",
        "window": "bucket_window",
        "best_by": "best_metric",
        "keep_last": "keep_checkpoints",
        "epsilon": "adam_eps",
    },
    "decoding": {
        "beam": "beam_size",
        "min_length": "min_new_tokens",
        "max_length": "max_new_tokens",
        "sample": "do_sample",
        "no_repeat_ngram": "no_repeat_ngram_size",
        "banned": "bad_words",
        "required": "forced_words",
        "context_counts": "include_prompt",
    },
}
"""Old and new name of every setting that changed, by section."""

VALUES: dict[str, dict[object, object]] = {
    "data.classified": {"text": "sequence", "words": "token"},
    "data.on_long": {"skip": "drop", "cut": "truncate"},
    "tokenizer.separate": {True: False, False: True},
    "model.norm_order": {"pre": True, "post": False},
    "model.positions": {"rotary": "rope"},
    "model.heads": {
        "masked_words": "mlm",
        "next_sentence": "nsp",
        "sequence_classes": "sequence_classification",
        "token_classes": "token_classification",
    },
    "training.schedule": {"paper": "noam"},
}
"""Old and new values, by the old name of their setting; of a list, those of its items."""

WEIGHTS: dict[str, str] = {
    "feed_forward.widen": "feed_forward.up_proj",
    "feed_forward.gate": "feed_forward.gate_proj",
    "feed_forward.narrow": "feed_forward.down_proj",
    "heads.masked_words": "heads.mlm",
    "heads.next_sentence": "heads.nsp",
    "heads.sequence_classes": "heads.sequence_classification",
    "heads.token_classes": "heads.token_classification",
}
"""Old and new parts of the names of weights, and so of what an optimizer or a running average keeps of them."""

OPTIONS: dict[str, str] = {
    "--explain": "--show-config",
    "--check": "--overfit-batch",
    "--cut": "--truncate",
    "--max-rows": "--max-batch-size",
    "--max-batch": "--max-inputs",
    "--request-seconds": "--request-timeout",
    "--header-seconds": "--header-timeout",
    "--body-seconds": "--body-timeout",
    "--write-seconds": "--write-timeout",
    "--keep-alive-seconds": "--keep-alive-timeout",
    "--stop-seconds": "--shutdown-timeout",
    "--read-key": "--read-only-key",
}
"""Old and new options of the command line."""


def new_setting(name: str) -> list[str]:
    """Return what a setting of 0.1.0 is called now, with its section if it was given with one."""
    section, dot, key = name.rpartition(".")
    sections = [SETTINGS.get(section, {})] if dot else list(SETTINGS.values())
    return [f"{section}{dot}{names[key]}" for names in sections if key in names]


def new_values(value: object) -> list[object]:
    """Return what a value of 0.1.0 is called now."""
    return [names[value] for names in VALUES.values() if isinstance(value, str) and value in names]
