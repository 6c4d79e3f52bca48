"""Trace of consumption: a record before and one after each message's call, sent to the trace topic by a separate producer."""

from __future__ import annotations

from itertools import count

from gantry_wire.messages.properties import MSG_REGION
from gantrymq.hooks import ConsumeCall
from gantrymq.machine import Machine, wall_ms
from gantrymq.tracing.records import after_record, before_record
from gantrymq.tracing.tracer import Tracer

_SUCCESS, _FAILED = 0, 4
"""Context codes of RocketMQ's trace."""
_NOTE = "trace"


class ConsumeTrace:
    """A consume hook that writes the trace of a group."""

    def __init__(self, tracer: Tracer, group: str, machine: Machine) -> None:
        self._tracer = tracer
        self._group = group
        self._numbers = count(1)
        self._machine = machine
        self._started = f"{machine.wall_ns():x}"

    def before(self, call: ConsumeCall) -> None:
        """Record the messages before the call."""
        request = f"{self._started}-{next(self._numbers)}"
        call.notes[_NOTE] = request
        now_ms = wall_ms(self._machine)
        for message in call.messages:
            self._tracer.add(
                before_record(
                    self._group,
                    message.properties.get(MSG_REGION, ""),
                    request,
                    started_ms=now_ms,
                    message_id=message.message_id,
                    retries=message.reconsume_times,
                    keys=" ".join(message.keys),
                )
            )

    def after(self, call: ConsumeCall) -> None:
        """Record their outcome."""
        success = bool(call.success)
        for message in call.messages:
            self._tracer.add(
                after_record(
                    self._group,
                    call.notes.get(_NOTE, ""),
                    message_id=message.message_id,
                    milliseconds=round(call.seconds * 1000 / max(len(call.messages), 1)),
                    success=success,
                    keys=" ".join(message.keys),
                    context_code=_SUCCESS if success else _FAILED,
                    ended_ms=wall_ms(self._machine),
                )
            )
