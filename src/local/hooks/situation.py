"""Where a hook's memory lies, and for whom it asks."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from local.settings import Settings, load_settings

if TYPE_CHECKING:  # without accounts nobody needs it, and it takes long to import
    from local.tenants.credentials import Credentials


class Situation(NamedTuple):
    home: Path
    settings: Settings
    user: str | None

    @classmethod
    def of(cls, home: Path, user: str | None) -> Self:
        """The memory of that home.

        Raises:
            ConfigError: Its settings cannot be read.
        """
        return cls(home, load_settings(home=home), user)

    @property
    def folder(self) -> Path:
        """What hooks leave for each other."""
        return self.settings.memory.data_dir / "hooks"

    @property
    def turns(self) -> Path:
        return self.folder / "turns"

    def credentials(self) -> "Credentials | None":
        """As whom to connect; None without accounts.

        Raises:
            ConfigError: A file of credentials is missing, or holds none.
        """
        bus = self.settings.bus
        if bus.credentials is None and bus.tenant is None:
            return None
        from local.tenants.credentials import credentials_of  # noqa: PLC0415 - see above

        return credentials_of(bus, self.user)
