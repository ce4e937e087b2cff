"""Checkpoint folders, right and wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from router.launch.checkpoint import read_model
from router.launch.files import LaunchFileError
from router.launch.plan import Gqa, Mla
from tests.unit.launch import models
from tests.unit.launch.models import write_checkpoint


def tensors(file: Path, sizes: dict[str, int], cut: int = 0) -> None:
    """A safetensors file of zeros."""
    at, header = 0, {"__metadata__": {"format": "pt"}}
    for name, size in sizes.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}  # type: ignore[dict-item]
        at += size
    text = json.dumps(header).encode()
    file.write_bytes((len(text).to_bytes(8, "little") + text + bytes(at))[: -cut or None])


def read(folder: Path, config: dict[str, Any], total_size: int = 1000) -> Any:
    return read_model(write_checkpoint(folder, config, total_size))


def test_a_dense_model(tmp_path: Path) -> None:
    found = read(tmp_path / "llama", models.LLAMA_70B, models.LLAMA_70B_BYTES)
    assert (found.name, found.weight_bytes) == ("llama", models.LLAMA_70B_BYTES)
    assert found.attention == Gqa(8, 128, 128)
    assert (found.layers, found.heads, found.max_context) == (80, 64, 131072)
    assert (found.measured, found.quantization, found.experts, found.multimodal) == (None, None, 0, False)


def test_a_multimodal_quantised_mla_moe_model(tmp_path: Path) -> None:
    found = read(tmp_path / "kimi", models.KIMI_K25)
    assert found.attention == Mla(512, 64)
    assert (found.experts, found.quantization, found.multimodal) == (384, "compressed-tensors", True)
    # The file says both the scaled and the original length: nothing is multiplied.
    assert found.max_context == 262144
    assert found.measured is None


def test_a_moe_model_with_quantised_blocks(tmp_path: Path) -> None:
    found = read(tmp_path / "qwen", models.QWEN3_235B_FP8)
    assert found.attention == Gqa(4, 128, 128)
    assert (found.experts, found.expert_width, found.weight_block) == (128, 1536, 128)
    assert found.measured is None


@pytest.mark.parametrize(
    ("scaling", "context"),
    [
        ({"type": "yarn", "factor": 4.0}, 8192 * 4),
        ({"rope_type": "llama3", "factor": 4.0}, 8192),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}, 8192),
        (None, 8192),
    ],
)
def test_the_longest_context(tmp_path: Path, scaling: object, context: int) -> None:
    assert read(tmp_path / "m", {**models.SMOLLM2, "rope_scaling": scaling}).max_context == context


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sliding_window": 4096, "use_sliding_window": True}, "sliding window"),
        ({"sliding_window": 4096}, "sliding window"),
        ({"layer_types": ["chunked_attention", "full_attention"]}, "sliding window"),
        ({"architectures": ["Gemma3ForCausalLM"]}, "sliding window"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "hybrid: linear_attention"),
        ({"mamba_d_state": 16}, "hybrid: mamba_d_state"),
        ({"index_topk": 2048}, "sparse attention"),
        ({"num_kv_shared_layers": 10}, "share their KV cache"),
        ({"num_key_value_heads": [3, 4]}, "differ in their number of KV heads"),
        ({"is_encoder_decoder": True}, "encoder"),
    ],
)
def test_other_shapes_of_memory_are_measured(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    assert reason in read(tmp_path / "m", {**models.SMOLLM2, **change}).measured


@pytest.mark.parametrize(
    "change",
    [
        {"sliding_window": 32768, "use_sliding_window": False},
        {"sliding_window": None},
        {"layer_types": ["full_attention"]},
    ],
)
def test_an_unused_window_is_no_window(tmp_path: Path, change: dict[str, object]) -> None:
    assert read(tmp_path / "m", {**models.SMOLLM2, **change}).measured is None


def test_headers_are_believed_before_the_index(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, models.SMOLLM2, 1)
    tensors(folder / "model-00001-of-00001.safetensors", {"a": 1000, "b": 24})
    assert read_model(folder).weight_bytes == 1024


def test_a_single_file_needs_no_index(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, models.SMOLLM2, 1)
    (folder / "model.safetensors.index.json").unlink()
    tensors(folder / "model.safetensors", {"a": 500})
    tensors(folder / "consolidated.safetensors", {"a": 500})
    assert read_model(folder).weight_bytes == 500


def _break(folder: Path, how: str) -> None:
    index, config = folder / "model.safetensors.index.json", folder / "config.json"
    match how:
        case "no config":
            config.unlink()
        case "config is no JSON":
            config.write_text("{")
        case "config is a list":
            config.write_text("[]")
        case "no layers":
            config.write_text(json.dumps({**models.SMOLLM2, "num_hidden_layers": None}))
        case "heads are text":
            config.write_text(json.dumps({**models.SMOLLM2, "num_attention_heads": "9"}))
        case "no weights":
            index.unlink()
        case "index is no index":
            index.write_text('{"metadata": {}}')
        case "index without size":
            index.write_text('{"weight_map": {"a": "x.safetensors"}}')
        case "cut off":
            index.unlink()
            tensors(folder / "model.safetensors", {"a": 500}, cut=100)
        case "no safetensors":
            index.unlink()
            (folder / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("no config", "config.json: cannot be read: No such file or directory"),
        ("config is no JSON", "config.json: is not JSON"),
        ("config is a list", "config.json: is not a mapping"),
        ("no layers", "config.json: num_hidden_layers: is missing"),
        (
            "heads are text",
            "config.json: num_attention_heads: '9' is not allowed; allowed: a whole number from 1",
        ),
        ("no weights", "has neither model.safetensors.index.json nor *.safetensors"),
        ("index is no index", "index.json: is not an index"),
        ("index without size", "index.json: has no metadata.total_size"),
        ("cut off", "model.safetensors: is cut off"),
        ("no safetensors", "model.safetensors: is not a safetensors file"),
    ],
)
def test_a_broken_checkpoint_is_told_by_file_and_key(tmp_path: Path, how: str, said: str) -> None:
    folder = write_checkpoint(tmp_path, models.SMOLLM2, 1000)
    _break(folder, how)
    with pytest.raises(LaunchFileError) as caught:
        read_model(folder)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("beside", "fp8"),
    [({"quantization": {"kv_cache_quant_algo": "FP8"}}, True), ({"quantization": {}}, False)],
)
def test_scales_for_an_fp8_cache(tmp_path: Path, beside: object, fp8: bool) -> None:
    folder = write_checkpoint(tmp_path, models.SMOLLM2, 1000)
    (folder / "hf_quant_config.json").write_text(json.dumps(beside))
    assert read_model(folder).fp8_kv is fp8
