"""Where a hook's memory lies, and for whom it asks."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from local.folder import PRIVATE
from local.home import MARK, home_of, own_home
from local.settings import Settings, load_settings

if TYPE_CHECKING:  # without accounts nobody needs it, and it takes long to import
    from local.tenants.credentials import Credentials


def trusted_home(explicit: str | None) -> Path:
    """The home that is named; else the project's, if it was made here; else the user's own.

    A stack makes its folder private. One that came with a project, as in a repository, is open to
    others; it could have prompts sent anywhere, and memories of anybody put into them.
    """
    home = home_of(explicit)
    if explicit is None and home != own_home() and (home / MARK).stat().st_mode & PRIVATE:
        return own_home()
    return home


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
        from local.tenants.asking import credentials_of  # noqa: PLC0415 - see above

        return credentials_of(bus, self.user)
