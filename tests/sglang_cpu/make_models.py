"""A tiny Llama with random weights and an EAGLE-3 head for it, as folders that SGLang loads.

Runs in the engine's own environment: `python make_models.py OUT` writes `OUT/target` and `OUT/eagle3`. Needs
no network; the seed fixes every weight.

The target mostly follows a cycle through its vocabulary (each token has one favourite successor), disturbed
by what its attention and MLP add, and the head knows the cycle alone. So the head is right about half of the
time: a speculative server that accepts several tokens in some steps and none in others.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_SIZE, MLP_SIZE = 128, 2, 4, 2, 32, 256
CONTEXT = 8192
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CORPUS = [
    "the quick brown fox jumps over the lazy dog. user assistant system hello world what is the capital of"
]
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Chosen by trial: how strongly the layers disturb the cycle, and how sharp the distribution is.
DISTURBANCE = 0.17
SHARPNESS = 0.12

Weights = dict[str, torch.Tensor]


def train_tokenizer() -> Tokenizer:
    """Byte-level BPE over ASCII: every token but the special ones prints."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = [*map(chr, range(33, 127)), "\u0120", "\u010a"]  # the last two are space and line feed
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=SPECIAL, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(CORPUS * 4, trainer)
    return tokenizer


def write_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    """The tokenizer and its chat template."""
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[1],
        "eos_token": SPECIAL[2],
        "pad_token": SPECIAL[0],
        "model_max_length": CONTEXT,
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def config(vocabulary: int, architecture: str, layers: int, kv_heads: int, **extra: Any) -> dict[str, Any]:
    """A `config.json`."""
    return {
        "architectures": [architecture],
        "model_type": "llama",
        "vocab_size": vocabulary,
        "hidden_size": HIDDEN,
        "intermediate_size": MLP_SIZE,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": kv_heads,
        "head_dim": HEAD_SIZE,
        "max_position_embeddings": CONTEXT,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "initializer_range": 0.02,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "dtype": "float32",
        **extra,
    }


def output_head(embeddings: torch.Tensor) -> torch.Tensor:
    """Row `successor(t)` looks like the embedding of `t`; greedy decoding never picks a special token."""
    vocabulary, first = embeddings.shape[0], len(SPECIAL)
    order = torch.randperm(vocabulary - first) + first
    head = torch.zeros_like(embeddings)
    head[order.roll(-1)] = embeddings[order] * SHARPNESS
    return head


def target_weights(vocabulary: int) -> Weights:
    """The target model."""

    def noise(*shape: int, scale: float = 0.3) -> torch.Tensor:
        return torch.randn(*shape) * scale

    embeddings = torch.randn(vocabulary, HIDDEN)
    weights = {
        "model.embed_tokens.weight": embeddings,
        "model.norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": output_head(embeddings),
    }
    for layer in range(LAYERS):
        own = {
            "input_layernorm": torch.ones(HIDDEN),
            "post_attention_layernorm": torch.ones(HIDDEN),
            "self_attn.q_proj": noise(HEADS * HEAD_SIZE, HIDDEN),
            "self_attn.k_proj": noise(KV_HEADS * HEAD_SIZE, HIDDEN),
            "self_attn.v_proj": noise(KV_HEADS * HEAD_SIZE, HIDDEN),
            "self_attn.o_proj": noise(HIDDEN, HEADS * HEAD_SIZE, scale=DISTURBANCE * 0.3),
            "mlp.gate_proj": noise(MLP_SIZE, HIDDEN),
            "mlp.up_proj": noise(MLP_SIZE, HIDDEN),
            "mlp.down_proj": noise(HIDDEN, MLP_SIZE, scale=DISTURBANCE * 0.03),
        }
        weights |= {f"model.layers.{layer}.{name}.weight": tensor for name, tensor in own.items()}
    return weights


def draft_weights(target: Weights) -> Weights:
    """The head: its attention finds the current token again and hands on that token's embedding."""
    vocabulary, double = target["lm_head.weight"].shape[0], 2 * HIDDEN
    embedding_only = torch.eye(HIDDEN, double)  # of the pair (embedding, hidden state of the target)
    return {
        "fc.weight": torch.zeros(HIDDEN, 3 * HIDDEN),
        "norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": target["lm_head.weight"].clone(),
        "midlayer.hidden_norm.weight": torch.ones(HIDDEN),
        "midlayer.input_layernorm.weight": torch.ones(HIDDEN),
        "midlayer.post_attention_layernorm.weight": torch.ones(HIDDEN),
        "midlayer.self_attn.q_proj.weight": embedding_only * 3,
        "midlayer.self_attn.k_proj.weight": embedding_only * 3,
        "midlayer.self_attn.v_proj.weight": embedding_only.clone(),
        "midlayer.self_attn.o_proj.weight": torch.eye(HIDDEN),
        "midlayer.mlp.gate_proj.weight": torch.zeros(MLP_SIZE, HIDDEN),
        "midlayer.mlp.up_proj.weight": torch.zeros(MLP_SIZE, HIDDEN),
        "midlayer.mlp.down_proj.weight": torch.zeros(HIDDEN, MLP_SIZE),
        "d2t": torch.zeros(vocabulary, dtype=torch.int64),
        "t2d": torch.ones(vocabulary, dtype=torch.bool),
    }


def write_model(folder: Path, settings: dict[str, Any], weights: Weights) -> None:
    """A model's folder."""
    (folder / "config.json").write_text(json.dumps(settings, indent=1))
    tensors = {name: tensor.contiguous() for name, tensor in weights.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def main(out: Path) -> None:
    """Write both models."""
    target_folder, draft_folder = out / "target", out / "eagle3"
    for folder in (target_folder, draft_folder):
        folder.mkdir(parents=True)
    tokenizer = train_tokenizer()
    vocabulary = tokenizer.get_vocab_size()
    torch.manual_seed(0)
    weights = target_weights(vocabulary)
    write_tokenizer(target_folder, tokenizer)
    write_model(target_folder, config(vocabulary, "LlamaForCausalLM", LAYERS, KV_HEADS), weights)
    settings = config(
        vocabulary,
        "LlamaForCausalLMEagle3",
        1,
        HEADS,
        draft_vocab_size=vocabulary,
        target_hidden_size=HIDDEN,
    )
    write_model(draft_folder, settings, draft_weights(weights))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
