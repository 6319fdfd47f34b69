"""Settings name endpoints; keys are read from the environment or a file, and never shown."""

from pathlib import Path

import pytest

from local2.endpoint.address import Endpoint, endpoint_of, status_error
from local2.errors import ConfigError

URL = "http://127.0.0.1:8080/v1"
MARK = "sk-mark"


def test_a_key_is_read_from_the_environment_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{MARK}\n")
    of_variable = endpoint_of(URL, "SOME_KEY", "config/x.yaml", {"SOME_KEY": f" {MARK} "})
    of_file = endpoint_of(URL, str(file), "config/x.yaml", {})
    none = endpoint_of(URL, None, "config/x.yaml", {"OPENAI_API_KEY": MARK})

    assert of_variable == of_file
    assert of_file.headers["Authorization"] == f"Bearer {MARK}"
    assert "Authorization" not in none.headers
    assert MARK not in f"{of_file!r} {of_file} {of_file.shown}"


@pytest.mark.parametrize("setting", [MARK, f"/{MARK}", f"~{MARK}/x", f"{MARK}\0"])
def test_a_missing_key_is_an_error_that_does_not_repeat_the_setting(
    setting: str,
) -> None:
    with pytest.raises(ConfigError, match=r"openai_key in config/x\.yaml") as caught:
        endpoint_of(URL, setting, "config/x.yaml", {})
    assert MARK not in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("key", ["sk-é", "sk-a\nb", "sk-\x7f"])
def test_a_key_that_is_invalid_in_a_header_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="no HTTP header") as caught:
        endpoint_of(URL, "K", "config/x.yaml", {"K": key})
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize("url", [None, "", "127.0.0.1:8080", "ftp://h/v1", f"http://u:{MARK}@[::1"])
def test_an_invalid_address_is_an_error_in_the_settings(url: str | None) -> None:
    with pytest.raises(ConfigError, match=r"config/x\.yaml") as caught:
        endpoint_of(url, None, "config/x.yaml", {})
    assert MARK not in str(caught.value)
    assert "openai_url" in str(caught.value) or "http://127.0.0.1:8080/v1" in str(caught.value)


@pytest.mark.parametrize(
    ("base", "full"),
    [
        (URL, f"{URL}/models"),
        (f"{URL}/", f"{URL}/models"),
        ("https://h/openai/v1?api-version=1", "https://h/openai/v1/models?api-version=1"),
    ],
)
def test_operations_are_addressed_below_the_base_url(base: str, full: str) -> None:
    assert str(Endpoint(url=base, settings="x").at("models")) == full


@pytest.mark.parametrize(
    ("status", "content", "text"),
    [
        (500, b'{"error": {"message": "boom"}}', "failed (500): boom. Try again later."),
        (500, b'{"error": "It broke."}', "failed (500): It broke. Try again later."),
        (401, b"", "or give it access to its models; then"),
    ],
)
def test_an_error_message_consists_of_whole_sentences(
    status: int, content: bytes, text: str
) -> None:
    endpoint = Endpoint(url=URL, key=MARK, settings="config/x.yaml")

    assert text in str(status_error(endpoint, status, content, model=""))
