"""The gateway refuses what every service refuses, beside what only it refuses."""

import pytest

from gantry_chassis.settings.loading import SettingsRefused, load_settings
from gateway.settings import GatewaySettings


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (["tls_mode=enforcing"], "needs a certificate: set tls_cert_file"),
        (["tls_client_auth=require"], "needs tls_client_ca_file"),
        (["tls_users=true"], "set access_key_file"),
        (["jwt_audience=orders"], "jwt_issuer is empty"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(sets, words):
    argv = [word for one in sets for word in ("--set", one)]
    with pytest.raises(SettingsRefused, match=words):
        load_settings(GatewaySettings, "GATEWAY", argv, environ={})
