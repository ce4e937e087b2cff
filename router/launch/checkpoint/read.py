"""From a checkpoint folder to the memory shape of its model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from router.launch.checkpoint.unusual import unusual
from router.launch.checkpoint.weights import weight_bytes
from router.launch.files import LaunchFileError, Reader
from router.launch.plan.shapes import Attention, Gqa, Mla, ModelShape

_CONTEXT_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)
_EXPERT_KEYS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
_UNKNOWN_CONTEXT = 2048


def read_model(folder: Path) -> ModelShape:
    """The shape of the model in a folder with config.json and safetensors files or their index.

    Raises:
        LaunchFileError: a file is missing or says too little; the text names file and key.
    """
    place = folder / "config.json"
    whole = Reader.of(str(place), _json(place))
    text = _language_model(whole)
    architecture = next(iter(whole.texts("architectures")), "unknown")
    return ModelShape(
        name=folder.resolve().name,
        path=str(folder),
        architecture=architecture,
        weight_bytes=weight_bytes(folder),
        layers=text.needed("num_hidden_layers"),
        heads=text.needed("num_attention_heads"),
        attention=_attention(text),
        max_context=_max_context(text),
        fp8_kv=_fp8_kv(folder, whole, text),
        measured=unusual(architecture, text.values),
        quantization=_quantization(whole, text),
        experts=next((count for key in _EXPERT_KEYS if (count := text.values.get(key))), 0),
        expert_width=text.whole("moe_intermediate_size") or 0,
        weight_block=_weight_block(whole, text),
        multimodal="vision_config" in whole.values,
    )


def _json(file: Path) -> object:
    try:
        return json.loads(file.read_bytes())
    except OSError as error:
        raise LaunchFileError(f"{file}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise LaunchFileError(f"{file}: is not JSON: {error}") from None


def _language_model(whole: Reader) -> Reader:
    for key in ("text_config", "llm_config", "language_config"):
        inner = whole.values.get(key)
        if isinstance(inner, dict) and "num_hidden_layers" in inner:
            return Reader.of(f"{whole.place}: {key}", inner)
    return whole


def _attention(text: Reader) -> Attention:
    if text.values.get("kv_lora_rank"):
        return Mla(text.needed("kv_lora_rank"), text.needed("qk_rope_head_dim"))
    heads = text.needed("num_attention_heads")
    kv_heads = text.values.get("num_key_value_heads")
    if isinstance(kv_heads, list):
        kv_heads = max((each for each in kv_heads if isinstance(each, int)), default=None)
    elif kv_heads is not None:
        kv_heads = text.needed("num_key_value_heads")
    head_dim = text.whole("head_dim", 1) or text.needed("hidden_size") // heads
    return Gqa(kv_heads or heads, head_dim, text.whole("v_head_dim", 1) or head_dim)


def _max_context(text: Reader) -> int:
    """As SGLang derives it: a scaled model knows more than its base did, unless the file says both."""
    scaling = text.values.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    factor = scaling.get("factor", 1)
    if (
        "original_max_position_embeddings" in scaling
        or kind == "llama3"
        or not isinstance(factor, int | float)
    ):
        factor = 1
    for key in _CONTEXT_KEYS:
        length = text.whole(key, 1)
        if length is not None:
            return int(length * factor)
    return _UNKNOWN_CONTEXT


def _quantization(whole: Reader, text: Reader) -> str | None:
    found = _quantization_config(whole, text)
    method = found.get("quant_method") or found.get("quant_algo")
    return str(method) if method else None


def _weight_block(whole: Reader, text: Reader) -> int:
    blocks = _quantization_config(whole, text).get("weight_block_size")
    return blocks[0] if isinstance(blocks, list) and blocks and isinstance(blocks[0], int) else 0


def _quantization_config(whole: Reader, text: Reader) -> Mapping[str, Any]:
    found = whole.values.get("quantization_config") or text.values.get("quantization_config")
    return found if isinstance(found, dict) else {}


def _fp8_kv(folder: Path, whole: Reader, text: Reader) -> bool:
    own = folder / "hf_quant_config.json"
    beside = _json(own) if own.is_file() else {}
    nested = beside.get("quantization", {}) if isinstance(beside, dict) else {}
    algorithm = nested.get("kv_cache_quant_algo") if isinstance(nested, dict) else None
    scheme = _quantization_config(whole, text).get("kv_cache_scheme")
    bits = scheme.get("num_bits") if isinstance(scheme, dict) else None
    return algorithm == "FP8" or bits == 8
