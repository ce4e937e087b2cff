"""Bookkeeping of KV slots and token ids between the steps of speculative decoding."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor


def assign_req_to_token_pool_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start: Tensor,
    end: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
) -> None:
    """Write each request's new slots into its row."""
    at = 0
    for request, first, last in zip(req_pool_indices.tolist(), start.tolist(), end.tolist(), strict=True):
        count = last - first
        req_to_token[request, first:last] = out_cache_loc[at : at + count].to(req_to_token.dtype)
        at += count


def assign_extend_cache_locs_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start: Tensor,
    end: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
) -> None:
    """Read each request's new slots from its row."""
    at = 0
    for request, first, last in zip(req_pool_indices.tolist(), start.tolist(), end.tolist(), strict=True):
        count = last - first
        out_cache_loc[at : at + count] = req_to_token[request, first:last].to(out_cache_loc.dtype)
        at += count


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    seq_lens: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
    topk: int,
    num_cols: int,
) -> None:
    """Read the slots of each request's draft tokens from its row."""
    count = topk * num_cols
    pairs = zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)
    for index, (request, length) in enumerate(pairs):
        slots = req_to_token[request, length : length + count]
        out_cache_loc[index * count : (index + 1) * count] = slots.to(out_cache_loc.dtype)


def copy_all_layer_kv_cache_cpu(data_ptrs: Tensor, strides: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """Move slots in every layer's buffer, given as addresses and bytes per slot."""
    sources, targets = src_loc.tolist(), tgt_loc.tolist()
    for address, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        # Every load before the first store: sources and targets may overlap.
        rows = [ctypes.string_at(address + source * stride, stride) for source in sources]
        for target, row in zip(targets, rows, strict=True):
            ctypes.memmove(address + target * stride, row, stride)


def fill_bonus_tokens_cpu(
    accept_tokens: Tensor, accept_lens: Tensor, bonus_tokens: Tensor, accept_stride: int
) -> None:
    """The last accepted token of each request."""
    last = torch.arange(accept_lens.numel()) * accept_stride + accept_lens.to(torch.int64) - 1
    bonus_tokens[: last.numel()] = accept_tokens.reshape(-1)[last].to(bonus_tokens.dtype)


def fill_accept_out_cache_loc_cpu(
    accept_index: Tensor, out_cache_loc: Tensor, accept_out_cache_loc: Tensor
) -> None:
    """The slots of the accepted tokens, without gaps."""
    kept = accept_index.reshape(-1)
    kept = kept[kept > -1].to(torch.int64)
    accept_out_cache_loc[: kept.numel()] = out_cache_loc[kept].to(accept_out_cache_loc.dtype)


def rotate_input_ids_cpu(
    input_ids: Tensor,
    extend_start_loc: Tensor,
    extend_seq_lens: Tensor,
    topk_index: Tensor,
    select_index: Tensor | None = None,
) -> None:
    """Shift each request's tokens by one and put its newest token at the end (or at `select_index`)."""
    newest = topk_index.reshape(-1).tolist()
    selected = None if select_index is None else select_index.tolist()
    rows = zip(extend_start_loc.tolist(), extend_seq_lens.tolist(), strict=True)
    for index, (start, count) in enumerate(rows):
        if count <= 0:
            continue
        input_ids[start : start + count - 1] = input_ids[start + 1 : start + count].clone()
        input_ids[start + count - 1 if selected is None else selected[index]] = newest[index]
