"""The C file under sanitizers, and on another architecture: `make slow`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sightline.engine.native.compiler import FLAGS, SOURCE, find_compiler

pytestmark = pytest.mark.slow

EXERCISE = """
import ctypes, itertools, sys
import numpy as np
from sightline.engine.native import compiler, library, model, search
from sightline.decoding.settings import DecodingSettings
from sightline.model.config import BertConfig, GPTConfig, TransformerConfig
from sightline.engine.native.weights import list_slots

opened = library.Library(ctypes.CDLL(sys.argv[1]))
library.open_library.cache_clear()
model.open_library = lambda: opened
sizes = dict(vocab_size=77, d_model=24, n_heads=3, d_ff=42, max_length=400)
layers = dict(n_encoder_layers=2, n_decoder_layers=2)
configs = [
    TransformerConfig(**sizes, **layers),
    TransformerConfig(**sizes, **layers, pre_norm=True, norm="rms", activation="swiglu", qk_norm=True, d_head=10),
    GPTConfig(**{**sizes, "vocab_size": 5000}, n_layers=2),
    GPTConfig(**sizes, n_layers=2, positions="rope", n_kv_heads=1, d_head=70, activation="silu"),
    BertConfig(**sizes, n_layers=2),
]
generator = np.random.default_rng(0)
texts = [generator.integers(2, 77, length).tolist() for length in (1, 5, 300, 17, 2, 9, 30)]
total = 0.0
for config, precision, name, threads in itertools.product(configs, ("int8", "fp32"), opened.supported, (1, 3)):
    arrays = {
        slot.name: generator.normal(size=slot.shape).astype(np.float32) for slot in list_slots(config) if slot.name
    }
    native = model.NativeModel(config, arrays, precision=precision, instruction_set=name, threads=threads)
    if not native.has_decoder:
        total += float(native.encode(texts).sum())
        continue
    for beam_size in (1, 3):
        settings = DecodingSettings(max_new_tokens=20, beam_size=beam_size, n_best=beam_size)
        found = search.search(
            native, texts, settings, first_ids=[1] * len(texts), end_ids=[3, 4], max_rows=9, threads=threads
        )
        total += sum(one.score for several in found for one in several)
    state = native.read(texts)
    ids = np.arange(7, dtype=np.int32)
    state.step(ids, attention=native.has_encoder)
    state.reorder(np.array([0, 0, 2, 2, 6, 1, 2, 5, 4], dtype=np.int32))
    state.join(native.read(texts[:2]))
    state.step_best(np.arange(11, dtype=np.int32), 5)
    state.greedy(np.arange(11, dtype=np.int32), 3, end_ids=[3])
    del state, native
for shape in [(1, 1, 1), (7, 67, 65), (13, 130, 17)]:
    for name, precision in itertools.product(opened.supported, ("int8", "fp32")):
        x, w = generator.normal(size=shape[:2]), generator.normal(size=(shape[2], shape[1]))
        x, w, b = (one.astype(np.float32) for one in (x, w, np.zeros(shape[2])))
        model.multiply(x, w, b, precision=precision, instruction_set=name)
print("done", np.isfinite(total))
"""
"""Every call of the C file, on models of every kind; in a process of its own, since a sanitizer ends it."""


def run_exercise(library: Path, **environment: str) -> None:
    command = [sys.executable, "-c", EXERCISE, str(library)]
    run = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert run.stdout == "done True\n", run.stderr[-4000:]
    assert "runtime error" not in run.stderr, run.stderr[-4000:]


def require_compiler(*names: str) -> str:
    compiler = find_compiler() if not names else next(filter(None, map(shutil.which, names)), None)
    if compiler is None:
        pytest.skip(f"no compiler: {', '.join(names) or 'cc'}")
    return compiler


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(sanitizer, tmp_path):
    compiler = require_compiler()
    library = tmp_path / "library.so"
    flags = [flag for flag in FLAGS if flag not in ("-O3", "-fno-trapping-math")]
    command = [compiler, *flags, "-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=undefined", "-shared"]
    built = subprocess.run([*command, "-o", library, SOURCE, "-lm"], capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"the compiler has no such sanitizer: {built.stderr.strip().splitlines()[-1]}")
    names = ["libtsan.so"] if sanitizer == "thread" else ["libasan.so", "libubsan.so"]
    found = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in names
    ]
    if not all(map(os.path.isabs, found)):
        pytest.skip(f"the sanitizers' libraries are not installed: {found}")
    # Python itself keeps memory at its end.
    options = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1", "TSAN_OPTIONS": "exitcode=66"}
    run_exercise(library, LD_PRELOAD=" ".join(found), **options)


@pytest.mark.parametrize("features", ["armv8-a", "armv8.2-a+dotprod"])
def test_products_are_the_same_on_arm(features, tmp_path):
    """NEON by the compiler, and its dot products: the same integers as here, in an emulator."""
    compiler = require_compiler("aarch64-linux-gnu-gcc")
    emulator = next(filter(None, map(shutil.which, ("qemu-aarch64-static", "qemu-aarch64"))), None)
    if emulator is None:
        pytest.skip("no emulator: install qemu-user-static")
    main = tmp_path / "main.c"
    main.write_text(PRODUCTS.replace("SOURCE", str(SOURCE)))
    flags = [flag for flag in FLAGS if flag != "-fPIC"]
    outputs = []
    for command, run in (
        ([compiler, f"-march={features}", "-static"], [emulator, "-cpu", "max"]),
        ([require_compiler()], []),
    ):
        program = tmp_path / f"program-{len(outputs)}"
        subprocess.run([*command, *flags, "-o", program, main, "-lm"], check=True, capture_output=True)
        outputs.append(subprocess.run([*run, program], check=True, capture_output=True).stdout)
    assert outputs[0] == outputs[1]
    assert len(outputs[0].splitlines()) > 1000


PRODUCTS = r"""
#include "SOURCE"

static uint32_t state = 1;
static float draw(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(int32_t)state / 2147483648.0f;
}

int main(void)
{
    const int shapes[][3] = {{1, 1, 1}, {7, 67, 65}, {3, 130, 17}, {13, 64, 200}};
    for (int i = 0; i < 4; i++) {
        const int n = shapes[i][0], in = shapes[i][1], out = shapes[i][2];
        float *x = malloc(4 * n * in), *w = malloc(4 * in * out), *b = malloc(4 * out), *y = malloc(4 * n * out);
        for (int j = 0; j < n * in; j++) x[j] = draw();
        for (int j = 0; j < in * out; j++) w[j] = draw();
        for (int j = 0; j < out; j++) b[j] = draw();
        sightline_multiply(N_KERNELS - 1, 8, x, n, w, b, in, out, y); /* plain C, the last of them */
        for (int j = 0; j < n * out; j++) printf("%a\n", y[j]);
    }
    return 0;
}
"""
