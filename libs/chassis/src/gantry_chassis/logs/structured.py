"""Structured logs on stderr or in a file: one line per event, as text or JSON, with the request id of the current task.

Logging never waits for a reader: see `writer`. Messages other libraries send through `logging`, from WARNING up,
and uncaught exceptions have the same form.
"""

import atexit
import contextlib
import logging
import sys
import threading
from collections.abc import Generator
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from gantry_chassis.logs.writer import LogWriter
from gantry_chassis.start_refusal import refuse_start


@contextlib.contextmanager
def _absent(module: str) -> Generator[None]:
    """Let imports of `module` fail for a moment.

    structlog imports rich where it is installed, for tracebacks nobody here prints: 12 MB and 150 ms per process.
    """
    present = module in sys.modules
    if not present:
        sys.modules[module] = None  # pyright: ignore[reportArgumentType]  # the documented way to block an import
    try:
        yield
    finally:
        if not present:
            del sys.modules[module]


with _absent("rich"):
    import structlog
    from structlog.typing import EventDict, FilteringBoundLogger

FLUSH_SECONDS_MAX = 2.0
"""Longest wait at exit for the log to be read."""
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

request_id: ContextVar[str] = ContextVar("request_id", default="")


def configure(service: str, level: str = "info", *, json: bool = False, file: str = "") -> LogWriter:
    """Set up the logs of this process once; `level` is one of LEVELS. With `file`, stdout and stderr go there too.

    A normal exit closes the returned writer. A file that cannot be opened refuses the start.
    """

    def add_context(_logger: object, _method: str, event: EventDict) -> EventDict:
        event["service"] = service
        if identifier := request_id.get():
            event["request_id"] = identifier
        return event

    renderer = structlog.processors.JSONRenderer(serializer=_to_json) if json else _to_text
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)

    def lost_line(lines: int) -> str:
        message = "dropped log lines here: nobody read them in time"
        event = stamp(None, "", {"event": message, "level": "warning", "service": service, "lines": lines})
        return str(renderer(None, "", event))

    try:
        writer = LogWriter(lost_line, Path(file) if file else None)
    except OSError as error:
        refuse_start(service, f"cannot log into {file}: {error.strerror}; set another log_file")
    structlog.configure(
        processors=[
            add_context,
            structlog.processors.add_log_level,
            stamp,
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *_args: _Lines(writer),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_Forward()], level=logging.WARNING, force=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread
    _writers.append(writer)
    return writer


_writers: list[LogWriter] = []


def flush() -> None:
    """Wait a moment until all lines are written. Call it last before an immediate exit."""
    for writer in _writers:
        writer.flush(FLUSH_SECONDS_MAX)


@atexit.register
def _close() -> None:
    for writer in _writers:
        writer.close(FLUSH_SECONDS_MAX)


def get_logger(**fields: object) -> FilteringBoundLogger:
    """Return a logger that adds `fields` to every event. Safe to call at import, before `configure`."""
    return structlog.get_logger(**fields)


# Python itself prints a traceback in pieces, straight into the file the log thread is still writing its lines to.
def _log_uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, Exception):
        get_logger().error("uncaught exception", exc_info=(kind, error, traceback))
    else:
        sys.__excepthook__(kind, error, traceback)  # Ctrl-C


def _log_uncaught_in_thread(uncaught: threading.ExceptHookArgs) -> None:
    if uncaught.exc_value is not None and uncaught.exc_type is not SystemExit:
        thread = uncaught.thread.name if uncaught.thread is not None else ""
        where = (uncaught.exc_type, uncaught.exc_value, uncaught.exc_traceback)
        get_logger(thread=thread).error("uncaught exception", exc_info=where)


class _Lines:
    """Passes lines to the writer."""

    def __init__(self, writer: LogWriter) -> None:
        self._write = writer.write

    def msg(self, line: str) -> None:
        self._write(line)

    debug = info = warning = warn = error = critical = fatal = exception = log = msg


class _Forward(logging.Handler):
    """Passes records of the standard library's logging to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        log = get_logger(source=record.name)
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def _to_json(event: EventDict, **_options: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()


def _to_text(_logger: object, _method: str, event: EventDict) -> str:
    """Return `time level event key=value …`, with the traceback below."""
    time, level, message = event.pop("timestamp"), event.pop("level"), event.pop("event")
    traceback = event.pop("exception", None)
    event.pop("service", None)  # the launcher and compose prefix the line with the name
    pairs = "".join(f" {key}={_quote(value)}" for key, value in event.items())
    return f"{time} {level:<7} {message}{pairs}" + (f"\n{traceback}" if traceback else "")


def _quote(value: object) -> str:
    text = str(value)
    return repr(text) if not text or " " in text or "\n" in text else text
