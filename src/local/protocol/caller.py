"""Who is asking. Only the bus makes a Caller; a tool gets one and cannot choose it."""

import msgspec


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str = "default"
    user: str | None = None
    agent: str | None = None
    session_id: str | None = None
    query_id: str | None = None
    """The turn it asks for."""

    @property
    def principal(self) -> tuple[str, str | None]:
        """Whose doing it is: the tenant and the user."""
        return self.tenant, self.user
