import resource
import subprocess
import sys

SCRIPT = """
import resource
from gantry_chassis.machine.descriptors import WANTED, raise_limit
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
hard = min(WANTED, hard) if hard != resource.RLIM_INFINITY else WANTED
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
assert raise_limit() == hard
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
assert raise_limit() == hard
"""


def test_the_soft_limit_is_raised_as_far_as_allowed():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
