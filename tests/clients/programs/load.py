"""SGLang's load generator, a compiled module: `load.py FOLDER ARGUMENTS...`.

Loads the module by itself, since the package around it wants torch. The tokenizer that it needs is trained in
FOLDER on the texts that are there.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|end|>"
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def tokenizer(folder: Path) -> None:
    """Train a byte-level BPE on the folder's text files, and save it as the generator wants it."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=[END], initial_alphabet=alphabet)
    made.train([str(file) for file in folder.glob("*.txt")], trainer)
    made.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def generator() -> Any:
    """The compiled module."""
    (package,) = importlib.util.find_spec("sglang").submodule_search_locations  # type: ignore[union-attr, misc]
    (file,) = (Path(package) / "srt" / "rust_extensions").glob("_bench*.so")
    spec = importlib.util.spec_from_file_location("_bench", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    tokenizer(Path(sys.argv[1]))
    generator().run_argv(["load", *sys.argv[2:]])
