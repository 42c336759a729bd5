"""Which reference a module can have, and which names its weights have there: by their shapes, and by what is computed from what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

NAMES = {"query": "self_attn.q_proj", "key": "self_attn.k_proj", "value": "self_attn.v_proj", "packed": "self_attn.in_proj_", "output":
         "self_attn.out_proj", "hidden": "linear1", "result": "linear2", "norm1": "norm1", "norm2": "norm2", "tokens": "token_embedding",
         "positions": "position_embedding", "norm": "norm", "head": "lm_head"}
OF_LLAMA = {**NAMES, "output": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "result": "mlp.down_proj",
            "norm1": "input_layernorm", "norm2": "post_attention_layernorm", "tokens": "model.embed_tokens", "norm": "model.norm"}
OF_ATTENTION = {**{role: name.replace("self_attn.", "") for role, name in NAMES.items()}, "norm1": "q_norm", "norm2": "k_norm"}


def proposals(recorder: Any) -> str:
    """What is said of a module that is not known, or that is called in a way that the reference can't be."""
    reference = recorder.reference
    said = f"{reference.kind} has no reference: {reference.reason}"
    if reference.is_known:
        return said
    kind, rename, options = proposal(recorder)
    if not rename:
        weights = ", ".join(f"{name} {array.shape}" for name, array in list(reference.weights.items())[:12])
        return (f'{said}.\nIts weights: {weights or "none"}.\nWhere it computes what a module of attn run does, say which: '
                f'reference="encoder-layer", rename={{"blocks.*.wq.*": "layers.*.self_attn.q_proj.*"}}, ignore=["mask"], options={{"heads": 2}}')
    lines = ",\n          ".join(f'"{old}": "{new}"' for old, new in rename.items())
    left = [name for name in reference.weights if not any(re.fullmatch(pattern_of(old), name) for old in rename)]
    also = f"\nIts other weights: {', '.join(left[:8])}" if left else ""
    flags = ", ".join(f'"{name}": {value!r}' for name, value in options.items())
    return (f'{said}.\nBy the shapes of its weights, and by what is computed from what, it can be this; say so, if it is meant to be:\n'
            f'  reference="{kind}", options={{{flags}}},\n  rename={{{lines}}}{also}')


def pattern_of(name: str) -> str:
    return re.escape(name).replace(r"\*", ".*")


def proposal(recorder: Any) -> tuple[str, dict[str, str], dict[str, Any]]:
    """What check() takes as reference, rename and options."""
    module = recorder.reference.call.module
    inside = recorder.reference.inside + "." if recorder.reference.inside else ""
    graph = Graph(recorder.file.arrays, {inside + name: part for name, part in module.named_modules() if name})
    roles = list(graph.roles())
    roles = [(role, own[len(inside):]) for role, own in roles]
    layers = {found[1] for role, name in roles for found in [re.match(r"(.*?(?:^|\.)\d+\.)", name)] if role == "output" and found}
    is_of_ids, is_gated, has_network = graph.of("Embedding"), any(role == "gate" for role, _ in roles), any(role == "hidden" for role, _ in roles)
    kind = ("llama" if is_gated else "gpt") if is_of_ids else "encoder" if layers else "encoder-layer" if has_network else "multi-head-attention"
    names = OF_LLAMA if kind == "llama" else OF_ATTENTION if kind == "multi-head-attention" else NAMES
    rename: dict[str, str] = {}
    norms: dict[str, int] = {}
    for role, own in roles:
        layer = next((one for one in layers if own.startswith(one)), "")
        if role == "norm" and (layer or not layers):
            norms[layer] = norms.get(layer, 0) + 1
            role = f"norm{norms[layer]}"
        if role not in names:
            continue
        new = names[role]
        if layer:
            own, new = re.sub(r"\d+\.$", "*.", layer) + own[len(layer):], ("model." if kind == "llama" else "") + "layers.*." + new
        ends = (("weight", "weight"), ("bias", "bias")) if role == "packed" else (("*", ".*"),)
        rename.update((f"{own}.{old}", new + end) for old, end in ends)
    return kind, rename, options_of(module, kind, graph, dict(reversed(roles)), inside)


