"""Requests 50 to 53 of ACL 1.0 (RocketMQ 4.9), carried out on users and policies."""

from functools import partial
from typing import Any

import msgspec

from broker_store.access.access_entries import AccessEntries
from broker_store.access.administration import AccessAdministration
from broker_store.access.asker import Asker, AskerOf
from broker_store.access.plain_accounts import UNCHANGED, changed_account
from broker_store.access.users_handler import answered
from broker_store.ports import Commands, Peer
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_access.errors import AccessError, IllegalUser
from gantry_access.formats.refused_change import RefusedChange
from gantry_access.formats.user_info import UserChange
from gantry_access.model.users import UserType, check_user_name
from gantry_access.secrets.hidden_text import HiddenText
from gantry_wire.bodies.cluster import DataVersion
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.access import (
    AccessKeyHeader,
    AclVersionReplyHeader,
    GlobalWhiteAddressesHeader,
    PlainAccessHeader,
)

UPDATE_FAILED, DELETE_FAILED, ADDRESSES_FAILED = ResponseCode(209), ResponseCode(210), ResponseCode(211)
"""RocketMQ 4.9's codes of these requests. RocketMQ 5 gives the numbers another meaning."""
PLAIN_FILE = "plain_acl.yml"
"""The file that 4.9's tool shows a version of."""
NO_GLOBAL_ADDRESSES = (
    "global white addresses would let clients in without a signature, which this broker never does: "
    "give these clients a user, and name their networks in its policies"
)


class PlainAclHandlers:
    """Handles requests of ACL 1.0."""

    def __init__(
        self,
        administration: AccessAdministration,
        entries: AccessEntries,
        deferred: DeferredReplies,
        asker_of: AskerOf,
        names: AclVersionReplyHeader,
    ) -> None:
        """`names`: the reply to 52 with the names of this broker; its versions are set for each reply."""
        self._administration = administration
        self._entries = entries
        self._deferred = deferred
        self._asker_of = asker_of
        self._names = names

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: ("adminBroker", self.update),
            RequestCode.DELETE_ACL_CONFIG: ("adminBroker", self.delete),
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: ("adminBroker", self.version),
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: ("adminBroker", self.addresses),
        }

    def update(self, peer: Peer, command: Command) -> None:
        """Handle 50: create an account, or change its given fields."""
        update = partial(self._update, self._asker_of(peer, command), command.read(PlainAccessHeader))
        self._deferred.answer(peer, command, answered(command, update))

    async def _update(self, asker: Asker, header: PlainAccessHeader) -> None:
        name = header.access_key
        try:
            check_user_name(name)
            found = self._administration.table.state.find(name)
            user = None if found is None else found.user
            account = changed_account(user, self._administration.policies_of(name), _fields(header))
        except AccessError as error:
            raise RefusedChange(UPDATE_FAILED, str(error)) from error
        secret = None if account.secret == HiddenText(UNCHANGED) and user is not None else account.secret
        change = UserChange(name, secret, account.user.type)
        if user is not None and user.type is UserType.SUPER and change.type is UserType.SUPER:
            change = UserChange(name, secret)
        await self._administration.replace(asker, change, account.policies, is_new=user is None)

    def delete(self, peer: Peer, command: Command) -> None:
        """Handle 51: delete a user with its policies."""
        name = command.read(AccessKeyHeader).access_key
        if self._administration.table.state.find(name) is None:
            raise RefusedChange(
                DELETE_FAILED, f"The accesskey[{name}] corresponding to accessConfig has been deleted failed."
            )
        delete = partial(self._administration.delete_user, self._asker_of(peer, command), name)
        self._deferred.answer(peer, command, answered(command, delete))

    def version(self, _peer: Peer, command: Command) -> bytes:
        """Handle 52: a version that changes with every change."""
        newest_ms = max((entry.stamp_ms for entry in self._entries.entries()), default=0)
        version = DataVersion(counter=self._entries.version, timestamp=newest_ms)
        text = encode_body(version, standard=True).decode()
        reply = msgspec.structs.replace(
            self._names, version=text, all_acl_file_version=f'{{"{PLAIN_FILE}":{text}}}'
        )
        return encode_response(ResponseCode.SUCCESS, command.opaque, reply)

    def addresses(self, _peer: Peer, command: Command) -> bytes:
        """Handle 53: refuse addresses that would open the broker without a signature. None at all is what there is."""
        if command.read(GlobalWhiteAddressesHeader).global_white_addrs.strip():
            raise RefusedChange(ADDRESSES_FAILED, NO_GLOBAL_ADDRESSES)
        return encode_response(ResponseCode.SUCCESS, command.opaque)


def _fields(header: PlainAccessHeader) -> dict[str, Any]:
    """Return the given fields as plain_acl.yml names them. Raises IllegalUser for a secret that would not be one."""
    if header.secret_key == UNCHANGED:
        raise IllegalUser("choose another secret")
    fields: dict[str, Any] = {
        "accessKey": header.access_key,
        "secretKey": header.secret_key,
        "whiteRemoteAddress": header.white_remote_address,
        "admin": header.admin,
        "defaultTopicPerm": header.default_topic_perm,
        "defaultGroupPerm": header.default_group_perm,
        "topicPerms": _list(header.topic_perms),
        "groupPerms": _list(header.group_perms),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _list(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
