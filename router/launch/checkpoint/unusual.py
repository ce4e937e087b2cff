"""Models whose KV memory SGLang computes with more terms than layers x heads: they are measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STATE_LAYERS = ("linear_attention", "mamba", "mamba2", "recurrent", "conv", "gated_delta", "kda")
_STATE_KEYS = (
    *(
        "mamba_d_state",
        "mamba_d_ssm",
        "ssm_state_size",
        "ssm_cfg",
        "hybrid_override_pattern",
        "full_attention_interval",
    ),
    *("attn_layer_period", "linear_num_key_heads", "linear_attn_config", "layer_group_size", "conv_L_cache"),
)
_WINDOW_ARCHITECTURES = (
    *("GptOss", "Llama4", "Gemma2", "Gemma3", "Gemma4", "MiMoV2", "Step3p5", "Step3p7", "Cohere2", "Inkling"),
    *("DeepseekV4", "Mellum", "MuseGlimmer", "EmbeddingGemma"),
)
_SPARSE_KEYS = ("index_topk", "index_n_heads", "index_head_dim", "sparse_attention_config", "moba_chunk_size")


def unusual(architecture: str, config: Mapping[str, Any]) -> str | None:
    """Why the model is measured and not predicted, or None. `config` is that of the language model."""
    layer_types = config.get("layer_types")
    kinds = {str(kind) for kind in layer_types} if isinstance(layer_types, list) else set()
    states = kinds.intersection(_STATE_LAYERS)
    key = next((key for key in _STATE_KEYS if config.get(key)), None)
    if states or key:
        return f"it keeps a state beside its KV cache (hybrid: {', '.join(sorted(states)) or key})"
    key = next((key for key in _SPARSE_KEYS if config.get(key)), None)
    if key:
        return f"its sparse attention keeps an index beside its KV cache ({key})"
    if _windowed(architecture, config, kinds):
        return "some of its layers have a sliding window and keep fewer tokens than the others"
    if config.get("num_kv_shared_layers"):
        return "some of its layers share their KV cache (num_kv_shared_layers)"
    if isinstance(config.get("num_key_value_heads"), list) or config.get("block_configs"):
        return "its layers differ in their number of KV heads"
    if config.get("is_encoder_decoder"):
        return "it has an encoder"
    return None


def _windowed(architecture: str, config: Mapping[str, Any], kinds: set[str]) -> bool:
    if any(architecture.startswith(name) for name in _WINDOW_ARCHITECTURES) or config.get("is_hybrid_swa"):
        return True
    if any("sliding" in kind or "chunked" in kind for kind in kinds):
        return True
    return bool(config.get("sliding_window")) and config.get("use_sliding_window", True) is True