def options_of(module: Any, kind: str, graph: Graph, roles: Mapping[str, str], inside: str) -> dict[str, Any]:
    holders = [getattr(module, "config", None), *module.modules()]
    heads = (getattr(one, name, None) for one in holders for name in ("n_head", "n_heads", "num_heads", "nhead", "heads", "h",
                                                                       "num_attention_heads"))
    options: dict[str, Any] = {"heads": next((one for one in heads if isinstance(one, int)), "?")}
    first, norm = roles.get("query", roles.get("packed")), roles.get("norm")
    activations = [part for part in module.modules() if type(part).__name__ in ("GELU", "ReLU")]
    if kind == "llama":
        options["without-config"] = True
    elif kind == "gpt" or activations:
        is_exact = any(getattr(part, "approximate", "tanh") == "none" for part in activations)
        options["activation"] = "relu" if activations and type(activations[0]).__name__ == "ReLU" else "gelu" if is_exact else "gelu-tanh"
    if kind.startswith("encoder") and norm and first and graph.order.index(inside + norm) < graph.order.index(inside + first):
        options["norm"] = "pre"
    return options


class Graph:
    """Which modules with weights each array was computed from, without others in between."""

    def __init__(self, arrays: Sequence[Mapping[str, Any]], modules: Mapping[str, Any]):
        self.modules = modules
        self.order: list[str] = []  # of modules that returned something
        self.sources: dict[str, dict[str, None]] = {}  # by array; a dict, for the order
        self.made: dict[str, dict[str, None]] = {}  # by module: those that its input was computed from
        for entry in arrays:
            name, found = entry["name"], {}
            for read in entry["reads"]:
                found.update(self.sources.get(read, {}))
            module = re.sub(r"(#\d+)?(\.\d+)?$", "", name) if name not in modules else name
            if entry["variable"] == "return" and module in modules and module not in self.order:
                self.order.append(module)
                if self.kind(module) == "Linear":
                    self.made[module], found = found, {module: None}
            self.sources[name] = found

    def kind(self, name: str) -> str:
        """Linear, Embedding, Norm or nothing."""
        found = type(self.modules[name]).__name__
        return "Norm" if found.endswith("Norm") else found if found in ("Linear", "Embedding") else ""

    def of(self, kind: str) -> list[str]:
        return [name for name in self.order if self.kind(name) == kind]

    def roles(self) -> Iterator[tuple[str, str]]:
        """A role, and the module that has it, in the order of the program."""
        known: set[str] = set()
        for name, made in self.made.items():
            own = [one for one in made if one not in known]
            sizes = [(self.modules[one].in_features, self.modules[one].out_features) for one in (*own[:1], name)]
            found = []
            if len(own) == 3:
                found = [*zip(("query", "key", "value"), self.by_joins(own)), ("output", name)]
            elif len(own) == 1 and sizes[0][1] == 3 * sizes[0][0]:
                found = [("packed", own[0]), ("output", name)]
            elif own and sizes[1] == sizes[0][::-1]:
                found = [*zip(("hidden",) if len(own) == 1 else ("gate", "up"), own), ("result", name)]
            known.update(one for _, one in found)
            yield from found
        yield from (("norm", name) for name in self.of("Norm"))
        yield from zip(("tokens", "positions"), self.of("Embedding"))
        last = next(reversed(self.made), None)
        if last and last not in known and self.of("Embedding"):
            yield "head", last

    def by_joins(self, three: Sequence[str]) -> Sequence[str]:
        """By names that say it; else queries and keys are multiplied first, in this order, then their weights with values."""
        named = [[one for one in three if re.search(rf"{word}|(?<![a-z]){word[0]}(?![a-z])|^w{word[0]}$", one.rsplit(".", 1)[-1].lower())]
                 for word in ("quer", "key", "val")]
        if all(len(one) == 1 for one in named):
            return [one[0] for one in named]
        for sources in self.sources.values():
            found = [one for one in sources if one in three]
            if len(found) == len(sources) == 2:
                return [*found, *(one for one in three if one not in found)]
            if len(found) == 3:
                return found
        return three
