"""`replicas WORD`: what concerns the replicas of a data directory."""

import os

from gantry_launcher import install
from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.options import parse_rebuild
from gantry_launcher.output.terminal import say
from gantry_launcher.serving.register_again import rebuild_register
from gantry_launcher.serving.serve import OTHERS, claim, unclaim


def replicas(words: list[str]) -> int:
    """Run the command; returns its exit status, or raises Refused."""
    word, *rest = words or [""]
    if word != "rebuild-register":
        raise Refused(f"replicas {word}: write replicas rebuild-register BROKER (see ./gantry --help)")
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
