"""Checkpoint folders: what memory a model needs, from config.json and safetensors files alone."""

from __future__ import annotations

from router.launch.checkpoint.read import read_model

__all__ = ["read_model"]
