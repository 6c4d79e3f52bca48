"""How hypothesis looks for counter-examples in every test of the tree; another profile by --hypothesis-profile."""

from hypothesis import HealthCheck, settings

# A busy machine makes examples slow, not wrong: time is judged by bench/, never by a test.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

settings.register_profile("untimed", UNTIMED)
settings.register_profile("ci", UNTIMED, derandomize=True)
settings.register_profile("nightly", UNTIMED, max_examples=2000)
settings.load_profile("untimed")
