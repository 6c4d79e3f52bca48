"""Access control is on where a key file is named, and loads its code only there."""

import subprocess
import sys

import pytest
from guarded import key_file

from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_chassis.settings.access import AccessSettings
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.opening import open_guard


def test_without_a_key_file_it_is_off_and_loads_nothing():
    code = (
        "import sys\nfrom gantry_guard.opening import open_guard\nfrom gantry_guard.exposure import refuse_exposure\n"
        "from gantry_chassis.settings.access import AccessSettings\n"
        "assert open_guard(AccessSettings(), 'store', None, None) is None\n"
        "sys.exit(any(name.startswith(('cryptography', 'gantry_access')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_with_a_key_file_all_parts_are_there(tmp_path):
    metrics = Metrics()
    settings = AccessSettings(
        access_key_file=str(key_file(tmp_path / "keys", bytes(32))),
        access_audit_file=str(tmp_path / "audit"),
        access_addresses=" 10.0.0.1:9876, 10.0.0.2:9876,",
    )
    assert settings.further_addresses == ("10.0.0.1:9876", "10.0.0.2:9876")
    guard = open_guard(settings, "store", metrics, machine())
    assert guard.door("c") is not guard.inner_door()
    guard.audit.close()
    assert {"access_requests", "access_users", "access_complete"} <= {one.name for one in metrics.shown()}


@pytest.mark.parametrize("missing", ["access_key_file", "access_audit_file"])
def test_a_file_that_cannot_be_used_refuses_the_start_and_names_the_setting(tmp_path, missing):
    files = {
        "access_key_file": str(key_file(tmp_path / "keys", bytes(32))),
        "access_audit_file": str(tmp_path / "audit"),
    }
    settings = AccessSettings(**files | {missing: str(tmp_path / "no" / "file")})
    with pytest.raises(StartRefused, match=f"set {missing}"):
        open_guard(settings, "store", Metrics(), machine())
