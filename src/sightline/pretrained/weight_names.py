"""Tables of weight names, one a reference family: what they call a weight, what we call it, and how its form differs.

A name is a pattern: each `*` stands for one part between dots, and the n-th star of one side is the n-th of the other.
A table is read in both directions: `fill` gives our model a reference's weights, `to_theirs` gives them back. Nothing
is skipped in silence: a name no row knows, a weight of ours nothing fills, a shape or a tie that does not fit are all
listed at once.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Change:
    """How one tensor of theirs becomes ours, and back; `{part}` in our name stands for each of its `parts`."""

    apart: Callable[[Tensor], Sequence[Tensor]]
    together: Callable[[Sequence[Tensor]], Tensor]
    parts: tuple[str, ...] = ("",)


SAME = Change(lambda x: [x], lambda parts: parts[0])
TRANSPOSED = Change(lambda x: [x.T], lambda parts: parts[0].T)
"""GPT-2's `Conv1D` keeps its weight as inputs × outputs; `nn.Linear` keeps outputs × inputs."""
ONE_ROW = Change(lambda x: [x.squeeze(0)], lambda parts: parts[0].unsqueeze(0))
"""Marian adds its bias as a matrix of one row."""
FUSED = Change(lambda x: x.chunk(3, dim=0), lambda parts: torch.cat(list(parts), dim=0), ("query", "key", "value"))
"""Queries, keys and values of all heads below one another in one projection's outputs, in this order."""
FUSED_TRANSPOSED = Change(
    lambda x: x.T.chunk(3, dim=0), lambda parts: torch.cat(list(parts), dim=0).T, ("query", "key", "value")
)


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    theirs: str
    ours: str
    change: Change = SAME

    def our_patterns(self) -> list[str]:
        """Return the pattern of each part."""
        return [self.ours.replace("{part}", part) for part in self.change.parts]


@dataclass(frozen=True)
class Table:
    """All a reference's names: those with a row, those that repeat another, those that hold nothing learned."""

    rows: tuple[Row, ...]
    aliases: tuple[tuple[str, str], ...] = ()
    """Second names of one weight, (second, first). Files may hold either name; where both are, they must agree."""
    computed: tuple[str, ...] = ()
    """Tables their code computes and files away; ours computes its own."""

    def with_rows(self, *rows: Row, aliases: tuple[tuple[str, str], ...] = ()) -> "Table":
        """Return this table, longer: a family's heads on the family's body."""
        return replace(self, rows=self.rows + rows, aliases=self.aliases + aliases)


def rename(name: str, pattern: str, into: str) -> str | None:
    """Return `name` under another pattern, or None where it does not match: `rename("h.3.ln", "h.*.ln", "*.norm")`."""
    match = re.fullmatch(re.escape(pattern).replace(r"\*", r"([^.]+)"), name)
    if match is None:
        return None
    stars = iter(match.groups())
    return re.sub(r"\*", lambda _: next(stars), into)


