"""Encrypts backups in the format of age, for which making a backup needs no secret.

A public key is one of age (age1…) or SSH. An identity, the secret key, is only read from a file,
because a command's arguments are visible to every user of the machine.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from local2.errors import BackupError, ConfigError, InvalidArgumentsError, extra_to_install

KEY_HELP = "Name a public key of age (age1…) or SSH (ssh-…), or a file of such keys, one per line."


class Seal:
    """Encrypts data to public keys; without any key, it returns the data unchanged."""

    def __init__(self, recipients: Sequence[str] = ()) -> None:
        self.recipients = tuple(sorted(set(recipients)))
        age: Any = _age() if self.recipients else None
        self._age = age
        self._keys: list[Any] = []
        for recipient in self.recipients:
            form = age.ssh if recipient.startswith("ssh-") else age.x25519
            self._keys.append(form.Recipient.from_str(recipient))

    @classmethod
    def for_recipient(cls, recipient: str | None) -> "Seal":
        """Make the seal for the key, or the file of keys, that a setting or an option names.

        Raises:
            InvalidArgumentsError: `recipient` is neither a public key nor a file of public keys.
            ConfigError: The extra for encryption is not installed.
        """
        if not recipient:
            return cls()
        age = _age()
        try:
            keys = [recipient]
            if not recipient.startswith(("age1", "ssh-")):
                lines = Path(recipient).expanduser().read_text(encoding="utf-8").splitlines()
                keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
            if not keys:
                raise InvalidArgumentsError(f"{recipient} holds no key.", remedy=KEY_HELP)
            return cls(keys)
        except OSError as error:
            raise InvalidArgumentsError(
                f"The recipient {recipient!r} cannot be read: {error.strerror}.", remedy=KEY_HELP
            ) from error
        except (UnicodeDecodeError, age.RecipientError) as error:
            raise InvalidArgumentsError(
                f"The recipient is not a key: {error}.", remedy=KEY_HELP
            ) from error

    @property
    def encrypts(self) -> bool:
        return bool(self._keys)

    def encrypt(self, data: bytes) -> bytes:
        return data if self._age is None else bytes(self._age.encrypt(data, self._keys))


class Decrypter:
    """Decrypts data with the secret keys in a file; without a file, it refuses encrypted data."""

    def __init__(self, identity: Path | None = None) -> None:
        """Read the keys from the file `identity`.

        Raises:
            InvalidArgumentsError: The file cannot be read, or holds no secret key.
            ConfigError: The extra for encryption is not installed.
        """
        self._keys: list[Any] = []
        if identity is None:
            return
        age = self._age = _age()
        try:
            text = identity.read_text(encoding="utf-8")
            own = [line for line in text.splitlines() if line.startswith("AGE-SECRET-KEY-")]
            if own:
                self._keys = [age.x25519.Identity.from_str(line) for line in own]
            else:
                self._keys = [age.ssh.Identity.from_buffer(text.encode())]
        except OSError as error:
            raise InvalidArgumentsError(
                f"The identity {identity} cannot be read: {error.strerror}."
            ) from error
        except (UnicodeDecodeError, age.IdentityError) as error:
            raise InvalidArgumentsError(
                f"{identity} holds no secret key of age or SSH.",
                remedy="Name the file that `age-keygen` wrote, or a secret key of SSH.",
            ) from error

    def decrypt(self, data: bytes) -> bytes:
        """Decrypt data.

        Raises:
            BackupError: The data is damaged, or none of the keys decrypts it.
        """
        if not self._keys:
            raise BackupError("The backup is encrypted.", remedy="Name --identity FILE.")
        try:
            return bytes(self._age.decrypt(data, self._keys))
        except self._age.DecryptError as error:
            raise BackupError(
                f"The backup cannot be decrypted: {error}.", remedy=OTHER_KEY
            ) from error


OTHER_KEY = "It was encrypted to another key, or is damaged."


def _age() -> Any:
    """The library that encrypts, which only those who encrypt backups need."""
    try:
        import pyrage  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            "Encrypted backups need the package pyrage, which is not installed.",
            remedy=extra_to_install("backup-encryption"),
        ) from error
    return pyrage
