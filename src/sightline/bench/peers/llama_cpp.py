"""llama.cpp, through the package xllamacpp: our GPT in its file format (GGUF), in 32 or 8 bits."""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sightline.bench.decode import N_NEW, source_length
from sightline.bench.shapes import Shape, prompts, random_model
from sightline.bench.worker import Job


def save(model: Any, path: Path, kind: str) -> None:
    """Write a GPT-2 of ours as GGUF; `kind` is the format of its matrices."""
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(str(path), "gpt2")
    writer.add_context_length(config.max_length)
    writer.add_embedding_length(config.d_model)
    writer.add_block_count(config.n_layers)
    writer.add_feed_forward_length(config.d_ff)
    writer.add_head_count(config.n_heads)
    writer.add_layer_norm_eps(config.norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([f"t{number}" for number in range(config.vocab_size)])
    writer.add_token_merges(["a b"])
    for name, tensor in tensors(model).items():
        quantization = gguf.GGMLQuantizationType[kind if tensor.ndim == 2 and "position" not in name else "F32"]
        data = gguf.quants.quantize(tensor.detach().contiguous().numpy(), quantization)
        writer.add_tensor(name, data, raw_dtype=quantization)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensors(model: Any) -> dict[str, Tensor]:
    """Return the weights under its names."""
    found: dict[str, Tensor] = {
        "token_embd.weight": model.embedding.tokens.weight,
        "position_embd.weight": model.embedding.positions.weight,
        "output.weight": model.output.weight,
        "output_norm.weight": model.decoder.final_norm.weight,
        "output_norm.bias": model.decoder.final_norm.bias,
    }
    for number, layer in enumerate(model.decoder.layers):
        own, wide = layer.self_attention, layer.feed_forward
        parts = {
            "attn_norm": layer.self_attention_norm,
            "attn_output": own.output,
            "ffn_norm": layer.feed_forward_norm,
            "ffn_up": wide.up_proj,
            "ffn_down": wide.down_proj,
        }
        for name, part in parts.items():
            found |= {f"blk.{number}.{name}.weight": part.weight, f"blk.{number}.{name}.bias": part.bias}
        for kind in ("weight", "bias"):
            qkv = [getattr(linear, kind) for linear in (own.query, own.key, own.value)]
            found[f"blk.{number}.attn_qkv.{kind}"] = torch.cat(qkv)
    return found


def decoding_job(shape: dict[str, Any], *, kind: str) -> Job:
    """Continue one prompt greedily."""
    import xllamacpp

    wanted = Shape.of(shape)
    [prompt] = prompts(wanted, length=source_length(wanted))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        save(random_model(wanted), path, kind)
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(path)
        parameters.n_ctx, parameters.n_parallel, parameters.verbosity = 1024, 1, 0
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = torch.get_num_threads()
        server = xllamacpp.Server(parameters)
    asked = {
        "prompt": prompt, "n_predict": N_NEW, "temperature": 0.0, "top_k": 1, "samplers": ["top_k"],
        "ignore_eos": True, "cache_prompt": False,
    }  # fmt: skip

    def run() -> list[list[int]]:
        found = server.handle_completions(asked)
        answer: Any = json.loads(found) if isinstance(found, str | bytes) else found
        return [list(map(int, answer["choices"][0]["text"].split("t")[1:]))]  # as `save` spells them: t17t4

    return Job(run)
