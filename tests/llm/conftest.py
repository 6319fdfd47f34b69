"""Fixtures for tests of models."""

import pytest

from local2.endpoint import clients


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without a pause."""
    monkeypatch.setattr(clients, "FIRST_PAUSE", 0.001)
