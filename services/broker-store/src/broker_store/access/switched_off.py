"""The requests about users while access control is off: refused, with how to switch it on."""

from broker_store.ports import Commands, Peer
from gantry_wire.codes import GantryCode, RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command

OFF = (
    "access control is off: nobody is checked, so users and policies mean nothing. Switch it on with "
    "`./gantry access init`, which makes the key file (access_key_file) and the first user, and restart the cluster"
)
CODES = (
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
    RequestCode.DELETE_ACL_CONFIG,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    RequestCode.AUTH_CREATE_USER,
    RequestCode.AUTH_UPDATE_USER,
    RequestCode.AUTH_DELETE_USER,
    RequestCode.AUTH_GET_USER,
    RequestCode.AUTH_LIST_USER,
    RequestCode.AUTH_CREATE_ACL,
    RequestCode.AUTH_UPDATE_ACL,
    RequestCode.AUTH_DELETE_ACL,
    RequestCode.AUTH_GET_ACL,
    RequestCode.AUTH_LIST_ACL,
    GantryCode.ACCESS_CHANGES,
    GantryCode.ACCESS_CHANGE,
)
"""Every request about users and policies."""


def off_commands() -> Commands:
    """Return the entries of the command table."""
    return dict.fromkeys(CODES, ("adminBroker", _refuse))


def _refuse(_peer: Peer, _command: Command) -> bytes | None:
    raise RefusedRequest(ResponseCode.NO_PERMISSION, OFF, {"gantryCode": "ACCESS_OFF"})
