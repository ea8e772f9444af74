"""Which native code, on which machine: what the sealed environment record says of the build."""

from __future__ import annotations

import ctypes
import platform
import re
import sys
from importlib import metadata
from pathlib import Path


def native_build() -> dict[str, object]:
    """Flat JSON-able facts of the llama.cpp build and the machine. Loads llama_cpp: called in the child process."""
    import llama_cpp
    from llama_cpp._ctypes_extensions import load_shared_library

    package = Path(llama_cpp.__file__).parent
    base = load_shared_library("ggml-base", package / "lib")
    return {
        "bindings": f"llama-cpp-python {llama_cpp.__version__}",
        "ggml_version": _text(base.ggml_version),
        "ggml_commit": _text(base.ggml_commit),
        "system_info": llama_cpp.llama_print_system_info().decode().strip(),
        "compile_flags": compile_flags(package),
        "gpu_offload": bool(llama_cpp.llama_supports_gpu_offload()),
        "cpu": cpu_name(),
        "os": platform.platform(),
        "python": sys.version.split()[0],
        "numpy": metadata.version("numpy"),
    }


def compile_flags(package: Path) -> str:
    """ggml's CMake options that are not OFF, as "NAME=VALUE ..."; empty where the build left no record of them.

    The record lies beside the libraries (packaging/install.sh), or where the bindings' own build installs it.
    """
    name = "ggml-config.cmake"
    places = (package / "lib" / name, package.parent / "lib" / "cmake" / "ggml" / name)
    config = next((place for place in places if place.is_file()), None)
    if config is None:
        return ""
    options = re.findall(r'^set\((GGML_\w+) "([^"]*)"\)', config.read_text(encoding="utf-8"), flags=re.MULTILINE)
    off = tuple(f"{name}_" for name, value in options if value == "OFF")  # GGML_CUDA off: drop GGML_CUDA_GRAPHS too
    skipped = ("_FOUND", "_DEFAULT", "HEADERS", "_VERSION_MIN")
    return " ".join(
        f"{name}={value}"
        for name, value in options
        if value not in ("", "OFF") and not name.startswith(off) and not name.endswith(skipped)
    )


def cpu_name() -> str:
    """The processor's model name as the system gives it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(encoding="utf-8"), flags=re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


def _text(function: object) -> str:
    function.restype = ctypes.c_char_p  # type: ignore[attr-defined]
    value: bytes | None = function()  # type: ignore[operator]
    return (value or b"").decode()
