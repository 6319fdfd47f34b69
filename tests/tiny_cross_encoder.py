"""A cross-encoder of a page: it likes documents with "gold", dislikes those with "lead".

The logit is 2 for each "gold" of the document less 2 for each "lead"; twice "endless" is infinite.
The token types say what is the document: without them, the words of the question count as well.
"""

from pathlib import Path
from typing import Literal

import onnx
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from local2.model_files import MODEL_FILE, TOKENIZER_FILE

VOCABULARY = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3, "gold": 4, "lead": 5, "endless": 6}
WEIGHTS = "0.0, 0.0, 0.0, 0.0, 2.0, -2.0, 3.0e38"
Form = Literal["column", "vector", "classes", "triple"]
HALVES = """
    half = Constant <value_float = 0.5> ()
    yes = Mul (sums, half)
    no = Neg (yes)
    logits = Concat <axis = 1> (no, yes)
"""
OUTPUTS: dict[Form, tuple[str, str]] = {
    "column": ("n, 1", "logits = Identity (sums)"),
    "vector": ("n", "logits = Squeeze (sums, axis)"),
    "classes": ("n, 2", HALVES),
    "triple": ("n, 3", "logits = Concat <axis = 1> (sums, sums, sums)"),
}
"""By form, the shape of the logits and their computation from the sums."""


def model_bytes(
    form: Form = "column",
    *,
    integers: Literal["int32", "int64"] = "int64",
    types: str | None = "token_type_ids",
) -> bytes:
    """Return the model; `types` names its third input."""
    inputs = ["input_ids", "attention_mask", *([types] if types else [])]
    shape, last = OUTPUTS[form]
    counted = f"types = Cast <to = 1> ({types}) counted = Mul (masked, types)"
    graph = f"""
    <ir_version: 8, opset_import: ["": 17]>
    tiny ({", ".join(f"{integers}[n, t] {name}" for name in inputs)}) => (float[{shape}] logits)
    {{
        weights = Constant <value_floats = [{WEIGHTS}]> ()
        scores = Gather (weights, input_ids)
        mask = Cast <to = 1> (attention_mask)
        masked = Mul (scores, mask)
        {counted if types else "counted = Identity (masked)"}
        axis = Constant <value_ints = [1]> ()
        sums = ReduceSum (counted, axis)
        {last}
    }}
    """
    content: bytes = onnx.parser.parse_model(graph).SerializeToString()
    return content


def tokenizer_bytes() -> bytes:
    words = models.WordLevel(VOCABULARY, unk_token="[UNK]")  # noqa: S106 - no password
    tokenizer = Tokenizer(words)
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return tokenizer.to_str().encode()


def write_cross_encoder(folder: Path, model: bytes | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / MODEL_FILE).write_bytes(model_bytes() if model is None else model)
    (folder / TOKENIZER_FILE).write_bytes(tokenizer_bytes())
    return folder
