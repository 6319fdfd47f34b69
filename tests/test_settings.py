"""Settings are read from files and the environment, and nothing unknown is accepted."""

from pathlib import Path

import msgspec
import pytest
import yaml

from local2.config_files import load_settings
from local2.errors import ConfigError
from local2.settings import Settings

CONFIG = Path(__file__).parents[1] / "config"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    folder.mkdir()
    return folder


def test_without_files_and_environment_the_defaults_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert load_settings(environment={}) == Settings()


def test_files_override_defaults(folder: Path) -> None:
    (folder / "memory.yaml").write_text("top_k: 7\ndata_dir: elsewhere\n")
    (folder / "bus.yaml").write_text("# nothing but a remark\n")

    settings = load_settings(folder, environment={})

    assert settings.memory.top_k == 7
    assert settings.memory.data_dir == Path("elsewhere")
    assert settings.bus == Settings().bus


def test_the_environment_overrides_files(folder: Path) -> None:
    (folder / "memory.yaml").write_text("top_k: 7\n")
    environment = {
        "LOCAL2_MEMORY__TOP_K": "9",
        "LOCAL2_MEMORY__CHROMA_PATH": "vectors",
        "LOCAL2_BUS__URL": "nats://127.0.0.1:4222",
        "LOCAL2_GENERATOR__TOOLS": "[recall_topic, save_topic]",
        "HOME": "elsewhere",
    }

    settings = load_settings(folder, environment)

    assert settings.memory.top_k == 9
    assert settings.memory.chroma_path == Path("vectors")
    assert settings.bus.url == "nats://127.0.0.1:4222"
    assert settings.generator.tools == ("recall_topic", "save_topic")


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        pytest.param("onnx:tiny", "data/models/tiny", id="fetched"),
        pytest.param("onnx:/srv/models/tiny", "/srv/models/tiny", id="elsewhere"),
        pytest.param("onnx:~/tiny", "/home/ada/tiny", id="the user's own"),
        pytest.param("", None, id="none"),
    ],
)
def test_a_reranker_names_a_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, named: str, expected: str | None
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    environment = {"LOCAL2_MEMORY__DATA_DIR": "data", "LOCAL2_MEMORY__RERANKER": named}

    found = load_settings(folder, environment).memory.reranker_folder

    assert found == (expected and Path(expected))


