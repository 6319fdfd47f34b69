"""A story's file is read into Structs, and every error in it is named with file and field."""

from pathlib import Path

import pytest

from local2.errors import ConfigError
from local2.stories.bench import RepeatedText, StoryTool
from local2.stories.checks import Check, ExpectedCall
from local2.stories.script import (
    Call,
    Discover,
    Rate,
    Raw,
    Restart,
    Say,
    Story,
    StorySession,
    load_story,
)

WHOLE = """
name: A story
description: All there is.
sessions:
  - id: first
    user: richard
    turns:
      - say: Hello
        label: greeting
        times: 2
        within: 3
        expect:
          - tool_called: {name: recall_topic, args: {topic: user.name}}
          - answer_contains: hello
      - call: save_topic
        args: {topic: user.name, content: Richard}
        agent: critic
        eventually: 2
        keep: {saved: data.id}
        expect:
          - result_ok: true
      - raw: '{"payload": {}}'
        to: save_topic
        expect:
          - error_code: bad_request
      - rate: -0.5
        of: greeting
      - discover: true
        expect:
          - tools_include: [save_topic]
      - restart: true
tools:
  - name: list_orders
    description: Every order.
    returns: {repeat: ab, times: 3}
  - {name: ring, returns: Rung.}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "told.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def one_turn(turn: str) -> str:
    return f"name: n\ndescription: d\nsessions:\n  - id: s\n    turns:\n      - {turn}\n"


def test_every_kind_of_step_becomes_its_struct(tmp_path: Path) -> None:
    greeting = ExpectedCall(name="recall_topic", args={"topic": "user.name"})
    assert load_story(written(tmp_path, WHOLE)) == Story(
        name="A story",
        description="All there is.",
        sessions=(
            StorySession(
                id="first",
                user="richard",
                turns=(
                    Say(
                        say="Hello",
                        label="greeting",
                        times=2,
                        within=3,
                        expect=(Check(tool_called=greeting), Check(answer_contains="hello")),
                    ),
                    Call(
                        call="save_topic",
                        args={"topic": "user.name", "content": "Richard"},
                        agent="critic",
                        eventually=2,
                        keep={"saved": "data.id"},
                        expect=(Check(result_ok=True),),
                    ),
                    Raw(
                        raw='{"payload": {}}',
                        to="save_topic",
                        expect=(Check(error_code="bad_request"),),
                    ),
                    Rate(rate=-0.5, of="greeting"),
                    Discover(discover=True, expect=(Check(tools_include=("save_topic",)),)),
                    Restart(restart=True),
                ),
            ),
        ),
        tools=(
            StoryTool(
                name="list_orders",
                description="Every order.",
                returns=RepeatedText(repeat="ab", times=3),
            ),
            StoryTool(name="ring", returns="Rung."),
        ),
    )


def test_a_tool_answers_its_text_or_a_repeated_one() -> None:
    assert StoryTool(name="ring", returns="Rung.").answer == "Rung."
    assert StoryTool(name="ring", returns=RepeatedText(repeat="ab", times=3)).answer == "ababab"


def test_kept_values_replace_their_names_everywhere(tmp_path: Path) -> None:
    first = "{call: x, keep: {one: data.id}}"
    args = "{id: $one, in: [{s: $session}], text: costs $one}"
    expect = "[{result_data: {id: $one}}, {result_contains: a}]"
    turns = f"{first}\n      - {{call: x, args: {args}, expect: {expect}}}"
    _, second = load_story(written(tmp_path, one_turn(turns))).sessions[0].turns
    assert isinstance(second, Call)

    filled = second.filled({"one": 7, "session": "s1"})

    assert filled.args == {"id": 7, "in": [{"s": "s1"}], "text": "costs $one"}
    assert filled.expect == (Check(result_data={"id": 7}), Check(result_contains="a"))


@pytest.mark.parametrize(
    ("turn", "complaint"),
    [
        pytest.param("{say: Hi, call: x}", "here: say and call - at `$.sessions[0].turns[0]`"),
        pytest.param("{shout: Hi}", "here: none - at `$.sessions[0].turns[0]`"),
        pytest.param("just text", "Expected `object`, got `str` - at `$.sessions[0].turns[0]`"),
        pytest.param("{say: 7}", "got `int` - at `$.sessions[0].turns[0].say`"),
        pytest.param("{say: Hi, times: 0}", "`int` >= 1 - at `$.sessions[0].turns[0].times`"),
        pytest.param("{say: Hi, args: {}}", "unknown field `args` - at `$.sessions[0].turns[0]`"),
        pytest.param("{raw: x}", "missing required field `to` - at `$.sessions[0].turns[0]`"),
        pytest.param("{rate: 2}", "`float` <= 1.0 - at `$.sessions[0].turns[0].rate`"),
        pytest.param("{rate: 1}", "Nothing was said yet that could be rated"),
        pytest.param("{rate: 1, of: nobody}", "no earlier label: nobody"),
        pytest.param("{publish: {a: [$b]}}", "Nothing was kept as `$b` - at `$.sessions[0]"),
        pytest.param("{publish: {}, to: tool.schema}", "Invalid enum value 'tool.schema'"),
        pytest.param("{restart: false}", "`restart` can only be true"),
        pytest.param("{discover: false}", "`discover` can only be true"),
        pytest.param("{call: x, args: {a: [$b]}}", "Nothing was kept as `$b` - at `$.sessions[0]"),
        pytest.param(
            "{call: x, keep: {b: data}, expect: [{result_data: {a: $b}}]}",
            "Nothing was kept as `$b`",
        ),
        pytest.param("{call: x, eventually: 3}", "`eventually` needs something to `expect`"),
        pytest.param(
            "{say: Hi, expect: [{result_ok: true}]}",
            "`result_ok` does not apply here; these do: answer_contains",
        ),
        pytest.param(
            "{say: Hi, expect: [{answer_is: Hi}]}",
            "unknown field `answer_is` - at `$.sessions[0].turns[0].expect[0]`",
        ),
        pytest.param(
            "{say: Hi, expect: [{answer_contains: a, answer_lacks: b}]}",
            "exactly one key, not 2 - at `$.sessions[0].turns[0].expect[0]`",
        ),
        pytest.param("{say: Hi, expect: [{}]}", "exactly one key, not 0"),
        pytest.param(
            "{say: Hi, expect: [{answer_matches: '('}]}", "'(' is not a regular expression"
        ),
        pytest.param(
            "{say: Hi, expect: [{tool_called: {name: x, args: {a: ['~(']}}}]}",
            "is not a regular expression",
        ),
        pytest.param(
            "{call: x, expect: [{result_data: {a.b: '~('}}]}", "is not a regular expression"
        ),
    ],
)  # fmt: skip
def test_an_error_is_named_with_its_file_and_field(
    turn: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        load_story(written(tmp_path, one_turn(turn)))
    assert "told.yaml" in str(refused.value)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("name: [", "Cannot read", id="not YAML"),
        pytest.param(
            WHOLE.replace("      - restart: true", "      - {say: Hi, expect: [], expect: []}"),
            "A key is repeated (line",
            id="checks given twice",
        ),
        pytest.param("name: 2026-13-45", "not YAML: month", id="a date that is none"),
        pytest.param('name: "\\UFFFFFFFF"', "not YAML", id="a character that is none"),
        pytest.param(
            WHOLE.replace("name: A story", 'name: "\\ud800"'), "surrogates", id="half a character"
        ),
        pytest.param("name: " + "[" * 2_000, "not YAML", id="nested too deeply"),
        pytest.param(f"{WHOLE}    whole: &a [*a]", "not YAML (line", id="within itself"),
        pytest.param("", "Expected `object`, got `null`", id="empty"),
        pytest.param("- a\n- b", "Expected `object`, got `array`", id="a list"),
        pytest.param("name: n\ndescription: d", "missing required field `sessions`", id="no turns"),
        pytest.param("name: n\ndescription: d\nsessions: []", "length >= 1", id="no session"),
        pytest.param(
            WHOLE + "  - {name: ring.out, returns: a}", "matching regex", id="no tool's name"
        ),
        pytest.param(WHOLE + "author: me", "unknown field `author`", id="unknown key"),
        pytest.param(
            WHOLE.replace("      - restart: true", "      - {say: Hi, label: greeting}"),
            "The label `greeting` is used twice - at `$.sessions[0].turns[5]`",
            id="label twice",
        ),
    ],
)
def test_a_file_that_is_not_a_story_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_story(written(tmp_path, text))
    assert "told.yaml" in str(refused.value)
    assert complaint in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml"):
        load_story(tmp_path / "missing.yaml")
