"""Write a model again in another weight format, by llama.cpp's own quantiser, in a child process.

The F16 expansion of a quantised file is the dequantised control: the same weights, other kernels. What a file really
holds afterwards may differ from the format's name, tensor by tensor; `inspect` says.
"""

from __future__ import annotations

import contextlib
import ctypes
from multiprocessing.connection import Connection
from pathlib import Path

from app.engine.gguf import ModelFile, inspect
from app.engine.process import ChildProcess
from app.engine.settings import default_threads
from app.errors import EngineError, SettingsError

FILE_TYPES = {
    "F32": 0,
    "F16": 1,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q8_0": 7,
    "Q5_0": 8,
    "Q5_1": 9,
    "Q2_K": 10,
    "Q3_K_M": 12,
    "Q4_K_S": 14,
    "Q4_K_M": 15,
    "Q5_K_S": 16,
    "Q5_K_M": 17,
    "Q6_K": 18,
    "BF16": 32,
}
"""Names to numbers of enum llama_ftype (llama.h)."""


def quantise(source: Path, target: Path, type_name: str, threads: int = 0) -> ModelFile:
    """Write `source` to `target` as `type_name` (see FILE_TYPES), weights that are quantised already included.

    `threads` 0 takes the engine's default. Says what the new file holds. Raises SettingsError for an unknown name or
    an existing target, ModelFileError for a bad source, EngineError where llama.cpp fails; then there is no target.
    """
    if type_name.upper() not in FILE_TYPES:
        raise SettingsError(f"{type_name} is no weight format.", f"Known are {', '.join(FILE_TYPES)}.")
    if target.exists():
        raise SettingsError(f"{target.name} exists already.", "Choose another name, or delete it.")
    inspect(source)
    part = target.with_name(f"{target.name}.part")
    process = ChildProcess(
        "forkpoint-quantise", _quantise, source, part, FILE_TYPES[type_name.upper()], threads or default_threads()
    )
    try:
        process.receive()
        part.replace(target)
    except OSError as error:
        raise EngineError(f"{target.name} cannot be written: {error.strerror or error}.") from error
    finally:
        process.close()
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return inspect(target)


def _quantise(connection: Connection, source: Path, target: Path, file_type: int, threads: int) -> None:
    """The child's work: one call, one answer."""
    import llama_cpp

    from app.engine.embedded.llama_model import NativeLog

    log = NativeLog()
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.allow_requantize = file_type, threads, True
    code = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params))
    if code != 0:
        connection.send(EngineError(f"llama.cpp cannot write {source.name} in this format.", log.tail()))
    else:
        connection.send(None)
