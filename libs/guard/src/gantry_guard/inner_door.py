"""Stands before a remoting port that only Gantry's own services use: the scheduler's, the transaction checker's."""

from __future__ import annotations

from typing import Final

from gantry_access.rights.request_table import ABOUT_ACCESS
from gantry_guard.audit import Asked
from gantry_guard.callers import INTRODUCTION, introduce, request_name, source_of
from gantry_guard.introduction import INNER, Introductions
from gantry_guard.refusals import Refusals
from gantry_link.serving.peer import Peer
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.frame_stream import RawFrame

ONLY_SERVICES: Final = "only services of Gantry may send requests to this port."


class InnerDoor:
    """Admits the frames of peers that introduced themselves."""

    def __init__(self, introductions: Introductions, refusals: Refusals) -> None:
        self._introductions, self._refusals = introductions, refusals

    def admit(self, peer: Peer, raw: RawFrame) -> bool:
        """Return whether the handler may handle a frame; False: it is done with. Raises RefusedRequest, and MalformedHeader."""
        if INNER in peer.attributes:
            return True
        command = decode_command(raw)
        if command.is_response:
            return False
        if command.code in INTRODUCTION:
            introduce(self._introductions, self._refusals.audit, peer, command)
            return False
        asked = Asked("", source_of(peer).text, request_name(command.code))
        if self._refusals.permits(asked, "not_inner", is_about_access=command.code in ABOUT_ACCESS):
            return True
        raise RefusedRequest(ResponseCode.NO_PERMISSION, ONLY_SERVICES)
