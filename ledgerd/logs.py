"""Structured logs to stderr: events and numbers, never receipt contents."""

from __future__ import annotations

import logging
import sys

import structlog

__all__ = ["configure_logs"]


def configure_logs(level: str, form: str) -> None:
    """Set up structlog for the process.

    Args:
        level: debug, info, warning or error.
        form: "json" for machines, "console" for people.
    """
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    # Libraries that log on their own join in, so that every line of stderr is one event.
    logging.basicConfig(handlers=[_Forward()], level=logging.WARNING, force=True)
    # Any client can make uvicorn warn, as often as it likes, of requests that are no HTTP.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)


class _Forward(logging.Handler):
    """Standard logging, into ours."""

    def emit(self, record: logging.LogRecord) -> None:
        """One record as one event."""
        log = structlog.get_logger(record.name)
        log.log(record.levelno, "library", logger=record.name, message=record.getMessage())
