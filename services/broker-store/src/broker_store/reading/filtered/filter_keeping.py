"""The filters of a store: the table, its file consumerFilter.json, code 46, and the removal of long-dead filters."""

import asyncio
from collections.abc import Awaitable, Callable

from broker_store.config.config_files import ConfigFile
from broker_store.filters.compiled import compile_or_refuse, refuse_class_filter
from broker_store.filters.table import FilterTable
from broker_store.ports import Commands, Peer
from broker_store.reading.read_settings import ReadSettings
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers
from gantry_wire.bodies.clients import CheckClientRequestBody
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.subscription import TAG

SAVE_SECONDS = 10.0
"""RocketMQ's interval for this file."""

_log = get_logger()


class Filters:
    """Owns the table. The file only serves tools and RocketMQ: if it is lost, heartbeats fill the table again."""

    def __init__(
        self, file: ConfigFile, settings: ReadSettings, now_ms: Callable[[], int], thread: Workers
    ) -> None:
        self.table = FilterTable()
        self._file = file
        self._settings = settings
        self._now_ms = now_ms
        self._thread = thread
        content = file.load()
        if content is not None and not self.table.load(content, now_ms()):
            _log.error("consumerFilter.json has an unknown format and is ignored", path=file.path)
        self._saved = self.table.changes
        self._is_stopped = False

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {RequestCode.CHECK_CLIENT_CONFIG: ("clientManager", self.check_config)}

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the background loops."""
        return {"filters": self._save_and_clean}

    def check_config(self, _peer: Peer, command: Command) -> bytes:
        """Handle 46: whether a subscription can be served.

        Compiles a property filter, so that the answer names its fault.
        """
        subscription = decode_body(command.body, CheckClientRequestBody).subscription_data
        kind = subscription.expression_type or TAG
        if subscription.class_filter_mode:
            raise refuse_class_filter()
        if kind != TAG:
            if not self._settings.property_filter_enable:
                remark = f"The broker does not support consumer to filter message by {kind[:64]}"
                raise RefusedRequest(ResponseCode.SYSTEM_ERROR, remark)
            compile_or_refuse(kind, subscription.sub_string)
        return encode_response(ResponseCode.SUCCESS, command.opaque)

    async def stop(self) -> None:
        """Save the table for the last time: the loop that calls `save` ends later than the thread."""
        await self.save()
        self._is_stopped = True

    async def save(self) -> None:
        """Write the file if anything changed. A failure is logged; the next call retries."""
        changes = self.table.changes
        if changes == self._saved or self._is_stopped:
            return
        content = self.table.encode()
        try:
            await self._thread.run(self._file.store_bytes, content)
        except OSError as error:
            _log.error("filters could not be saved, trying again", path=self._file.path, error=str(error))
            return
        self._saved = changes

    async def _save_and_clean(self) -> None:
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            self.table.clean(self._now_ms())
            await self.save()
