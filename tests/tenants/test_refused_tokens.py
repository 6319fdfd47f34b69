"""The refusal of a token says what is wrong with it."""

from datetime import timedelta
from pathlib import Path

import pytest

from local2.atomic_file import write_atomically
from local2.errors import ForbiddenError
from local2.tenants import directory
from local2.tenants.credentials import (
    SIGNING_KEY,
    new_token_key,
    rotate_token_key,
    signed_token,
)
from local2.tenants.directory import TENANTS_FILE, Entries, TenantEntry
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


@pytest.mark.parametrize("interrupted_at", [TENANTS_FILE, SIGNING_KEY])
def test_a_rotation_that_is_interrupted_leaves_a_key_whose_tokens_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted_at: str
) -> None:
    Entries(
        memory="", tenants={"acme": TenantEntry(tokens=[new_token_key(tmp_path, "acme")])}
    ).write(tmp_path)

    def interrupted(file: Path, data: bytes, *, mode: int) -> None:
        if file.name == interrupted_at:
            raise KeyboardInterrupt
        write_atomically(file, data, mode=mode)

    monkeypatch.setattr(directory, "write_atomically", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rotate_token_key(tmp_path, "acme")
    token = signed_token(tmp_path, "acme", "ada", timedelta(hours=1))

    entries = Entries.read(tmp_path)
    assert entries is not None
    assert Verifier("acme", entries.tenants["acme"].tokens).person(token).user == "ada"
