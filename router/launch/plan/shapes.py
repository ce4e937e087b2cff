"""What a plan is made from: the memory shape of a model, and the memory of GPUs. Sizes are bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class Gqa:
    """Keys and values per head (MHA and GQA); heads are divided over tensor parallel ranks."""

    kv_heads: int
    head_dim: int
    v_head_dim: int

    def layer_bytes(self, tp: int, element: int) -> int:
        """KV bytes of one token in one layer on one GPU; fewer heads than ranks are replicated."""
        heads = max(1, -(-self.kv_heads // tp))
        return heads * (self.head_dim + self.v_head_dim) * element


@dataclass(frozen=True, slots=True)
class Mla:
    """One compressed vector per token, which every rank holds whole."""

    kv_lora_rank: int
    qk_rope_head_dim: int

    def layer_bytes(self, tp: int, element: int) -> int:
        """KV bytes of one token in one layer on one GPU, for any tp."""
        return (self.kv_lora_rank + self.qk_rope_head_dim) * element


Attention = Gqa | Mla


@dataclass(frozen=True, slots=True)
class ModelShape:
    """One checkpoint, as far as memory depends on it.

    Attributes:
        name, path: how it is called, and the folder that the engine loads.
        weight_bytes: all tensors of the checkpoint.
        heads: attention heads; tensor parallelism must divide them.
        fp8_kv: the checkpoint brings scales for an fp8 KV cache, which dtype `auto` then means.
        max_context: the longest context the model knows, in tokens.
        measured: why KV memory cannot be predicted from the configuration; None if it can.
        experts, expert_width: how many and how wide (moe_intermediate_size); 0 for a dense model.
        weight_block: side of a block of quantised weights; 0 where they have no blocks.
        multimodal: it may keep a cache of image features on the GPU.
    """

    name: str
    path: str
    architecture: str
    weight_bytes: int
    layers: int
    heads: int
    attention: Attention
    max_context: int
    fp8_kv: bool = False
    measured: str | None = None
    quantization: str | None = None
    experts: int = 0
    expert_width: int = 0
    weight_block: int = 0
    multimodal: bool = False


@dataclass(frozen=True, slots=True)
class ForeignProcess:
    """Somebody else's memory on a GPU."""

    pid: int
    name: str
    used: int


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """One GPU before anything is started: what it has and what is free now."""

    index: int
    name: str
    total: int
    free: int
    processes: tuple[ForeignProcess, ...] = ()


def parallelism_problem(model: ModelShape, tp: int) -> str | None:
    """Why the model cannot be divided over that many ranks, or None."""
    if model.heads % tp:
        return f"tp {tp} does not divide the {model.heads} attention heads of {model.name}"
    attention = model.attention
    if isinstance(attention, Gqa) and attention.kv_heads % tp and tp % attention.kv_heads:
        return f"tp {tp} neither divides the {attention.kv_heads} KV heads of {model.name} nor is a multiple"
    return None


def least_free(gpus: Sequence[GpuMemory]) -> int:
    """An engine sizes its pool by its fullest GPU."""
    return min(gpu.free for gpu in gpus)
