"""User mistakes without shape checks: each raises a clear error."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
import torch
from sightline.errors import SightlineError
from sightline.decoding import DecodingSettings
from sightline.model import *
from sightline.training.loss import projected_cross_entropy

sizes = dict(vocab_size=9, d_model=8, n_heads=2, d_ff=8)
model = Transformer(TransformerConfig(**sizes, n_encoder_layers=1, n_decoder_layers=1)).eval()
gpt = GPT(GPTConfig(**sizes, n_layers=1, max_length=8)).eval()
ids = lambda *shape: torch.ones(shape, dtype=torch.long)
said = {}
for mistake in json.load(sys.stdin):
    try:
        said[mistake] = f"nothing: {eval(mistake)}"
    except SightlineError as error:
        said[mistake] = f"{type(error).__name__}: {error}"
    except Exception as error:
        said[mistake] = f"a bare {type(error).__name__}: {error}"
json.dump(said, sys.stdout)
"""

MISTAKES = {
    "model(ids(2, 7), ids(3, 2))": "InputError: 3 targets do not match 2 sources",
    "model(ids(4, 7), ids(2, 2))": "InputError: 2 targets do not match 4 sources",
    "gpt(ids(2, 7), lengths=torch.tensor([3]))": "InputError: lengths are for 1 sentences, the batch has 2",
    "gpt(ids(1, 2) * 9)": "InputError: ids must lie between 0 and 8",
    "gpt(torch.zeros(1, 2, 9))": "InputError: vectors must be 8 wide (d_model), not 9",
    "model.encode(torch.zeros(2, 3))": "InputError: vectors must be 8 wide (d_model), not 3",
    "gpt.step(ids(1, 2), gpt.start(2))": "InputError: 1 rows of input cannot continue the 2 rows of this cache",
    "gpt.step(ids(1, 2), gpt.start(1), lengths=torch.tensor([3]))": "lengths must be 1 numbers between 0 and 2",
    "projected_cross_entropy(torch.ones(5, 2), torch.ones(3, 2), ids(6))": "6 targets do not match 5 rows",
    "GPTConfig(vocab_size=9, norm='Layer')": "SettingsError: norm: 'Layer' is not one of layer, rms",
    "GPTConfig(vocab_size=9, positions='roep')": "(did you mean rope?)",
    "GPTConfig(vocab_size=9, d_head=2.0)": "SettingsError: d_head: 2.0 is not a whole number",
    "GPTConfig(vocab_size=9, qkv_bias=1)": "SettingsError: qkv_bias: 1 is not true or false",
    "GPTConfig(vocab_size=9, rope_scaling='ntk')": "rope_scaling: 'ntk' is not one of none, linear, llama3, yarn",
    "GPTConfig(vocab_size='9')": "SettingsError: vocab_size: '9' is not a whole number",
    "GPTConfig(vocab_size=9, d_model=768.0)": "SettingsError: d_model: 768.0 is not a whole number",
    "BertConfig(vocab_size=9, heads=('token_clasification',))": "(did you mean token_classification?)",
    "DecodingSettings(beam_size=2.5)": "SettingsError: beam_size: 2.5 is not a whole number",
    "DecodingSettings(stop='END')": "SettingsError: stop: 'END' is not a list",
    "gpt(ids(1, 2), hooks=Hooks({'*.head_outputs': ablate_heads(2)}))": "InputError: cannot ablate heads (2,)",
    "gpt(ids(1, 2), hooks=Hooks({'*.output': ablate_heads(0)}))": "InputError: cannot ablate heads (0,)",
}


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What each mistake is answered with, by a process of its own without shape checks."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(list(MISTAKES)), capture_output=True, text=True, check=True
    )
    answers: dict[str, str] = json.loads(ran.stdout)
    return answers


@pytest.mark.parametrize(("mistake", "answer"), MISTAKES.items())
def test_mistake_is_said_in_a_sentence(said, mistake, answer):
    assert answer in said[mistake]
    assert said[mistake].startswith(("InputError", "SettingsError"))
