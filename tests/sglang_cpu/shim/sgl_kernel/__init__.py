"""Stand-in in PyTorch for the CPU half of SGLang's compiled kernel package.

With `SGLANG_USE_CPU_ENGINE=1` SGLang 0.5.23 imports these names unconditionally, and no wheel that provides
them for CPUs is published. Plain serving calls none of them; speculative decoding does. Correct and slow: for
tests of behaviour, never of speed.

SGLang takes its own PyTorch code for every layer as long as `torch.ops.sgl_kernel` has no
`convert_weight_packed`, which is why that name must stay away from here.
"""

from __future__ import annotations

import torch

from sgl_kernel.attention import (
    build_draft_decode_metadata_cpu,
    decode_attention_cpu,
    extend_attention_cpu,
)
from sgl_kernel.slots import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
    rotate_input_ids_cpu,
)
from sgl_kernel.tree import build_tree_kernel_efficient_cpu, verify_tree_greedy_cpu

__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "decode_attention_cpu",
    "extend_attention_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]
__version__ = "0.0.0+cpu.shim"

# These two are looked up as operators, not imported.
torch.ops.sgl_kernel.decode_attention_cpu = decode_attention_cpu
torch.ops.sgl_kernel.extend_attention_cpu = extend_attention_cpu
