"""Structs whose constructors check types, as their readers do.

What a caller puts into a conversation is then refused where it is put in, and not by a model's
adapter or by a file that cannot be written.
"""

from functools import cache
from typing import get_type_hints

import msgspec

from local2.errors import ConversationError, abridged


class Checked(msgspec.Struct, frozen=True):
    """A Struct that refuses fields of other types than it declares."""

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            ConversationError: A field has another type.
        """
        try:
            msgspec.convert(msgspec.structs.asdict(self), _unchecked(type(self)))
        except msgspec.ValidationError as error:
            raise ConversationError(f"{type(self).__name__}: {abridged(error)}.") from error


@cache
def _unchecked(type_: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The same fields without the check, which would check itself."""
    hints = get_type_hints(type_)
    return msgspec.defstruct(
        type_.__name__, [(name, hints[name]) for name in type_.__struct_fields__]
    )
