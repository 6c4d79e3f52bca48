"""Settings of access control that would not do what they say are refused."""

import pytest

from gantry_chassis.settings.access import AccessSettings
from gantry_chassis.settings.loading import SettingsRefused, load_settings

KEYS, VERIFIED = "access_key_file=keys", ("tls_client_ca_file=ca.pem", "tls_client_auth=optional")


def loaded(*sets):
    argv = [word for one in sets for word in ("--set", one)]
    return load_settings(AccessSettings, "SOME", argv, environ={})


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (("tls_users=true", *VERIFIED), "needs users: set access_key_file"),
        (("tls_users=true", KEYS), "tls_client_auth=optional or require"),
        (("tls_users=true", KEYS, VERIFIED[0]), "tls_client_auth=optional or require"),
        (("tls_client_auth=require",), "needs tls_client_ca_file"),
    ],
)
def test_certificates_are_no_users_where_none_is_verified_or_no_user_exists(sets, words):
    with pytest.raises(SettingsRefused, match=words):
        loaded(*sets)


def test_certificates_are_users_only_if_it_is_set():
    assert not loaded(KEYS, *VERIFIED).tls_users
    assert loaded("tls_users=true", KEYS, *VERIFIED).tls_users
