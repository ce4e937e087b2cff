"""Attention over a paged KV pool, one request at a time.

Shapes: `q` is [tokens, heads, size], a pool [slots, kv heads, size]; `req_to_token` [requests, positions]
holds each request's slots in order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def extend_attention_cpu(
    q: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    o: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    k_scale: Any,
    v_scale: Any,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    extend_seq_lens: Tensor,
    extend_start_loc: Tensor,
    max_extend_len: int,
    scale: float,
    cap: float,
    is_cross: bool,
    window: int,
    encoder_lens: Any,
    sinks: Any,
    tree_mask: Tensor | None,
    is_causal: bool,
) -> None:
    """Attention of several new tokens per request; `tree_mask` says which of them see each other."""
    _only_the_common_case(is_cross, sinks, window)
    tree = None if tree_mask is None else tree_mask.reshape(-1).to(torch.bool)
    tree_at = 0
    rows = (req_pool_indices, seq_lens, extend_seq_lens, extend_start_loc)
    for request, length, new, start in zip(*(row.tolist() for row in rows), strict=True):
        slots = req_to_token[request, :length].to(torch.int64)
        keys, values = k_buffer[slots], v_buffer[slots]
        if k is not None and v is not None:  # the pool may or may not hold the new tokens already
            keys, values = keys.clone(), values.clone()
            keys[length - new :] = k[start : start + new].view(new, *keys.shape[1:]).to(keys.dtype)
            values[length - new :] = v[start : start + new].view(new, *values.shape[1:]).to(values.dtype)
        mask = None
        if is_causal:
            mask = torch.arange(length)[None, :] <= torch.arange(length - new, length)[:, None]
            if tree is not None:
                mask[:, length - new :] = tree[tree_at : tree_at + new * new].view(new, new)
                tree_at += new * new
        part = slice(start, start + new)
        _attend(q[part], keys, values, o[part], scale, cap, mask)


def decode_attention_cpu(
    q: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    k_scale: Any,
    v_scale: Any,
    o: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    loc: Tensor,
    attn_logits: Any,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    scale: float,
    cap: float,
    is_cross: bool,
    window: int,
    encoder_lens: Any,
    sinks: Any,
) -> None:
    """Attention of one new token per request, which goes into the pool at `loc` first."""
    _only_the_common_case(is_cross, sinks, window)
    if k is not None and v is not None:
        k_buffer[loc] = k.view(-1, *k_buffer.shape[1:]).to(k_buffer.dtype)
        v_buffer[loc] = v.view(-1, *v_buffer.shape[1:]).to(v_buffer.dtype)
    pairs = zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)
    for index, (request, length) in enumerate(pairs):
        slots = req_to_token[request, :length].to(torch.int64)
        part = slice(index, index + 1)
        _attend(q[part], k_buffer[slots], v_buffer[slots], o[part], scale, cap, None)


def build_draft_decode_metadata_cpu(
    req_to_token: Tensor, req_pool_indices: Tensor, seq_lens: Tensor, topk: int, num_steps: int, pool_len: int
) -> Tensor:
    """One row of slots for each request and branch: the prefix, then that branch's draft slots."""
    lengths = seq_lens.tolist()
    table = req_to_token.new_zeros((len(lengths) * topk, max(lengths) + num_steps))
    for index, (request, length) in enumerate(zip(req_pool_indices.tolist(), lengths, strict=True)):
        for branch in range(topk):
            row = table[index * topk + branch]
            row[:length] = req_to_token[request, :length]
            first = length + branch * num_steps
            row[length : length + num_steps] = req_to_token[request, first : first + num_steps]
    return table


def _attend(
    q: Tensor, keys: Tensor, values: Tensor, o: Tensor, scale: float, cap: float, mask: Tensor | None
) -> None:
    groups = q.shape[1] // keys.shape[1]
    keys = keys.float().repeat_interleave(groups, 1)
    values = values.float().repeat_interleave(groups, 1)
    weights = torch.einsum("nhd,mhd->hnm", q.float(), keys) * scale
    if cap:
        weights = cap * torch.tanh(weights / cap)
    if mask is not None:
        weights = weights.masked_fill(~mask, float("-inf"))
    o.copy_(torch.einsum("hnm,mhd->nhd", weights.softmax(-1), values).to(o.dtype))


def _only_the_common_case(is_cross: bool, sinks: Any, window: int) -> None:
    if is_cross or sinks is not None or window > 0:
        raise NotImplementedError("cross attention, sinks and sliding windows are not in this shim")
