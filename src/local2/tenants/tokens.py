"""Signed tokens that name the person an agent acts for: JWT with EdDSA or HS256.

The key determines the algorithm. A token's header is not trusted, because a public key must never
be used as a secret. A tenant may have several keys, so that a key can be replaced while tokens of
the old one are still in use.

A stack without accounts verifies nothing: PyJWT and cryptography, a third of the time of its
imports, are imported for the first verifier or signature.
"""

# ruff: noqa: PLC0415

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec

from local2.bounded_dict import BoundedDict
from local2.errors import ForbiddenError
from local2.protocol.envelope import Name, Role, utc_now

REQUIRED_CLAIMS = ["exp", "aud", "sub"]
LEEWAY = 5.0
"""Seconds by which clocks may differ."""
MAX_CACHED = 10_000
"""Maximum number of verified tokens cached per tenant. Verifying a token costs more than all other
work before a tool runs."""


class TokenKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that verifies tokens: a public key in PEM for EdDSA, a secret for HS256."""

    id: str
    algorithm: Literal["EdDSA", "HS256"]
    key: str


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """The person that a token names, its validity, and the role and agent that it is limited to."""

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
    """Verifies the tokens of one tenant, which must be their audience."""

    def __init__(self, tenant: str, keys: Sequence[TokenKey]) -> None:
        import jwt

        self._jwt = jwt  # imported here, since importing it would hold up the first request
        self._tenant = tenant
        self._keys = keys
        self._persons_by_token = BoundedDict[str, Person](MAX_CACHED)

    def person(self, token: str, at: datetime | None = None) -> Person:
        """The person that the token names; it must be valid `at` that time, or now.

        Raises:
            ForbiddenError: The token is invalid at that time.
        """
        person = self._persons_by_token.get(token)
        if person is None:
            person = self._persons_by_token[token] = self._verify(token)
        moment, slack = at or utc_now(), timedelta(seconds=LEEWAY)
        if moment - slack > person.until:
            raise _refusal("it has expired")
        if person.since is not None and moment + slack < person.since:
            raise _refusal("it is not valid yet")
        return person

    def _verify(self, token: str) -> Person:
        jwt = self._jwt
        try:
            named = jwt.get_unverified_header(token).get("kid")
        except (jwt.InvalidTokenError, RecursionError):
            raise _refusal("it is not a JWT") from None
        candidates = [key for key in self._keys if key.id == named] if named else self._keys
        problem = (
            f"the tenant {self._tenant} does not have the key that it names"
            if self._keys
            else f"the tenant {self._tenant} has no key for tokens"
        )
        for key in candidates:
            try:
                claims: dict[str, Any] = jwt.decode(
                    token,
                    key.key,
                    algorithms=[key.algorithm],
                    audience=self._tenant,
                    # `person` checks the times at every use; for a turn, as of when it was stored.
                    options={
                        "require": REQUIRED_CLAIMS,
                        "verify_exp": False,
                        "verify_nbf": False,
                        "verify_iat": False,
                    },
                )
                read = msgspec.convert(claims, _Claims)
                for name in (read.sub, read.agent or ""):
                    name.encode()  # fails for half a character, which PyJWT lets pass
                return Person(
                    user=read.sub,
                    until=datetime.fromtimestamp(read.exp, UTC),
                    since=None if read.nbf is None else datetime.fromtimestamp(read.nbf, UTC),
                    role=read.role,
                    agent=read.agent,
                )
            except (jwt.InvalidTokenError, ValueError, OverflowError, RecursionError) as error:
                problem = f"{error}".rstrip(".") or type(error).__name__
        raise _refusal(problem)


def _refusal(why: str) -> ForbiddenError:
    return ForbiddenError(f"The token is not accepted: {why}.", remedy="Send a valid one.")


def new_signing_key(id_: str) -> tuple[str, TokenKey]:
    """A private key in PEM, and the public key that verifies its signatures."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return private, TokenKey(id=id_, algorithm="EdDSA", key=public_of(private))


def public_of(private: str) -> str:
    """The public key, in PEM, that belongs to a private one."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )

    key = load_pem_private_key(private.encode(), password=None)
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def sign(
    private: str,
    key_id: str,
    *,
    tenant: str,
    user: str,
    valid_for: timedelta,
    role: Role | None = None,
    agent: str | None = None,
) -> str:
    """A token for a person, signed with a private key in PEM."""
    import jwt

    claims: dict[str, Any] = {"sub": user, "aud": tenant, "exp": utc_now() + valid_for}
    claims |= {key: value for key, value in (("role", role), ("agent", agent)) if value}
    return jwt.encode(claims, private, algorithm="EdDSA", headers={"kid": key_id})
