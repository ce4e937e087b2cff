"""Lets a torchvision that was built for CUDA be imported beside a CPU build of torch.

PyPI's torchvision has its compiled operators in a library that needs CUDA; without them its import dies in
`torch.library.register_fake("torchvision::nms")`. Declaring the two schemas first is enough: the Python half
(transforms) is all that SGLang imports, which it does even for text models.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence


class TorchvisionSchemas(importlib.abc.MetaPathFinder):
    """Finds nothing; declares the schemas the moment that torchvision is looked for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            import torch

            for operator in ("nms", "qnms"):
                schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
                torch.library.define(f"torchvision::{operator}", schema)
        return None


sys.meta_path.insert(0, TorchvisionSchemas())
