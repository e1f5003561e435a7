"""Runs a step in a child process with a time and a memory limit: a parser that crashes fails only
its step.

The arguments are pickled for the child. The result comes back as JSON only, because the child may
have read hostile input. `main` is the child's program.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import inspect
import os
import pickle
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

from regente.engine.codec import MAX_OUTPUT_BYTES, decode, encode
from regente.engine.errors import (
    Blocked,
    Fatal,
    InvalidInput,
    RegenteError,
    Skip,
    TaskError,
    Throttled,
    Transient,
)
from regente.engine.forkserver import ChildProcess, child_environment, current_forkserver
from regente.engine.heartbeat import ChildBeats
from regente.engine.outcome import storable, storable_details

_HEADER = struct.Struct(">BQ")
_answering = threading.Lock()
_VALUE, _ERROR, _BEAT = 0, 1, 2
_RAISABLE: dict[str, type[TaskError]] = {
    kind.__name__: kind for kind in (Transient, Blocked, Throttled, Fatal, Skip)
}


async def run_isolated(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    timeout_seconds: float | None,
    memory_mb: int | None,
    on_start: Callable[[int], None],
    on_beat: Callable[[], None] = lambda: None,
) -> Any:
    """The function's result as JSON values, or `Transient` with code ISOLATED_CRASH,
    ISOLATED_TIMEOUT or ISOLATED_MEMORY."""
    module, request = _request(function, args, kwargs, memory_mb)
    forkserver = current_forkserver.get()
    child = (await forkserver.child(module) if forkserver is not None else None) or await _started()
    on_start(child.pid)
    try:
        async with asyncio.timeout(timeout_seconds):
            kind, text = await _converse(child, request, on_beat)
    except TimeoutError:
        raise Transient(
            f"the isolated step took longer than {timeout_seconds:g} s", code="ISOLATED_TIMEOUT"
        ) from None
    except (asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError):
        raise _crash(await child.wait()) from None
    finally:
        await _end(child)
    if kind == _ERROR:
        raise _error_of(decode(text))
    return decode(text)


async def _started() -> asyncio.subprocess.Process:
    """A new interpreter, when there is no fork server for the module."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from regente.engine.isolation import main; main()",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        env=child_environment(),
    )


def _request(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    memory_mb: int | None,
) -> tuple[str, bytes]:
    module, name = function.__module__, getattr(function, "__qualname__", "")
    owner = getattr(function, "__self__", None)
    if (
        "<" in name
        or not name
        or not (owner is None or inspect.ismodule(owner) or inspect.isclass(owner))
    ):
        raise Fatal(
            f"{function!r} cannot run isolated: only functions at module level can",
            code="NOT_ISOLATABLE",
        )
    if module == "__main__":
        module = _main_module()
    try:
        return module, pickle.dumps((module, name, args, kwargs, memory_mb))
    except Exception as error:  # any error of an argument's own __reduce__
        raise Fatal(
            f"the arguments of {name} cannot be sent to its process: {error}", code="NOT_ISOLATABLE"
        ) from error


def _main_module() -> str:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name:
        return str(spec.name)
    path = getattr(sys.modules["__main__"], "__file__", None)
    return f"file:{os.path.abspath(path)}" if path else "__main__"


async def _converse(
    child: ChildProcess | asyncio.subprocess.Process, request: bytes, on_beat: Callable[[], None]
) -> tuple[int, str]:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(len(request).to_bytes(8, "big") + request)
    await child.stdin.drain()
    kind, length = _HEADER.unpack(await child.stdout.readexactly(_HEADER.size))
    while kind == _BEAT and length == 0:
        on_beat()
        kind, length = _HEADER.unpack(await child.stdout.readexactly(_HEADER.size))
    if length > MAX_OUTPUT_BYTES:
        raise Fatal(
            f"the isolated step returned {length:,} bytes; at most {MAX_OUTPUT_BYTES:,} "
            "are accepted"
        )
    return kind, (await child.stdout.readexactly(length)).decode("utf-8")


