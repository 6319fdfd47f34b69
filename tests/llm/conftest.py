"""What tests of models share."""

import pytest

from local.endpoint import clients


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent again is sent at once."""
    monkeypatch.setattr(clients, "FIRST_PAUSE", 0.001)
