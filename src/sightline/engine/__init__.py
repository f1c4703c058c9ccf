"""Engines: what reads prompts and predicts next tokens, behind one Protocol that pipelines and serving talk to.

interfaces    the `Engine` Protocol: prefill, step (logits, or the best candidates), cancel; states reorder and join
torch_engine  `TorchEngine`: a model of this package
registry      the engines by name; importing it imports no engine
"""

from sightline.engine.registry import ENGINES, EngineRow, open_engine, register

__all__ = ["ENGINES", "EngineRow", "open_engine", "register"]
