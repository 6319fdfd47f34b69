"""The refusal of a token says what is wrong with it."""

from datetime import timedelta

import pytest

from local2.errors import ForbiddenError
from local2.tenants.tokens import Verifier, new_signing_key, sign

PRIVATE, KEY = new_signing_key("beta-1")
TOKEN = sign(PRIVATE, KEY.id, tenant="beta", user="ada", valid_for=timedelta(hours=1))


def test_a_token_of_another_tenants_key_is_not_said_to_lack_all_keys() -> None:
    _, own = new_signing_key("acme-1")

    with pytest.raises(ForbiddenError, match="acme does not have the key that it names"):
        Verifier("acme", [own]).person(TOKEN)


def test_a_tenant_without_keys_says_so() -> None:
    with pytest.raises(ForbiddenError, match="acme has no key for tokens"):
        Verifier("acme", []).person(TOKEN)