async def _end(child: ChildProcess | asyncio.subprocess.Process) -> None:
    """Kill the child and the processes it started, and wait for its end, also when the step was
    cancelled."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    await asyncio.shield(asyncio.ensure_future(child.wait()))
    if child.stdin is not None:
        child.stdin.close()


def _crash(return_code: int) -> Transient:
    if return_code < 0:
        name = signal.Signals(-return_code).name
        return Transient(
            f"the isolated step was killed by {name}",
            code="ISOLATED_CRASH",
            details={"signal": name},
        )
    return Transient(
        f"the isolated step ended with status {return_code} before it answered",
        code="ISOLATED_CRASH",
    )


def _error_of(error: dict[str, Any]) -> TaskError:
    """The error that the child reported, as the parent raises it."""
    if error["kind"] == "MemoryError":
        return Transient(
            "the isolated step needed more memory than it may have", code="ISOLATED_MEMORY"
        )
    kind = _RAISABLE.get(error["kind"], Transient)
    raised = kind(
        error["message"], code=error["code"], details={**error["details"], "stack": error["stack"]}
    )
    if isinstance(raised, Throttled):
        raised.retry_after = float(error.get("retry_after") or 60)
    return raised


# The child's side.


def main() -> None:
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the step prints must not mix with the answer
    header = sys.stdin.buffer.read(8)
    if len(header) < 8:
        os._exit(1)  # the parent has closed the pipe
    length = int.from_bytes(header, "big")
    request = sys.stdin.buffer.read(length)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    ChildBeats.send = lambda: _answer(answer, _BEAT, "")
    try:
        # Written by our own parent process.
        module, name, args, kwargs, memory_mb = pickle.loads(request)  # noqa: S301
        function = _find(module, name)
        _limit_memory(memory_mb)
        _leave_no_core()
        result = function(*args, **kwargs)
        if asyncio.iscoroutine(result):
            result = asyncio.run(result)
        _answer(answer, _VALUE, _encoded(result))
    except BaseException as error:
        _answer(answer, _ERROR, encode(_described(error), what="the error"))
    sys.stderr.flush()
    os._exit(0)  # a normal exit clashes with the thread that reads stdin


def _encoded(result: Any) -> str:
    try:
        return encode(result, what="the isolated step's result")
    except InvalidInput as error:
        raise Fatal(str(error), code="INVALID_OUTPUT") from error


def _find(module: str, name: str) -> Any:
    if module.startswith("file:"):
        spec = importlib.util.spec_from_file_location("__regente_main__", module[5:])
        assert spec is not None
        assert spec.loader is not None
        found: Any = importlib.util.module_from_spec(spec)
        sys.modules["__regente_main__"] = found
        spec.loader.exec_module(found)
    else:
        found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _limit_memory(memory_mb: int | None) -> None:
    if memory_mb is None or sys.platform == "darwin":  # macOS does not enforce RLIMIT_AS
        return
    import resource

    limit_bytes = memory_mb * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))


def _leave_no_core() -> None:
    """No core dump: the process may hold secrets in memory."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _described(error: BaseException) -> dict[str, Any]:
    kind = next(
        (base.__name__ for base in type(error).__mro__ if base.__name__ in _RAISABLE),
        type(error).__name__,
    )
    return {
        "kind": "MemoryError" if isinstance(error, MemoryError) else kind,
        "code": error.code if isinstance(error, RegenteError) else type(error).__name__,
        "message": storable(str(error)),
        "stack": storable(traceback.format_exc(limit=-20)),
        "details": storable_details(error.details) if isinstance(error, TaskError) else {},
        "retry_after": getattr(error, "retry_after", None),
    }


def _answer(stream: BinaryIO, kind: int, text: str) -> None:
    body = text.encode("utf-8")
    with _answering:  # the step's threads may send heartbeats
        stream.write(_HEADER.pack(kind, len(body)) + body)
        stream.flush()


def _die_with_parent() -> None:
    sys.stdin.buffer.read(1)  # returns when the parent's end of the pipe closes
    os.killpg(0, signal.SIGKILL)
