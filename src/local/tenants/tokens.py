"""Signed tokens, which state for whom an agent asks: JWT with EdDSA or HS256.

The key determines the algorithm; a token's header is not believed, since a public key must never be
taken for a secret. A tenant may have several keys, so that one can be replaced while tokens of the
other are still in use.
"""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from local.errors import ForbiddenError
from local.protocol.envelope import Name, Role, utc_now

ISSUER_CLAIMS = ["exp", "aud", "sub"]
LEEWAY = 5.0
"""Seconds by which clocks may differ."""
MAX_KNOWN = 10_000
"""Verified tokens of a tenant: verifying one costs more than everything else that a request does
before its tool runs."""


class TokenKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that verifies tokens: a public key in PEM for EdDSA, a secret for HS256."""

    id: str
    algorithm: Literal["EdDSA", "HS256"]
    key: str


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """The person that a token names, until when, and the agent that asks for this person."""

    user: Name
    until: datetime
    since: datetime | None = None
    role: Role | None = None
    agent: Name | None = None


class _Claims(msgspec.Struct, frozen=True, kw_only=True):
    sub: Annotated[Name, msgspec.Meta(min_length=1)]
    exp: float
    nbf: float | None = None
    role: Role | None = None
    agent: Name | None = None


class Verifier:
    """Verifies the tokens of one tenant, which is their audience."""

    def __init__(self, tenant: str, keys: Sequence[TokenKey]) -> None:
        self._tenant = tenant
        self._keys = keys
        self._known = OrderedDict[str, Person]()

    def person(self, token: str, at: datetime | None = None) -> Person:
        """Return the person who asks, now or at that time.

        Raises:
            ForbiddenError: The token is not valid, or was not then.
        """
        person = self._known.get(token)
        if person is None:
            person = self._known[token] = self._verified(token)
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        moment, slack = at or utc_now(), timedelta(seconds=LEEWAY)
        if moment - slack > person.until:
            raise _refused("it has expired")
        if person.since is not None and moment + slack < person.since:
            raise _refused("it is not valid yet")
        return person

    def _verified(self, token: str) -> Person:
        problem = f"the tenant {self._tenant} has no key for tokens"
        for key in self._candidates(token):
            try:
                return self._read(token, key)
            except (jwt.InvalidTokenError, ValueError, OverflowError, RecursionError) as error:
                problem = f"{error}".rstrip(".") or type(error).__name__
        raise _refused(problem)

    def _candidates(self, token: str) -> Sequence[TokenKey]:
        """Return the key that the token names, or all."""
        try:
            named = jwt.get_unverified_header(token).get("kid")
        except (jwt.InvalidTokenError, RecursionError):
            raise _refused("it is not a JWT") from None
        return [key for key in self._keys if key.id == named] if named else self._keys

    def _read(self, token: str, key: TokenKey) -> Person:
        claims: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[key.algorithm],
            audience=self._tenant,
            # Times are compared at every use, and for a turn with when it was sent.
            options={
                "require": ISSUER_CLAIMS,
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
        read = msgspec.convert(claims, _Claims)
        return Person(
            user=read.sub,
            until=datetime.fromtimestamp(read.exp, UTC),
            since=None if read.nbf is None else datetime.fromtimestamp(read.nbf, UTC),
            role=read.role,
            agent=read.agent,
        )


def _refused(why: str) -> ForbiddenError:
    return ForbiddenError(f"The token is not accepted: {why}.", remedy="Send a valid one.")


def new_signing_key(id_: str) -> tuple[str, TokenKey]:
    """Return a private key in PEM, and the public one that verifies what it signs."""
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem, TokenKey(id=id_, algorithm="EdDSA", key=public.decode())


def sign(  # noqa: PLR0913 - one keyword a claim
    private: str,
    key_id: str,
    *,
    tenant: str,
    user: str,
    valid_for: timedelta,
    role: Role | None = None,
    agent: str | None = None,
) -> str:
    """Return a token for a person, signed with a private key in PEM."""
    claims: dict[str, Any] = {"sub": user, "aud": tenant, "exp": utc_now() + valid_for}
    claims |= {key: value for key, value in (("role", role), ("agent", agent)) if value}
    return jwt.encode(claims, private, algorithm="EdDSA", headers={"kid": key_id})
