"""What a memory tool tells a model where it found nothing, and how to tell which nothing that is.

Tools write it, and whoever reads a turn's results: the rules model, and the MemoryAgent.
"""

NOTHING_FOUND = "No memories found."
_IN_PART = "Not everything could be searched, so it may be known all the same: "


def nothing_found(reason: str | None = None) -> str:
    """The text of a result; with the reason why not everything could be searched, if so."""
    return f"{NOTHING_FOUND}\n({_IN_PART}{reason})" if reason else NOTHING_FOUND


def is_nothing(result: str) -> bool:
    return not result.strip() or result.startswith(NOTHING_FOUND)


def why_in_part(result: str) -> str | None:
    """Of a result that is nothing, why not everything could be searched; None if it was."""
    _, in_part, reason = result.partition(_IN_PART)
    return reason.strip().removesuffix(")") if in_part and is_nothing(result) else None
