"""How long a client waits for its hooks, as whole processes, beside a bare interpreter."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.client import USER, asking, request_of
from harness.processes import POLL, data_dir, environment_of, running_stack
from harness.report import Figure, milliseconds, percentile, ratio, run
from harness.texts import notes
from local2.hooks.state import Outbox

RECORDS = 1_000
BLOCKS = 6
TRIES = 10
BATCH = 100
NOTES = notes(RECORDS, seed=15)
SESSION = {"session_id": "benchmark", "transcript_path": "transcript.jsonl"}
PROMPT = {**SESSION, "hook_event_name": "UserPromptSubmit", "prompt": NOTES[17][:200]}
STOP = {**SESSION, "hook_event_name": "Stop", "last_assistant_message": NOTES[18]}
BARE = [sys.executable, "-P", "-c", "pass"]


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        async with running_stack(Path(folder)) as url, asking(url) as asker:
            for start in range(0, RECORDS, BATCH):
                said = [{"role": "assistant", "content": text} for text in NOTES[start:][:BATCH]]
                await asker.tool("ingest", request_of(messages=said, session_id="earlier"))
            hooks = HookRuns(Path(folder), url)
            blocks = [await asyncio.to_thread(hooks.block) for _ in range(BLOCKS + 1)][1:]
    bare, prompts, stops, answered = zip(*blocks, strict=True)
    return [
        milliseconds("prompt", "a prompt's hook, p50", prompts, at_most=300),
        ratio("to_bare", "the same to a bare interpreter", prompts, bare),
        milliseconds("stop", "a finished turn's hook", stops, at_most=300),
        Figure(key="answered", about="prompts with a context", blocks=answered, at_least=0.9),
    ]


class HookRuns:
    """Hooks as a client runs them, one after the other."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._environment = {**environment_of(folder), "LOCAL2_BUS__URL": url}
        self._outbox = Outbox(data_dir(folder) / "hooks" / "turns")

    def block(self) -> tuple[float, float, float, float]:
        """Return the p50 of an interpreter and of a prompt, one turn, and the share answered."""
        bare, prompts, answered = [], [], 0
        for _ in range(TRIES):
            bare.append(self._run(BARE, {})[0])
            seconds, output = self._run(self._hook(PROMPT), PROMPT)
            prompts.append(seconds)
            answered += bool(output)
        stop = self._run(self._hook(STOP), STOP)[0]
        while not self._outbox.is_empty:  # otherwise its delivery slows down the next block
            time.sleep(POLL)
        return percentile(bare, 0.5), percentile(prompts, 0.5), stop, answered / TRIES

    def _hook(self, payload: dict[str, Any]) -> list[str]:
        event = str(payload["hook_event_name"])
        home = ["--home", str(self._folder), "--user", USER]
        return [sys.executable, "-P", "-m", "local2.hooks", "claude-code", event, *home]

    def _run(self, command: list[str], payload: dict[str, Any]) -> tuple[float, bytes]:
        """Return the seconds until the process has ended, and its output."""
        begun = time.perf_counter()
        done = subprocess.run(  # noqa: S603 - hooks of ours
            command,
            input=json.dumps(payload).encode(),
            capture_output=True,
            env=self._environment,
            check=True,
        )
        return time.perf_counter() - begun, done.stdout


def main() -> None:
    run(__doc__ or "", measure)
