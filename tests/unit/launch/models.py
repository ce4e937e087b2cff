"""Small checkpoints made by hand: the real configurations' numbers that matter, an index without weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LLAMA_70B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "rope_scaling": {"factor": 8.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
}
LLAMA_70B_BYTES = 141_107_412_992

LLAMA_EAGLE3: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "hidden_size": 8192,
    "num_hidden_layers": 1,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 2048,
}
LLAMA_EAGLE3_BYTES = 3_200_000_000

GPT_OSS_120B: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"],
    "hidden_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 128,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "max_position_embeddings": 131072,
    "quantization_config": {"quant_method": "mxfp4"},
}
GPT_OSS_120B_BYTES = 65_250_000_000

QWEN3_235B_FP8: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 94,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "moe_intermediate_size": 1536,
    "max_position_embeddings": 40960,
    "use_sliding_window": False,
    "sliding_window": None,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
QWEN3_235B_FP8_BYTES = 237_000_000_000

KIMI_K25: dict[str, Any] = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "vision_config": {"depth": 27},
    "text_config": {
        "hidden_size": 7168,
        "num_hidden_layers": 61,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "n_routed_experts": 384,
        "max_position_embeddings": 262144,
        "rope_scaling": {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096},
        "quantization_config": {"quant_method": "compressed-tensors"},
    },
}
KIMI_K25_BYTES = 595_000_000_000

KIMI_EAGLE3_MLA: dict[str, Any] = {
    "architectures": ["Eagle3DeepseekV2ForCausalLM"],
    "hidden_size": 7168,
    "num_hidden_layers": 1,
    "num_attention_heads": 64,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "max_position_embeddings": 262144,
}
KIMI_EAGLE3_LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "hidden_size": 7168,
    "num_hidden_layers": 1,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "head_dim": 128,
    "max_position_embeddings": 262144,
}
KIMI_EAGLE3_BYTES = 6_030_000_000

SMOLLM2: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
}
SMOLLM2_BYTES = 269_030_016


def write_checkpoint(folder: Path, config: dict[str, Any], total_size: int) -> Path:
    """A folder as it is on a laptop: config.json and the index, no weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    index = {"metadata": {"total_size": total_size}, "weight_map": {"w": "model-00001-of-00001.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
