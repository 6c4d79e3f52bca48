"""`replicas WORD`: what concerns the replicas of a data directory."""

import os

from gantry_launcher import install
from gantry_launcher.commands.changing_replicas import change_replicas
from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.options import parse_rebuild, parse_replicas
from gantry_launcher.output.terminal import say
from gantry_launcher.serving.register_again import rebuild_register
from gantry_launcher.serving.serve import OTHERS, claim, unclaim


def replicas(words: list[str]) -> int:
    """Run the command; returns its exit status, or raises Refused."""
    word, *rest = words or [""]
    if word in {"add", "remove"}:
        return change_replicas(parse_replicas(words))
    if word != "rebuild-register":
        wanted = "replicas add BROKER, remove BROKER NAME or rebuild-register BROKER"
        raise Refused(f"replicas {word}: write {wanted} (see ./gantry --help)")
    options = parse_rebuild(rest)
    install.ensure(install.RUN_LOCK, say)
    os.umask(OTHERS)
    data = DataDir(options.data)
    if not data.path.exists():
        raise Refused(f"{data.path} does not exist")
    lock = claim(data)
    try:
        return rebuild_register(options, lock)
    finally:
        unclaim(data)
        os.close(lock)