def to_ours(table: Table, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a reference's tensors (weights, or their gradients: every change is linear) under our names."""
    given, problems = read(table, state)
    complain(problems)
    return given


def to_theirs(table: Table, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return our tensors under the reference's names, each weight once: no aliases, nothing computed."""
    written: dict[str, Tensor] = {}
    used: set[str] = set()
    for row in table.rows:
        first, *others = row.our_patterns()
        for name in state:
            if (theirs := rename(name, first, row.theirs)) is None:
                continue
            names = [name, *(str(rename(name, first, other)) for other in others)]
            written[theirs] = row.change.together([state[part] for part in names])
            used.update(names)
    complain([f"no row names our {name}" for name in state if name not in used])
    return written


def fill(model: nn.Module, table: Table, state: Mapping[str, Tensor]) -> None:
    """Copy a reference's weights into our model, or list everything that does not fit and copy nothing."""
    given, problems = read(table, state)
    own = model.state_dict(keep_vars=True)  # the tensors themselves: one that has two names appears twice
    problems += [f"our model has no {name}" for name in given if name not in own]
    for names in names_of_each(own):
        found = [name for name in names if name in given]
        if not found:
            problems.append(f"nothing fills our {' = '.join(names)}")
        elif any(not torch.equal(given[name], given[found[0]]) for name in found):
            problems.append(f"one weight here is several in the reference: {', '.join(found)}")
        elif given[found[0]].shape != own[found[0]].shape:
            shapes = f"{tuple(given[found[0]].shape)}, not {tuple(own[found[0]].shape)}"
            problems.append(f"{found[0]} would be of shape {shapes}")
    complain(problems)
    with torch.no_grad():
        for name, tensor in given.items():
            own[name].copy_(tensor)


def read(table: Table, state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Apply a table's rows; return what they give, and what is wrong."""
    pending = {name: x for name, x in state.items() if all(rename(name, c, "") is None for c in table.computed)}
    problems = []
    for second, first in table.aliases:
        if second in pending:
            repeated = pending.pop(second)
            if not torch.equal(pending.setdefault(first, repeated), repeated):
                problems.append(f"{second} and {first} should be one weight, but differ")
    given: dict[str, Tensor] = {}
    for name, tensor in pending.items():
        rows = [row for row in table.rows if rename(name, row.theirs, "") is not None]
        if len(rows) != 1:
            problems.append(f"{'no row names' if not rows else 'several rows name'} their {name}")
            continue
        patterns, parts = rows[0].our_patterns(), rows[0].change.apart(tensor)
        given |= {str(rename(name, rows[0].theirs, ours)): part for ours, part in zip(patterns, parts, strict=True)}
    return given, problems


def names_of_each(state: Mapping[str, Tensor]) -> list[list[str]]:
    """Group names that stand for one and the same tensor."""
    groups: dict[int, list[str]] = {}
    for name, tensor in state.items():
        groups.setdefault(id(tensor), []).append(name)
    return list(groups.values())


def complain(problems: Sequence[str]) -> None:
    """Raise for all problems at once."""
    if problems:
        raise ValueError("weights do not fit: " + "; ".join(problems))


# transformers: BertModel and the models around it

BERT = Table(
    rows=(
        Row("bert.embeddings.word_embeddings.weight", "embedding.tokens.weight"),
        Row("bert.embeddings.position_embeddings.weight", "embedding.positions.weight"),
        Row("bert.embeddings.token_type_embeddings.weight", "embedding.segments.weight"),
        Row("bert.embeddings.LayerNorm.*", "embedding.norm.*"),
        Row("bert.encoder.layer.*.attention.self.query.*", "encoder.layers.*.self_attention.query.*"),
        Row("bert.encoder.layer.*.attention.self.key.*", "encoder.layers.*.self_attention.key.*"),
        Row("bert.encoder.layer.*.attention.self.value.*", "encoder.layers.*.self_attention.value.*"),
        Row("bert.encoder.layer.*.attention.output.dense.*", "encoder.layers.*.self_attention.output.*"),
        Row("bert.encoder.layer.*.attention.output.LayerNorm.*", "encoder.layers.*.self_attention_norm.*"),
        Row("bert.encoder.layer.*.intermediate.dense.*", "encoder.layers.*.feed_forward.up_proj.*"),
        Row("bert.encoder.layer.*.output.dense.*", "encoder.layers.*.feed_forward.down_proj.*"),
        Row("bert.encoder.layer.*.output.LayerNorm.*", "encoder.layers.*.feed_forward_norm.*"),
        Row("bert.pooler.dense.*", "pooler.*"),
    )
)

BERT_PRETRAINING = BERT.with_rows(
    Row("cls.predictions.transform.dense.*", "heads.mlm.transform.*"),
    Row("cls.predictions.transform.LayerNorm.*", "heads.mlm.norm.*"),
    Row("cls.predictions.decoder.*", "heads.mlm.output.*"),
    Row("cls.seq_relationship.*", "heads.nsp.*"),
    aliases=(("cls.predictions.bias", "cls.predictions.decoder.bias"),),
)

# They call every classifier `classifier`: what it classifies, only the class of their model tells.
BERT_SEQUENCE_CLASSES = BERT.with_rows(Row("classifier.*", "heads.sequence_classification.*"))
BERT_TOKEN_CLASSES = BERT.with_rows(Row("classifier.*", "heads.token_classification.*"))


# transformers: GPT2LMHeadModel

GPT2 = Table(
    rows=(
        Row("transformer.wte.weight", "embedding.tokens.weight"),
        Row("transformer.wpe.weight", "embedding.positions.weight"),
        Row("transformer.h.*.ln_1.*", "decoder.layers.*.self_attention_norm.*"),
        Row("transformer.h.*.attn.c_attn.weight", "decoder.layers.*.self_attention.{part}.weight", FUSED_TRANSPOSED),
        Row("transformer.h.*.attn.c_attn.bias", "decoder.layers.*.self_attention.{part}.bias", FUSED),
        Row("transformer.h.*.attn.c_proj.weight", "decoder.layers.*.self_attention.output.weight", TRANSPOSED),
        Row("transformer.h.*.attn.c_proj.bias", "decoder.layers.*.self_attention.output.bias"),
        Row("transformer.h.*.ln_2.*", "decoder.layers.*.feed_forward_norm.*"),
        Row("transformer.h.*.mlp.c_fc.weight", "decoder.layers.*.feed_forward.up_proj.weight", TRANSPOSED),
        Row("transformer.h.*.mlp.c_fc.bias", "decoder.layers.*.feed_forward.up_proj.bias"),
        Row("transformer.h.*.mlp.c_proj.weight", "decoder.layers.*.feed_forward.down_proj.weight", TRANSPOSED),
        Row("transformer.h.*.mlp.c_proj.bias", "decoder.layers.*.feed_forward.down_proj.bias"),
        Row("transformer.ln_f.*", "decoder.final_norm.*"),
        Row("lm_head.weight", "output.weight"),
    )
)


# transformers: LlamaForCausalLM

LLAMA = Table(
    rows=(
        Row("model.embed_tokens.weight", "embedding.tokens.weight"),
        Row("model.layers.*.input_layernorm.weight", "decoder.layers.*.self_attention_norm.weight"),
        Row("model.layers.*.self_attn.q_proj.*", "decoder.layers.*.self_attention.query.*"),
        Row("model.layers.*.self_attn.k_proj.*", "decoder.layers.*.self_attention.key.*"),
        Row("model.layers.*.self_attn.v_proj.*", "decoder.layers.*.self_attention.value.*"),
        Row("model.layers.*.self_attn.o_proj.*", "decoder.layers.*.self_attention.output.*"),
        Row("model.layers.*.post_attention_layernorm.weight", "decoder.layers.*.feed_forward_norm.weight"),
        Row("model.layers.*.mlp.up_proj.*", "decoder.layers.*.feed_forward.up_proj.*"),
        Row("model.layers.*.mlp.gate_proj.*", "decoder.layers.*.feed_forward.gate_proj.*"),
        Row("model.layers.*.mlp.down_proj.*", "decoder.layers.*.feed_forward.down_proj.*"),
        Row("model.norm.weight", "decoder.final_norm.weight"),
        Row("lm_head.weight", "output.weight"),
    )
)


# transformers: Qwen2ForCausalLM has Llama's names, Qwen3ForCausalLM two more

QWEN3 = LLAMA.with_rows(
    Row("model.layers.*.self_attn.q_norm.weight", "decoder.layers.*.self_attention.query_norm.weight"),
    Row("model.layers.*.self_attn.k_norm.weight", "decoder.layers.*.self_attention.key_norm.weight"),
)


# transformers: MarianMTModel; the first star of a layer's row is `encoder` or `decoder`

MARIAN = Table(
    rows=(
        Row("model.encoder.embed_tokens.weight", "source_embedding.tokens.weight"),
        Row("model.decoder.embed_tokens.weight", "target_embedding.tokens.weight"),
        Row("model.*.layers.*.self_attn.q_proj.*", "*.layers.*.self_attention.query.*"),
        Row("model.*.layers.*.self_attn.k_proj.*", "*.layers.*.self_attention.key.*"),
        Row("model.*.layers.*.self_attn.v_proj.*", "*.layers.*.self_attention.value.*"),
        Row("model.*.layers.*.self_attn.out_proj.*", "*.layers.*.self_attention.output.*"),
        Row("model.*.layers.*.self_attn_layer_norm.*", "*.layers.*.self_attention_norm.*"),
        Row("model.*.layers.*.encoder_attn.q_proj.*", "*.layers.*.cross_attention.query.*"),
        Row("model.*.layers.*.encoder_attn.k_proj.*", "*.layers.*.cross_attention.key.*"),
        Row("model.*.layers.*.encoder_attn.v_proj.*", "*.layers.*.cross_attention.value.*"),
        Row("model.*.layers.*.encoder_attn.out_proj.*", "*.layers.*.cross_attention.output.*"),
        Row("model.*.layers.*.encoder_attn_layer_norm.*", "*.layers.*.cross_attention_norm.*"),
        Row("model.*.layers.*.fc1.*", "*.layers.*.feed_forward.up_proj.*"),
        Row("model.*.layers.*.fc2.*", "*.layers.*.feed_forward.down_proj.*"),
        Row("model.*.layers.*.final_layer_norm.*", "*.layers.*.feed_forward_norm.*"),
        Row("lm_head.weight", "output.weight"),
        Row("final_logits_bias", "output.bias", ONE_ROW),
    ),
    aliases=(("model.shared.weight", "model.encoder.embed_tokens.weight"),),  # only where source and target share it
    computed=("model.*.embed_positions.weight",),
)


# torch: nn.Transformer, which has neither embeddings nor an output projection

TORCH = Table(
    rows=(
        Row("*.layers.*.self_attn.in_proj_weight", "*.layers.*.self_attention.{part}.weight", FUSED),
        Row("*.layers.*.self_attn.in_proj_bias", "*.layers.*.self_attention.{part}.bias", FUSED),
        Row("*.layers.*.self_attn.out_proj.*", "*.layers.*.self_attention.output.*"),
        Row("*.layers.*.multihead_attn.in_proj_weight", "*.layers.*.cross_attention.{part}.weight", FUSED),
        Row("*.layers.*.multihead_attn.in_proj_bias", "*.layers.*.cross_attention.{part}.bias", FUSED),
        Row("*.layers.*.multihead_attn.out_proj.*", "*.layers.*.cross_attention.output.*"),
        Row("*.layers.*.linear1.*", "*.layers.*.feed_forward.up_proj.*"),
        Row("*.layers.*.linear2.*", "*.layers.*.feed_forward.down_proj.*"),
        Row("*.layers.*.norm1.*", "*.layers.*.self_attention_norm.*"),
        Row("encoder.layers.*.norm2.*", "encoder.layers.*.feed_forward_norm.*"),
        Row("decoder.layers.*.norm2.*", "decoder.layers.*.cross_attention_norm.*"),
        Row("decoder.layers.*.norm3.*", "decoder.layers.*.feed_forward_norm.*"),
        Row("*.norm.*", "*.final_norm.*"),
    )
)