def test_an_empty_variable_means_an_empty_text_or_none(folder: Path) -> None:
    environment = {"LOCAL2_MEMORY__QUERY_PREFIX": "", "LOCAL2_MEMORY__RERANKER_URL": ""}

    settings = load_settings(folder, environment)

    assert settings.memory.query_prefix == ""
    assert settings.memory.reranker_url is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"topk: 7", "topk", id="unknown key"),
        pytest.param(b"top_k: many", "at `top_k`", id="mistyped value"),
        pytest.param(b"data_dir: 7", "a path", id="a number as a path"),
        pytest.param(b"embedder: magic", "magic", id="unknown choice"),
        pytest.param(b"7: top_k", "Expected", id="a number as a key"),
        pytest.param(b"- top_k", "must hold `key: value` lines", id="a list"),
        pytest.param(b"top_k: [", "Cannot read", id="not YAML"),
        pytest.param(
            b"top_k: 7\ntop_k: 8", "A key is repeated (line 2, column 1)", id="a key given twice"
        ),
        pytest.param(b"top_k: \xff", "Cannot read", id="not UTF-8"),
        pytest.param(b"top_k: 2026-13-45", "not YAML: month", id="a date that is none"),
        pytest.param(b"top_k: 0x_", "not YAML", id="a number without digits"),
        pytest.param(b"top_k: !!bool x", "not YAML", id="a value of another type"),
        pytest.param(b'top_k: "\\UFFFFFFFF"', "not YAML", id="a character that is none"),
        pytest.param(b'embedder: "\\ud800"', "surrogates", id="half a character"),
        pytest.param(b"top_k: " + b"[" * 600, "not YAML", id="nested too deeply"),
        pytest.param(b"data_dir: ~no_such_user/a", "a path", id="the home of nobody"),
        pytest.param(b'data_dir: "a\\0b"', "a path", id="a path with a NUL"),
        pytest.param(b"vector_timeout: .inf", "<= 86400", id="waiting for ever"),
        pytest.param(b"reranker: http://127.0.0.1", "onnx:", id="a reranker of another kind"),
        pytest.param(b"reranker: 'onnx:'", "onnx:", id="a reranker without a folder"),
        pytest.param(
            b"ledger: mysql://ada@db/memory",
            "ledger is not like `postgresql://USER@HOST/DATABASE`",
            id="a database of another kind",
        ),
    ],
)
def test_a_wrong_file_is_refused_and_named(folder: Path, content: bytes, says: str) -> None:
    (folder / "memory.yaml").write_bytes(content)

    with pytest.raises(ConfigError, match=r"memory\.yaml") as caught:
        load_settings(folder, environment={})
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        pytest.param("LOCAL2_MEMORY__TOPK", "7", "topk", id="unknown key"),
        pytest.param("LOCAL2_MEMORY__TOP_K", "many", "at `top_k`", id="mistyped value"),
        pytest.param("LOCAL2_MEMORY__TOP_K", "[", "not YAML", id="not YAML"),
        pytest.param("LOCAL2_MEMORY__TOP_K", "2026-13-45", "not YAML", id="no date"),
        pytest.param("LOCAL2_MEMORY__DATA_DIR", "", "a path", id="no folder"),
        pytest.param("LOCAL2_MEMORY__WEIGHT_USER", "11", "<= 10", id="too much weight"),
        pytest.param("LOCAL2_MEMORIES__TOP_K", "7", "names no setting", id="unknown file"),
        pytest.param("LOCAL2_MEMORY", "7", "names no setting", id="no key"),
    ],
)
def test_a_wrong_override_is_refused_and_named(
    folder: Path, variable: str, value: str, says: str
) -> None:
    with pytest.raises(ConfigError, match="LOCAL2_") as caught:
        load_settings(folder, {variable: value})
    assert says in caught.value.message


def test_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no folder"):
        load_settings(tmp_path / "absent", environment={})


def test_a_folder_in_place_of_a_file_is_refused(folder: Path) -> None:
    (folder / "memory.yaml").mkdir()

    with pytest.raises(ConfigError, match="Cannot read"):
        load_settings(folder, environment={})


@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_the_shipped_file_shows_every_setting_with_its_default(name: str) -> None:
    shown = yaml.safe_load((CONFIG / f"{name}.yaml").read_text(encoding="utf-8"))

    assert set(shown) == set(msgspec.structs.asdict(getattr(Settings(), name)))
    assert getattr(load_settings(CONFIG, environment={}), name) == getattr(Settings(), name)


@pytest.mark.parametrize(
    ("text", "expected"), [("on", "on"), ("off", "off"), ("dry_run", "dry_run")]
)
def test_on_and_off_are_read_as_words_and_not_as_yaml_booleans(
    tmp_path: Path, text: str, expected: str
) -> None:
    (tmp_path / "memory.yaml").write_text(f"anonymise: {text}\n")

    assert load_settings(tmp_path, {}).memory.anonymise == expected
    overridden = load_settings(tmp_path, {"LOCAL2_MEMORY__ANONYMISE": text})
    assert overridden.memory.anonymise == expected


def test_a_remedy_lists_the_known_keys_or_the_choices_where_they_help(folder: Path) -> None:
    def remedy(variable: str, value: str) -> str | None:
        with pytest.raises(ConfigError) as caught:
            load_settings(folder, environment={variable: value})
        return caught.value.remedy

    assert str(remedy("LOCAL2_MEMORY__TOPK", "7")).startswith("Did you mean top_k? Known keys: ")
    assert str(remedy("LOCAL2_MEMORY__XYZ", "7")).startswith("Known keys: data_dir, ")
    assert remedy("LOCAL2_GENERATOR__CHAT", "gpt") == "One of: auto, ollama, openai, rules."
    assert remedy("LOCAL2_MEMORY__TOP_K", "many") is None
