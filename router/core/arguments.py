"""The server arguments that decide how fast an engine is: which they are, their hash, and where two differ.

Names are SGLang's, as `/server_info` gives them (0.5.16 to 0.5.23); a dot leads into a mapping. Only single
values count. Left out on purpose: addresses, paths, keys and names; the random seed; what only says how much
memory an engine has (`mem_fraction_static`, `max_total_tokens`), for that is chosen anew at every start.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping

from router.core.words import Path

Argument = bool | int | float | str | None
Arguments = Mapping[str, Argument]

# Of both engines: how they are spread over GPUs, numbers and caches, kernels, CUDA graphs, the scheduler.
SPEED = (
    "device",
    "tp_size",
    "pp_size",
    "dp_size",
    "ep_size",
    "dcp_size",
    "attn_cp_size",
    "moe_dp_size",
    "moe_dense_tp_size",
    "nnodes",
    "enable_dp_attention",
    "enable_dp_lm_head",
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "page_size",
    "disable_radix_cache",
    "enable_hierarchical_cache",
    "cpu_offload_gb",
    "attention_backend",
    "prefill_attention_backend",
    "decode_attention_backend",
    "sampling_backend",
    "fp8_gemm_runner_backend",
    "fp4_gemm_runner_backend",
    "bf16_gemm_backend",
    "moe_runner_backend",
    "moe_a2a_backend",
    "deepep_mode",
    "disable_custom_all_reduce",
    "enable_flashinfer_allreduce_fusion",
    "flashinfer_allreduce_fusion_backend",
    "enable_mscclpp",
    "enable_nccl_nvls",
    "enable_symm_mem",
    "enable_torch_symm_mem",
    "enable_torch_compile",
    "enable_deterministic_inference",
    "disable_cuda_graph",
    "disable_cuda_graph_padding",
    "cuda_graph_config.decode.backend",
    "cuda_graph_config.decode.max_bs",
    "cuda_graph_config.prefill.backend",
    "cuda_graph_config.prefill.max_bs",
    "max_running_requests",
    "chunked_prefill_size",
    "max_prefill_tokens",
    "enable_mixed_chunk",
    "schedule_policy",
    "schedule_conservativeness",
    "disable_overlap_schedule",
    "num_continuous_decode_steps",
    "stream_interval",
    "enable_single_batch_overlap",
    "enable_two_batch_overlap",
    "speculative_algorithm",
)
# Of an engine that speculates; the others have them too, and do not read them.
SPECULATION = (
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
    "speculative_adaptive",
    "speculative_accept_threshold_single",
    "speculative_accept_threshold_acc",
    "speculative_use_rejection_sampling",
    "speculative_use_block_verification",
    "speculative_attention_mode",
    "speculative_draft_attention_backend",
    "speculative_draft_kv_cache_dtype",
    "speculative_draft_window_size",
    "speculative_draft_model_quantization",
    "speculative_moe_runner_backend",
    "speculative_moe_a2a_backend",
    "enable_multi_layer_eagle",
    "speculative_dflash_block_size",
    "speculative_dspark_block_size",
    "speculative_ngram_min_bfs_breadth",
    "speculative_ngram_max_bfs_breadth",
    "speculative_ngram_max_trie_depth",
    "speculative_ngram_match_type",
)
MAX_TEXT = 256
HASH_DIGITS = 16


def chosen(told: Mapping[str, object]) -> dict[str, Argument]:
    """Those of an engine's arguments that decide its speed; what it does not tell is left out."""
    names = SPEED + (SPECULATION if speculates(told.get("speculative_algorithm")) else ())
    return {name: value for name in names for value in _values(told, name)}


def speculates(algorithm: object) -> bool:
    """Whether a value of `speculative_algorithm` means that drafts are made."""
    return str(algorithm or "none").lower() != "none"


def flags_hash(engines: Mapping[Path, Arguments]) -> str | None:
    """One short text for the chosen arguments of both engines; None while one of them has told none.

    It is the first 16 hexadecimal digits of the SHA-256 of `{path: {name: value}}` as JSON in UTF-8, with
    names in order and no blanks.
    """
    told = {path.value: dict(engines.get(path, {})) for path in Path}
    if not all(told.values()):
        return None
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def differing(one: Arguments, other: Arguments) -> tuple[str, ...]:
    """Names of the arguments that both know and that are not equal."""
    return tuple(name for name, value in one.items() if name in other and other[name] != value)


def listed(arguments: Arguments, names: tuple[str, ...]) -> str:
    """`name value, name value` with JSON's words for true, false and null."""
    return ", ".join(f"{name} {_word(arguments[name])}" for name in names)


def _word(value: Argument) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _values(told: Mapping[str, object], name: str) -> Iterator[Argument]:
    """The value of that name, if it is there and a single one that may stand in a log line."""
    found: object = told
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return
        found = found[part]
    if isinstance(found, str):
        if found.isprintable() and len(found) <= MAX_TEXT:
            yield found
    elif found is None or isinstance(found, int) or (isinstance(found, float) and math.isfinite(found)):
        yield found
