"""What a system without access control would open to other machines."""

import ipaddress
from enum import Enum

from gantry_launcher.errors import Refused
from gantry_launcher.options import Set, UpOptions

REACHED = "anyone who reaches its ports may read, change and delete everything"


class AccessControl(Enum):
    """How a system decides about requests."""

    ON = "on"
    PERMISSIVE = "permissive"
    """Everybody may do everything but change users: what access control would refuse is noted only, in one process or more."""
    OFF = "off"
    """Everybody on this machine may do everything; its ports are on loopback."""
    INSECURE = "insecure"
    """Everybody may do everything, also from other machines where its ports are open to them; --insecure accepted that."""

    @classmethod
    def of(cls, *, has_keys: bool, is_insecure: bool, is_permissive: bool) -> "AccessControl":
        """Return the one that follows from the keys of a data directory, --insecure, and the mode of the processes."""
        if has_keys:
            return cls.PERMISSIVE if is_permissive else cls.ON
        return cls.INSECURE if is_insecure else cls.OFF

    def words(self, listen: str) -> str:
        """Return what `up` and `status` say about it."""
        if self is AccessControl.ON:
            return "access control: on"
        if self is AccessControl.PERMISSIVE:
            return f"access control: permissive on {listen}: refused requests are noted, and handled as if it were off"
        if is_loopback(listen):
            return f"access control: off, and only this machine reaches {listen}"
        return f"access control: off (--insecure) on {listen}: {REACHED}"


def is_loopback(listen: str) -> bool:
    """Return whether only this machine reaches a listen address, as the services see it. A name counts as open, except localhost."""
    if listen.lower() == "localhost":
        return True
    try:
        found = ipaddress.ip_address(listen.strip("[]"))
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    return found.is_loopback


def open_addresses(listen: str, sets: tuple[Set, ...]) -> list[str]:
    """Return the options that make a process listen beyond this machine."""
    found = [] if is_loopback(listen) else [f"--listen {listen}"]
    return found + [
        f"--set {one.service}.listen={one.value}"
        for one in sets
        if one.key == "listen" and not is_loopback(one.value)
    ]


def is_permissive(sets: tuple[Set, ...]) -> bool:
    """Return whether the options make a process permissive."""
    return any(one.key == "access_mode" and one.value == "permissive" for one in sets)


def refuse_exposed(options: UpOptions, *, has_access: bool) -> None:
    """Raise Refused for a system that other machines reach, without access control that refuses, and without --insecure."""
    opened = open_addresses(options.listen, options.sets)
    if opened and has_access and is_permissive(options.sets) and not options.insecure:
        raise Refused(
            f"{', '.join(opened)} with access_mode=permissive: {REACHED}. Remove that setting, or accept this with --insecure"
        )
    if opened and not has_access and not options.insecure:
        raise Refused(
            f"{', '.join(opened)} without access control: {REACHED}. Switch it on with "
            f"./gantry access init --data {options.data}, or accept this with --insecure"
        )
