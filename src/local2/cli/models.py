"""`local2 models`: fetch models that the vector worker runs."""

import click
import msgspec

from local2.cli.answers import bytes_progress
from local2.cli.commands import command
from local2.cli.output import Output
from local2.model_files import HUB, MODELS, PATHS, fetch_model
from local2.settings import ONNX_PREFIX, Settings

group = click.Group("models", no_args_is_help=True)


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `--json`. `fetched`: false if it was there already."""

    name: str
    folder: str
    fetched: bool


@command(group=group)
@click.argument(
    "name",
    type=click.Choice(tuple(MODELS)),
    help="; ".join(f"{name}: {model.summary}, {model.licence}" for name, model in MODELS.items()),
)
@click.option("--hub", envvar="HF_ENDPOINT", default=HUB, help="The hub or a mirror of it.")
def get(settings: Settings, output: Output, *, name: str, hub: str) -> None:
    """Fetch a cross-encoder for `reranker`, and compare it with the digests that the hub states."""
    with bytes_progress(output) as progress:
        tasks = {path: progress.add_task(path, total=None) for path in PATHS.values()}

        def show(path: str, there: int, size: int) -> None:
            progress.update(tasks[path], completed=there, total=size)

        folder, fetched = fetch_model(name, settings.memory.models_dir, hub=hub, progress=show)
    output.data(Fetched(name=name, folder=str(folder), fetched=fetched))
    what = "was fetched into" if fetched else "is already in"
    output.text(f"{name} {what} {folder}; its digests are right.")
    if settings.memory.reranker_folder != folder:
        output.text(
            f"To use it, set `reranker: {ONNX_PREFIX}{name}` in config/memory.yaml, and start the "
            "stack again."
        )
