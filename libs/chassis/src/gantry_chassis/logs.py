"""Structured logs on stderr: one line an event, as text or JSON, with the request id of the current task.

What other libraries say through `logging` comes out the same way, from WARNING upward.
"""

import contextlib
import logging
import sys
from collections.abc import Generator
from contextvars import ContextVar
from typing import Any

import msgspec


@contextlib.contextmanager
def _absent(module: str) -> Generator[None]:
    """Let imports of `module` fail for a moment.

    structlog imports rich wherever it is installed, for tracebacks that nobody here prints: 12 MB and 150 ms a process.
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

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

request_id: ContextVar[str] = ContextVar("request_id", default="")


def configure(service: str, level: str = "info", *, json: bool = False) -> None:
    """Set up logs of this process once; `level` is one of LEVELS."""

    def add_context(_logger: object, _method: str, event: EventDict) -> EventDict:
        event["service"] = service
        if identifier := request_id.get():
            event["request_id"] = identifier
        return event

    renderer = structlog.processors.JSONRenderer(serializer=_to_json) if json else _to_text
    structlog.configure(
        processors=[
            add_context,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=_StandardError,
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_Forward()], level=logging.WARNING, force=True)


def get_logger(**fields: object) -> FilteringBoundLogger:
    """Return a logger that adds `fields` to every event. Safe to call at import, before `configure`."""
    return structlog.get_logger(**fields)


class _StandardError:
    """Writes lines to stderr. Where nobody reads them any more the process goes on: it may be draining just then."""

    def __init__(self, *_args: object) -> None:
        pass

    def msg(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    debug = info = warning = warn = error = critical = fatal = exception = log = msg


class _Forward(logging.Handler):
    """Hands records of the standard library's logging to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        log = get_logger(source=record.name)
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def _to_json(event: EventDict, **_options: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()


def _to_text(_logger: object, _method: str, event: EventDict) -> str:
    """Return `time level event key=value …`, the traceback below."""
    time, level, words = event.pop("timestamp"), event.pop("level"), event.pop("event")
    traceback = event.pop("exception", None)
    event.pop("service", None)  # the launcher and compose put the name in front of the line
    pairs = "".join(f" {key}={_quote(value)}" for key, value in event.items())
    return f"{time} {level:<7} {words}{pairs}" + (f"\n{traceback}" if traceback else "")


def _quote(value: object) -> str:
    text = str(value)
    return repr(text) if not text or " " in text or "\n" in text else text
