"""Transformers computed in float64 throughout: import this before anything of transformers.

A float64 model of transformers still computes some things in float32: the norms, softmax, rotary angles, routers, ALiBi. Its own
source says so (torch.float32, .float()), so the source is changed on its way in: float64 wherever it says float32. Formulas that
say bfloat16 are left as they are: these are the model's and not the working precision's.
"""

import importlib.abc
import importlib.machinery
import os
import re
import sys

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CHANGED = re.compile(
    r"transformers\.(models\.\w+\.(modeling|modular)_\w+|modeling_rope_utils|activations|masking_utils|pytorch_utils|integrations\.(moe|sdpa_attention))$"
)
WIDER = ((r"\btorch\.float32\b", "torch.float64"), (r"\btorch\.float\b", "torch.float64"), (r"\.float\(\)", ".double()"), (r"\btorch\.FloatTensor\b", "torch.DoubleTensor"))


class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, name):  # never the compiled file of the unchanged source
        path = self.get_filename(name)
        with open(path, encoding="utf-8") as file:
            source = file.read()
        for narrow, wide in WIDER:
            source = re.sub(narrow, wide, source)
        return compile(source, path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path) if CHANGED.match(name) else None
        if spec is not None:
            spec.loader = Loader(name, spec.origin)
        return spec


def everywhere():
    """From here on transformers computes in float64."""
    if any(CHANGED.match(name) for name in sys.modules):
        raise SystemExit("double: transformers is imported already, unchanged")
    sys.meta_path.insert(0, Finder())
    torch.set_default_dtype(torch.float64)


class Narrow(TorchDispatchMode):
    """Notes each operation that gives a float32 or float16."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        result = function(*arguments, **(named or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.float32, torch.float16, torch.bfloat16):
                self.seen.add(f"{function} {str(leaf.dtype).removeprefix('torch.')}")
        return result
