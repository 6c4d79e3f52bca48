"""Requests 3001 to 3005: RocketMQ's users. Passwords are read and never answered."""

from collections.abc import Awaitable, Callable
from functools import partial

from broker_store.access.administration import AccessAdministration
from broker_store.access.asker import AskerOf
from broker_store.ports import Commands, Peer
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_access.formats.refused_change import RefusedChange
from gantry_access.formats.user_info import read_new_user, read_user_change, write_user, write_users
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.access import UserFilterHeader, UserHeader

USERNAME_BLANK = "The username is blank"


class UserHandlers:
    """Handles requests about users."""

    def __init__(
        self, administration: AccessAdministration, deferred: DeferredReplies, asker_of: AskerOf
    ) -> None:
        self._administration = administration
        self._deferred = deferred
        self._asker_of = asker_of

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.AUTH_CREATE_USER: ("adminBroker", self.create),
            RequestCode.AUTH_UPDATE_USER: ("adminBroker", self.update),
            RequestCode.AUTH_DELETE_USER: ("adminBroker", self.delete),
            RequestCode.AUTH_GET_USER: ("adminBroker", self.get),
            RequestCode.AUTH_LIST_USER: ("adminBroker", self.list),
        }

    def create(self, peer: Peer, command: Command) -> None:
        """Handle 3001: a new user."""
        change = read_new_user(command.body, command.read(UserHeader).username)
        create = partial(self._administration.create_user, self._asker_of(peer, command), change)
        self._deferred.answer(peer, command, answered(command, create))

    def update(self, peer: Peer, command: Command) -> None:
        """Handle 3002: other parts of a user."""
        change = read_user_change(command.body, command.read(UserHeader).username)
        update = partial(self._administration.update_user, self._asker_of(peer, command), change)
        self._deferred.answer(peer, command, answered(command, update))

    def delete(self, peer: Peer, command: Command) -> None:
        """Handle 3003: delete a user, with its policies."""
        delete = partial(self._administration.delete_user, self._asker_of(peer, command), _named(command))
        self._deferred.answer(peer, command, answered(command, delete))

    def get(self, _peer: Peer, command: Command) -> bytes:
        """Handle 3004: one user; no body if it does not exist."""
        account = self._administration.table.state.find(_named(command))
        body = b"" if account is None or account.user.is_inner else write_user(account.user)
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=body)

    def list(self, _peer: Peer, command: Command) -> bytes:
        """Handle 3005: all users whose name contains the filter; no body if there are none."""
        wanted = command.read(UserFilterHeader).filter or ""
        users = [
            account.user
            for account in self._administration.table.state
            if wanted in account.user.name and not account.user.is_inner
        ]
        body = write_users(sorted(users, key=lambda user: user.name)) if users else b""
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=body)


async def answered(command: Command, change: Callable[[], Awaitable[None]]) -> bytes:
    """Make a change. Returns the reply; that of a refusal includes its fields."""
    try:
        await change()
    except RefusedRequest as refusal:
        return encode_response(refusal.code, command.opaque, refusal.fields, remark=refusal.remark)
    return encode_response(ResponseCode.SUCCESS, command.opaque)


def _named(command: Command) -> str:
    name = command.read(UserHeader).username
    if not name.strip():
        raise RefusedChange(ResponseCode.INVALID_PARAMETER, USERNAME_BLANK)
    return name
