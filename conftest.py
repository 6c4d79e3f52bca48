"""How every test of the tree is run: which examples hypothesis tries, and which tests may be tried a second time.

A run judges a change, so two runs of one tree see the same examples in the same order. Looking for new ones is a run of its own:
`./gantry test --hypothesis-profile=explore --randomly-seed=N`.
"""

import pytest
from hypothesis import HealthCheck, settings

# A busy machine makes examples slow, not wrong: time is judged by bench/, never by a test.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

settings.register_profile("same", UNTIMED, derandomize=True)
settings.register_profile("explore", UNTIMED)
settings.register_profile("nightly", UNTIMED, max_examples=2000)
settings.load_profile("same")

PROCESS_MARKERS = ("crash", "cluster")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of real processes one more try: a machine that stood still for seconds is not a fault of the tree.

    The summary names each that needed it (RERUN): once may be the machine, again and again is a fault to be found.
    """
    for item in items:
        if any(item.get_closest_marker(name) for name in PROCESS_MARKERS):
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=3))
