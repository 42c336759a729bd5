"""Models of transformers as they are, with their own caches."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from .calls_schedules import Calls, takes
from .calls_weights import refused
from .program import Error


def calls_of_model(model: Any, cache: str | Callable[[], Any] | None) -> tuple[Calls, dict[str, Any]]:
    """An adapter, and what the config says. raises Error where it is no model of transformers"""
    config = getattr(model, "config", None)
    if isinstance(model, type) and issubclass(model, Calls):
        raise Error(f"{model.__name__} is a class: give an object, {model.__name__}()")
    if config is None or not callable(getattr(model, "forward", None)) or not hasattr(config, "vocab_size"):
        raise Error(f"{type(model).__name__} is no model of transformers: derive from attn.Calls, with start(batch) and step(ids, state)")
    if cache not in (None, "dynamic", "static") and not callable(cache):
        raise Error(f'cache is {cache!r}, expected "dynamic", "static" or a function that makes one')
    if getattr(config, "is_encoder_decoder", False):
        raise Error(f"{type(model).__name__} is an encoder–decoder, whose calls an adapter has to make: derive from attn.Calls, with start(batch, source)")
    if getattr(model, "training", False):
        raise Error("the model is in training mode, where dropout is on: call eval() first")
    known: dict[str, Any] = {"vocabulary": config.vocab_size}
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if positions:
        known["max_tokens"] = positions
    window = getattr(config, "sliding_window", None)
    if window and getattr(config, "use_sliding_window", True):
        known["window"] = window
    if getattr(config, "rope_parameters", None) or getattr(config, "rope_theta", None):
        known["kind"] = "rotary"
    return ModelCalls(model, cache or "dynamic"), known


class ModelCalls(Calls):
    """The calls that generate() makes: attention_mask and position_ids where there is padding. A state is a cache, how many rows it has, and how many columns."""

    like = "torch"

    def __init__(self, model: Any, cache: str | Callable[[], Any]):
        import transformers

        self.model, self.kind, self.library = model, cache, transformers
        self.names = {name for name in ("position_ids", "attention_mask", "use_cache") if takes(model.forward, name)}
        found = [name for name in ("cache", "past_key_values", "cache_params") if takes(model.forward, name)]  # its name has changed over versions
        if not found:
            raise Error(f"{type(model).__name__} takes no cache: there is no second call to check")
        self.name = found[0]
        has_states = "linear_attention" in (getattr(model.config, "layer_types", None) or ())
        self.counts_columns = "position_ids" not in self.names or bool(getattr(model.config, "sliding_window", None)) or has_states

    def whole(self, ids: Any) -> Any:
        return self.model(input_ids=self.placed(ids), **({"use_cache": False} if "use_cache" in self.names else {})).logits

    def placed(self, ids: Any) -> Any:
        return ids.to(next(self.model.parameters()).device)

    def weights(self) -> Any:
        """Of a family that is known here."""
        config = self.model.config.to_dict()
        return None if refused(config) else (config, self.model.state_dict())

    def start(self, batch: int) -> Any:
        if callable(self.kind):
            return self.kind(), batch, 0
        if self.kind == "static":
            return self.library.StaticCache(config=self.model.config, max_cache_len=1024), batch, 0
        return self.library.DynamicCache(config=self.model.config), batch, 0

    def step(self, ids: Any, state: Any, mask: Any = None, positions: Any = None) -> tuple[Any, Any]:
        if mask is not None and self.counts_columns and ((mask[:, 1:] > mask[:, :-1]) & (mask.cumsum(1)[:, :-1] > 0)).any():
            raise NotImplementedError(f"{type(self.model).__name__} counts columns, or has states, which padding between tokens changes; generate() gives none")
        given = {self.name: state[0], "use_cache": True}
        for name, value in (("attention_mask", mask), ("position_ids", positions)):
            if value is not None and name in self.names:
                given[name] = self.placed(value)
        result = self.model(input_ids=self.placed(ids), **given)
        return result.logits, (getattr(result, self.name), state[1], state[2] + ids.shape[1])

    def reorder(self, state: Any, rows: Any) -> Any:
        """As beam search does, and where a row leaves as contrastive search did."""
        cache, batch, columns = state
        select = cache.reorder_cache if len(rows) == batch else cache.batch_select_indices
        try:
            select(self.placed(rows))
        except AttributeError:
            raise NotImplementedError(f"{type(cache).__name__} has no such operation") from None
        return cache, len(rows), columns

    def fork(self, state: Any) -> Any:
        return copy.deepcopy(state)

    def truncate(self, state: Any, length: int) -> Any:
        cache, batch, columns = state
        if not getattr(cache, "is_croppable", True) or not hasattr(cache, "crop"):
            raise NotImplementedError(f"this {type(cache).__name__} can't be cropped")
        try:
            cache.crop(length - columns)
        except RuntimeError as error:  # such as of a window that has moved on
            raise NotImplementedError(str(error)) from None
        return cache, batch, length
