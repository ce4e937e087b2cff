"""Trees of draft tokens: building the mask and the links, and greedy verification.

Same contract as SGLang's Triton kernels of these names (Apache-2.0, `sgl_build_tree_kernel_efficient_triton`
and the greedy verification beside it); written anew as plain loops. Node 0 of a tree is the last verified
token. `retrieve_next_token` links a node to its first child, `retrieve_next_sibling` to the next child of the
same parent; -1 ends a list.
"""

from __future__ import annotations

from torch import Tensor

_FULL_MASK = 0


def build_tree_kernel_efficient_cpu(
    parent_list: Tensor,
    selected_index: Tensor,
    verified_seq_len: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Fill mask, positions and links of every request's tree."""
    nodes = draft_token_num
    lengths = verified_seq_len.tolist()
    selected = selected_index.reshape(len(lengths), -1).tolist()
    parents = parent_list.reshape(len(lengths), -1).tolist() if parent_list.numel() else [[]] * len(lengths)
    index, child, sibling = (
        links.view(len(lengths), nodes)
        for links in (retrieve_index, retrieve_next_token, retrieve_next_sibling)
    )
    flat_positions, flat_mask = positions.view(-1), tree_mask.view(-1)
    prefix = 0
    for request, length in enumerate(lengths):
        up = _parents(selected[request], parents[request], topk, nodes)
        _link(up, request, index[request], child[request], sibling[request])
        for node in range(nodes):
            if int(tree_mask_mode) == _FULL_MASK:
                base = nodes * nodes * request + prefix * nodes + (length + nodes) * node + length
            else:
                base = nodes * nodes * request + nodes * node
            above = _ancestors(up, node, depth)
            flat_mask[base] = 1
            flat_mask[base + 1 : base + nodes] = 0
            for other in above:
                flat_mask[base + other] = 1
            flat_positions[request * nodes + node] = length + len(above)
        prefix += length


def verify_tree_greedy_cpu(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """Walk down each tree as long as the target's own choice is among the children."""
    requests, nodes = candidates.shape
    choices, tokens = target_predict.reshape(-1).tolist(), candidates.tolist()
    index, child, sibling = (
        links.view(requests, nodes).tolist()
        for links in (retrive_index, retrive_next_token, retrive_next_sibling)
    )
    for request in range(requests):
        last, accepted, node = index[request][0], 0, 0
        accept_index[request, 0] = last
        while accepted < accept_index.shape[1] - 1:
            node = child[request][node]
            while node != -1 and tokens[request][node] != choices[last]:
                node = sibling[request][node]
            if node == -1:
                break
            predicts[last] = choices[last]
            accepted += 1
            last = index[request][node]
            accept_index[request, accepted] = last
        accept_token_num[request] = accepted
        predicts[last] = choices[last]


def _parents(selected: list[int], parents: list[int], topk: int, nodes: int) -> list[int | None]:
    """Parent of each node; None for the root and for a node whose parent was not selected."""
    found: list[int | None] = [None]
    for place in selected[: nodes - 1]:
        row = place // topk
        if row == 0:
            found.append(0)
        else:
            token = parents[row]
            found.append(selected.index(token) + 1 if token in selected[: nodes - 1] else None)
    return found


def _link(up: list[int | None], request: int, index: Tensor, child: Tensor, sibling: Tensor) -> None:
    for node in range(len(up) - 1, -1, -1):
        index[node] = request * len(up) + node
        parent = up[node]
        if parent is not None:
            first = int(child[parent])
            child[parent] = node
            if first != -1:
                sibling[node] = first


def _ancestors(up: list[int | None], node: int, depth: int) -> list[int]:
    """The node itself and those above it, root excluded, at most `depth` of them."""
    found: list[int] = []
    current: int | None = node
    while current and len(found) < depth:
        found.append(current)
        current = up[current]
    return found
