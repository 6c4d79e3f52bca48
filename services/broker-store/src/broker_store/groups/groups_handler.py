"""Requests 200, 201, 207, 225 and 352: create, list and delete subscription groups. Answers a change once it is saved."""

import asyncio
from dataclasses import dataclass

from msgspec import structs

from broker_store.groups.groups import GroupTable, change_group_attributes, check_group_to_put
from broker_store.groups.offset_keeper import OffsetKeeper
from broker_store.groups.offsets import OffsetTable
from broker_store.metrics.store_metrics import StoreMetrics
from broker_store.ports import Commands, Peer, Saving
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.retrying.policy import RETRY_ATTRIBUTE, IllegalPolicy
from gantry_wire.bodies.cluster import (
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.admin import AllGroupConfigHeader, DeleteGroupHeader, GroupHeader
from gantry_wire.limits import BODY_BYTES_MAX
from gantry_wire.names import PRESET_GROUPS

GROUP_BYTES_MAX = BODY_BYTES_MAX // 4
"""A record holds a group, as JSON, with some fields around it. RocketMQ sets no bound."""


@dataclass(frozen=True, slots=True)
class GroupHandlers:
    """Handles the requests about groups."""

    groups: GroupTable
    saver: Saving
    """The table reports every change to it."""
    offsets: OffsetTable
    keeper: OffsetKeeper
    deferred: DeferredReplies
    metrics: StoreMetrics

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            200: ("adminBroker", self.put),
            201: ("adminBroker", self.all),
            207: ("adminBroker", self.delete),
            225: ("adminBroker", self.put_list),
            352: ("adminBroker", self.one),
        }

    def put(self, peer: Peer, command: Command) -> None:
        """Handle 200: create or change one group."""
        self._put(peer, command, [decode_body(command.body, SubscriptionGroupConfig)])

    def put_list(self, peer: Peer, command: Command) -> None:
        """Handle 225: create or change several groups."""
        self._put(peer, command, decode_body(command.body, SubscriptionGroupList).group_config_list)

    def all(self, _peer: Peer, command: Command) -> bytes:
        """Handle 201: all groups, or those from `groupSeq` on."""
        header = command.read(AllGroupConfigHeader)
        whole = self.groups.wrapper()
        table = whole.subscription_group_table
        if header.group_seq is not None and header.max_group_num is not None and header.max_group_num > 0:
            names = sorted(table)[max(header.group_seq, 0) :][: header.max_group_num]
            table = {name: table[name] for name in names}
        body = SubscriptionGroupWrapper(
            data_version=whole.data_version,
            forbidden_table=whole.forbidden_table,
            subscription_group_table=table,
        )
        total = {"totalGroupNum": str(len(whole.subscription_group_table))}
        return encode_response(ResponseCode.SUCCESS, command.opaque, total, encode_body(body))

    def one(self, _peer: Peer, command: Command) -> bytes:
        """Handle 352: one group."""
        name = command.read(GroupHeader).group
        group = self.groups.find(name)
        if group is None:
            remark = f"SubscriptionGroup {name} not exist!"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(group))

    def delete(self, peer: Peer, command: Command) -> None:
        """Handle 207: delete a group, and its offsets where requested."""
        header = command.read(DeleteGroupHeader)
        if header.group_name in PRESET_GROUPS:
            remark = f"the group {header.group_name} belongs to the system and cannot be deleted"
            raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark)
        self.groups.delete(header.group_name)
        self.metrics.forget_group(header.group_name)
        if header.wants_clean_offset:
            self.offsets.remove_group(header.group_name)
            self.deferred.answer(peer, command, self._when_offsets_are_gone(command))
        else:
            self._answer_when_saved(peer, command.opaque)

    def _put(self, peer: Peer, command: Command, groups: list[SubscriptionGroupConfig]) -> None:
        for group in groups:
            check_group_to_put(group.group_name)  # all or nothing
            present = self.groups.find(group.group_name)
            try:
                attributes = change_group_attributes(present.attributes if present else {}, group.attributes)
            except IllegalPolicy as error:
                remark = f"group {group.group_name}: attribute {RETRY_ATTRIBUTE}: {error}"
                raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark) from error
            _refuse_large(structs.replace(group, attributes=attributes))
        for group in groups:
            self.groups.put(group)
        self._answer_when_saved(peer, command.opaque)

    async def _when_offsets_are_gone(self, command: Command) -> bytes:
        """Save the offsets too: a group created again after a crash must not find its old ones."""
        failure = await self.keeper.save()
        saved: asyncio.Future[RefusedRequest | None] = asyncio.get_running_loop().create_future()
        self.saver.when_saved(saved.set_result)
        return _saved_reply(command.opaque, await saved or failure)

    def _answer_when_saved(self, peer: Peer, opaque: int) -> None:
        self.saver.when_saved(lambda error: peer.send(_saved_reply(opaque, error)))


def _refuse_large(group: SubscriptionGroupConfig) -> None:
    """Refuse a group that no record can hold: it would be tried again for ever, and later changes would wait for it."""
    size = len(encode_body(group))
    if size > GROUP_BYTES_MAX:
        remark = f"the group {group.group_name} has {size} bytes, the limit is {GROUP_BYTES_MAX}: give shorter attributes"
        raise RefusedRequest(ResponseCode.INVALID_PARAMETER, remark)


def _saved_reply(opaque: int, error: OSError | RefusedRequest | None) -> bytes:
    if error is None:
        return encode_response(ResponseCode.SUCCESS, opaque)
    remark = f"the change holds but could not be saved: {error}"
    return encode_response(ResponseCode.SYSTEM_ERROR, opaque, remark=remark)
