"""What goes wrong with a cache, each made in the small decoder by another answer of one of its decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from .calls_reference import Array, Decoder, State

KINDS: dict[str, dict[str, Any]] = {
    "rotary": {},
    "learned": {"positions": "learned"},
    "alibi": {"positions": "alibi"},
    "ring": {"window": 6},
    "first kept": {"window": 6, "kept": 2},
    "pages of 4": {"page": 4},
    "pages of 16": {"page": 16},
    "scales": {"scaled": True},
    "source": {"cross": True},
    "recurrent": {"mixer": "recurrent"},
}
PLACED = ("rotary", "learned", "alibi")


@dataclass(frozen=True, eq=False)
class Mistake:
    id: str
    sentence: str
    why: str
    seen: str  # where, in public
    kinds: tuple[str, ...]  # of the decoder in which it is made
    overrides: dict[str, Callable[..., Any]]  # decisions: each gets the decoder, the right one and its arguments
    is_of_others: bool = False  # it reads what others have stored, or padding: its numbers are theirs
    otherwise: tuple[dict[str, Callable[..., Any]], ...] = ()  # the same mistake in a cache that is built in another way

    @cached_property
    def forms(self) -> tuple[Mistake, ...]:
        """Itself in each kind of cache; wrong positions, also where a loop around the model gives them."""
        others = list(self.otherwise)
        if "counted" in self.overrides and "told" not in self.overrides:
            others.append({**self.overrides, "told": partial(told_as_counted, self.overrides["counted"])})
        return (self, *(replace(self, overrides=one, otherwise=()) for one in others))

    @property
    def link(self) -> str:
        return "https://github.com/" + self.seen

    @property
    def is_packed(self) -> bool:
        """It is about sequences in one row."""
        return bool({"of_document", "packed_places", "resets"} & set(self.overrides))

    @property
    def is_placed(self) -> bool:
        """It is about positions."""
        return bool({"counted", "told", "query_places", "stored_keys", "bias", "packed_places"} & set(self.overrides))

    def made(self, build: Callable[..., Decoder] = Decoder, **options: Any) -> Decoder:
        decoder = build(**options)
        for name, answer in self.overrides.items():
            setattr(decoder, name, partial(answer, decoder, getattr(decoder, name)))
        if not self.is_packed and decoder.packed is not None:
            decoder.packed = build(**options).packed  # type: ignore[method-assign]
        return decoder


# Masks.

def unmasked_where(condition: Callable[[State, Array], bool]) -> Callable[..., Array]:
    def allowed(decoder: Decoder, right: Any, state: State, queries: Array, keys: Array) -> Array:
        seen = right(state, queries, keys)
        return (keys[:, None, :] >= 0) & np.ones_like(seen) if condition(state, queries) else seen
    return allowed


def top_left(decoder: Decoder, right: Any, state: State, queries: Array, keys: Array) -> Array:
    n, m = queries.shape[1], keys.shape[1]
    return right(state, queries, keys) & (np.tril(np.ones((n, m), bool)) if n > 1 else True)


def always_top_left(decoder: Decoder, right: Any, state: State, queries: Array, keys: Array) -> Array:
    return right(state, queries, keys) & np.tril(np.ones((queries.shape[1], keys.shape[1]), bool))


def past_unseen_by_chunks(decoder: Decoder, right: Any, state: State, queries: Array, keys: Array) -> Array:
    seen = right(state, queries, keys)
    return seen & ((np.arange(keys.shape[1]) >= keys.shape[1] - queries.shape[1]) | (queries.shape[1] == 1))


def is_padded(state: State, queries: Array) -> bool:
    """Without padding, a mask that takes it wrongly is right."""
    return not (state.real.all() and (queries >= 0).all())


def all_real_in(condition: Callable[[State], bool]) -> Callable[..., Array]:
    """Padding is taken for tokens in the keys that are read."""
    def allowed(decoder: Decoder, right: Any, state: State, queries: Array, keys: Array) -> Array:
        if not condition(state) or not is_padded(state, queries):
            return right(state, queries, keys)
        m = keys.shape[1]
        return np.broadcast_to((np.arange(m) <= np.arange(m - queries.shape[1], m)[:, None])[None], (len(keys), queries.shape[1], m))
    return allowed


def padding_stored_as_tokens(decoder: Decoder, right: Any, state: State, layer: int) -> dict[str, Array]:
    """In later calls the mask of the first one is gone."""
    past = right(state, layer)
    return {**past, "order": np.where(past["order"] < 0, 0, past["order"])}


def first_row_mask(decoder: Decoder, right: Any, state: State, queries: Array, keys: Array) -> Array:
    """A key is hidden where the first row has padding; a query, where its own row has."""
    if not is_padded(state, queries):
        return right(state, queries, keys)
    n, m = queries.shape[1], keys.shape[1]
    return (keys[:1, None, :] >= 0) & (np.arange(m) <= np.arange(m - n, m)[:, None]) & (queries[:, :, None] >= 0)


def first_row_mask_but_itself(decoder: Decoder, right: Any, state: State, queries: Array, keys: Array) -> Array:
    """The same, where a token sees itself in any case, so that no row of weights is empty."""
    n, m = queries.shape[1], keys.shape[1]
    return first_row_mask(decoder, right, state, queries, keys) | ((np.arange(m) == np.arange(m - n, m)[:, None]) & (queries[:, :, None] >= 0))


# Positions.

def counted(answer: Callable[[State, Array, int, Array], Array]) -> dict[str, Callable[..., Any]]:
    """Where positions are not given. answer: of the state, the order, the layer and the right positions"""
    return {"counted": lambda decoder, right, state, order, layer: answer(state, order, layer, right(state, order, layer))}


def told_as_counted(count: Callable[..., Array], decoder: Decoder, right: Any, state: State, order: Array, given: Array, layer: int) -> Array:
    return count(decoder, lambda *_: right(state, order, given, layer), state, order, layer)


def in_any_case(answer: Callable[[State, Array, Array], Array]) -> dict[str, Callable[..., Any]]:
    """Where they are given, too. answer: of the state, the order and the right positions"""
    return {"counted": lambda decoder, right, state, order, layer: answer(state, order, right(state, order, layer)),
            "told": lambda decoder, right, state, order, given, layer: answer(state, order, right(state, order, given, layer))}


def columns(state: State, order: Array) -> Array:
    return np.broadcast_to(np.arange(order.shape[1]) + state.real.shape[1], order.shape)


def of_own_tokens(decoder: Decoder, right: Any, state: State, queries: Array, keys: Array) -> Array:
    """All keys before the call's own stand where its first one does."""
    return right(state, queries, np.concatenate([np.repeat(queries[:, :1], keys.shape[1] - queries.shape[1], 1), queries], 1))


# What is stored.

def of_last_request(decoder: Decoder, right: Any, batch: int) -> State:
    """The arrays are not emptied."""
    state = right(batch)
    last = getattr(decoder, "last", None)
    if last is not None and len(last.real) == batch:
        state.real, state.layers, state.tables = last.real, last.layers, last.tables
    decoder.last = state
    return state


def of_last_request_from_0(decoder: Decoder, right: Any, batch: int) -> State:
    """Only the count of positions is set back."""
    state = of_last_request(decoder, right, batch)
    state.ahead = -state.real.shape[1]
    return state


def counted_on(decoder: Decoder, right: Any, batch: int) -> State:
    state = right(batch)
    last, decoder.last = getattr(decoder, "last", None), state
    state.ahead = last.ahead + last.real.shape[1] if last else 0
    return state


def memory_of_last_request(decoder: Decoder, right: Any, state: State, layer: int, x: Array) -> Any:
    """What was kept at the last call, if it has as many rows."""
    kept = decoder.__dict__.setdefault("kept_memory", {})
    now = right(state, layer, x)
    before = kept.get(layer, now)
    kept[layer] = now
    return before if before[0].shape == now[0].shape else now


def from_own_tokens(decoder: Decoder, right: Any, state: State, layer: int, x: Array) -> Any:
    """Computed again in each step, of what is at hand."""
    return decoder.memory_of(decoder.weights[layer], x) if state.calls else right(state, layer, x)


def reordered_but(names: tuple[str, ...], layers: Callable[[int], bool] = lambda layer: True) -> Callable[..., State]:
    def reorder(decoder: Decoder, right: Any, state: State, rows: Array) -> State:
        new = right(state, rows)
        if len(rows) == len(state.real):
            for layer, one in enumerate(new.layers):
                one.update({name: state.layers[layer][name] for name in names if layers(layer)})
        return new
    return reorder


def source_stays_with_beams(decoder: Decoder, right: Any, state: State, rows: Array) -> State:
    """Rows that leave take theirs along."""
    new = right(state, rows)
    new.memory = state.memory if len(rows) == len(state.real) else new.memory
    return new


ALL = ("keys", "values", "scales", "places", "sum", "tail")


def shared_fork(decoder: Decoder, right: Any, state: State) -> State:
    """The new state's arrays are those of the old one."""
    new = right(state)
    new.layers, new.tables = state.layers, state.tables
    return new


def last_layer_wins(decoder: Decoder, right: Any, state: State, layer: int, new: dict[str, Array]) -> None:
    right(state, layer, new)
    if layer == decoder.layers - 1:
        for one in state.layers:
            one.update({name: state.layers[layer][name] for name in ("keys", "values")})


def truncated_count(decoder: Decoder, right: Any, state: State, length: int) -> State:
    """Only the count goes back: what was proposed stays."""
    before = [dict(one) for one in state.layers]
    state = right(state, length)
    for one, old in zip(state.layers, before):
        one.update({name: old[name] for name in ("keys", "values", "scales", "places")})
        one["order"] = np.minimum(old["order"], length - 1)
    return state


def truncated_too_far(decoder: Decoder, right: Any, state: State, length: int) -> State:
    return right(state, length - 1)


def truncated_keys(decoder: Decoder, right: Any, state: State, length: int) -> State:
    """The keys go, and the count of positions stays."""
    state.ahead = state.real.shape[1] - length
    return right(state, length)


def overwritten(decoder: Decoder, right: Any, state: State, layer: int, new: dict[str, Array]) -> None:
    """The last call's keys are all that remains."""
    state.layers[layer].update(new)


def empty(decoder: Decoder, right: Any, state: State, layer: int) -> dict[str, Array]:
    return {name: array[:, :0] for name, array in right(state, layer).items() if name not in ("sum", "tail")}


def twice(decoder: Decoder, right: Any, state: State, layer: int, new: dict[str, Array]) -> None:
    """The prompt's last token is given again with the first step."""
    right(state, layer, new)
    if state.calls == 0:
        right(state, layer, {name: array[:, -1:] for name, array in new.items()})


def of_first_row(names: tuple[str, ...]) -> Callable[..., dict[str, Array]]:
    def read(decoder: Decoder, right: Any, state: State, layer: int) -> dict[str, Array]:
        past = right(state, layer)
        return {**past, **{name: np.broadcast_to(past[name][:1], past[name].shape) for name in names}}
    return read


# Rings.

def ring(before: int) -> Callable[..., dict[str, Array]]:
    """The ring is written before the queries of a chunk have read it: what they overwrite is lost."""
    def past_of_call(decoder: Decoder, right: Any, state: State, past: dict[str, Array], order: Array) -> dict[str, Array]:
        last = order.max(1, initial=-1)
        gone = (past["order"] >= decoder.kept) & (past["order"] <= (last - decoder.window)[:, None] + before)
        return {**past, "order": np.where(gone, -1, past["order"])}
    return past_of_call


def in_steps(delta: int) -> Callable[..., Array]:
    """A window of another length in later calls."""
    def allowed(decoder: Decoder, right: Any, state: State, queries: Array, keys: Array) -> Array:
        window = decoder.window
        decoder.window = window + (delta if state.calls else 0)
        try:
            return right(state, queries, keys)
        finally:
            decoder.window = window
    return allowed


def in_columns(decoder: Decoder, right: Any, state: State, queries: Array, keys: Array) -> Array:
    """Padding takes places of the window."""
    real = np.concatenate([state.real, queries >= 0], 1)
    column = [np.append(np.flatnonzero(row), -1) for row in real]  # of each token
    far = np.stack([at[np.minimum(q, len(at) - 2)][:, None] - at[np.minimum(k, len(at) - 2)] for at, q, k in zip(column, queries, keys)])
    return right(state, queries, keys) & (far < decoder.window)


def wide_ring(decoder: Decoder, right: Any, batch: int) -> State:
    decoder.window += 1
    try:
        return right(batch)
    finally:
        decoder.window -= 1


def by_slot(state: State, order: Array, layer: int, right: Array) -> Array:
    """Of the ring's length, not of all that came before."""
    return np.where(right >= 6, right - state.real.shape[1] + np.minimum(state.real.shape[1], 6), right)


def window_of_rows(decoder: Decoder, right: Any, state: State, queries: Array, keys: Array) -> Array:
    """The window's begin is counted within the call."""
    seen = right(state, queries, keys)
    n = queries.shape[1]
    return seen | ((keys[:, None, :] >= 0) & (keys[:, None, :] <= queries[:, :, None]) & (n > 1) & (np.arange(n)[:, None] >= 0) & (state.calls > 0))


def older_gone(decoder: Decoder, right: Any, state: State, past: dict[str, Array], order: Array) -> dict[str, Array]:
    """What the first token of the call does not see is no longer there, first tokens among it."""
    return {**past, "order": np.where(past["order"] <= state.count[:, None] - decoder.window, -1, past["order"])}


# Pages.

def one_page_more(decoder: Decoder, right: Any, count: int, new: int) -> int:
    return count + decoder.page * (new == 1 and count % decoder.page == 0)


def whole_pages(decoder: Decoder, right: Any, count: int, new: int) -> int:
    return -(-count // decoder.page) * decoder.page


def whole_pages_in_steps(decoder: Decoder, right: Any, count: int, new: int) -> int:
    """A prompt has a causal mask, which hides the rest."""
    return whole_pages(decoder, right, count, new) if new == 1 else count


# Recurrence.

def of_one_token(decoder: Decoder, right: Any, state: State, layer: int, x: Array, order: Array, *others: Any) -> Array:
    """A chunk after the first call goes through the step of one token."""
    if not state.calls or x.shape[1] == 1:
        return right(state, layer, x, order, *others)
    return np.broadcast_to(right(state, layer, x[:, :1], order[:, :1], *others), x.shape)


def none_carried(*names: str) -> Callable[..., Any]:
    def before(decoder: Decoder, right: Any, state: State, layer: int) -> Any:
        return tuple(array * (name not in names) for name, array in zip(("sum", "tail"), right(state, layer)))
    return before


def lost_by_chunks(decoder: Decoder, right: Any, state: State, layer: int, x: Array, *others: Any) -> Array:
    if x.shape[1] > 1:
        state.layers[layer].update({name: 0 * state.layers[layer][name] for name in ("sum", "tail")})
    return right(state, layer, x, *others)


MISTAKES = (
    Mistake("mask_skipped_with_cache", "A call with a cache has no causal mask.",
            "A single step needs none, so that the mask is left out wherever a cache is attached; the prompt has one attached, too.",
            "Mikyx-1/TinyLLM/issues/17", PLACED, {"allowed": unmasked_where(lambda state, queries: queries.shape[1] > 1)}),
    Mistake("chunk_unmasked", "A chunk after the first call has no causal mask.",
            "The mask is made only where there are as many keys as queries.", "mlx-node/mlx-node/pull/24", PLACED,
            {"allowed": unmasked_where(lambda state, queries: state.calls > 0)}),
    Mistake("chunk_masked_top_left", "The causal mask of a chunk begins at the first key.",
            "tril of (queries, keys) is right only where both are as many: the first query of a chunk then sees the first key alone.",
            "hyprstream/hyprstream/pull/1521", PLACED, {"allowed": top_left}),
    Mistake("mask_at_first_key", "The causal mask of each later call begins at the first key.",
            "is_causal is given where there are fewer queries than keys: a single step then sees the first key alone.", "Dao-AILab/flash-attention/issues/282",
            PLACED, {"allowed": always_top_left}),
    Mistake("chunk_sees_itself_alone", "A chunk of several tokens doesn't see what is stored.",
            "A prefill attends to the keys of its own call, which is right at the first one.", "lablup/mlxcel/issues/1749", PLACED,
            {"allowed": past_unseen_by_chunks}),
    Mistake("padding_not_masked", "The mask of padding is not used.", "A causal mask hides padding at the end, but not padding before the tokens.",
            "NVIDIA-NeMo/Automodel/pull/3704", PLACED, {"allowed": all_real_in(lambda state: True)}, is_of_others=True),
    Mistake("padding_seen_later", "Padded keys are hidden in the first call only.",
            "The mask of the prompt is not carried on to the steps after it.", "OpenNMT/OpenNMT-py/pull/2532", PLACED, {"read": padding_stored_as_tokens}, is_of_others=True),
    Mistake("mask_of_first_row", "All rows get the mask of the first one.", "The mask is taken from row 0, and broadcast.",
            "quic/efficient-transformers/pull/1209", PLACED, {"allowed": first_row_mask}, is_of_others=True, otherwise=({"allowed": first_row_mask_but_itself},)),
    Mistake("positions_restart", "Each call's positions begin at 0.", "They are arange(n) of the call's own tokens.", "Blaizzy/mlx-vlm/issues/1983", PLACED,
            counted(lambda state, order, layer, right: right - right.min(1, keepdims=True))),
    Mistake("positions_stand_still", "All tokens of a later chunk have the position of its first one.", "The start is broadcast over the call.",
            "jundot/omlx/pull/2363", PLACED, counted(lambda state, order, layer, right: right.min(1, keepdims=True) + 0 * right if state.calls else right)),
    Mistake("positions_jump", "After the prompt, positions jump by its length once more.", "The offset is moved by the model and by the loop around it.",
            "skyzh/tiny-llm/pull/46", PLACED, counted(lambda state, order, layer, right: right + state.prompt)),
    Mistake("positions_counted_twice", "Each call moves the positions by twice its length.", "The count is moved in two places.", "skyzh/tiny-llm/pull/46",
            PLACED, counted(lambda state, order, layer, right: right + state.real.shape[1])),
    Mistake("keys_restart", "The keys of each call are placed from 0, its queries are not.", "The offset is given for the queries alone.",
            "kvcache-ai/sglang/pull/66", ("rotary",), {"stored_keys": lambda decoder, right, keys, places: right(keys, places - places.min(1, keepdims=True))}),
    Mistake("positions_one_ahead", "Positions after the first call are one too large.",
            "The count already has the token that is about to be processed.", "microsoft/onnxruntime-genai/pull/2354", PLACED,
            counted(lambda state, order, layer, right: right + (state.calls > 0))),
    Mistake("positions_after_update", "A later call's positions begin after its own tokens.", "The cache's length is asked for after it was updated.",
            "RobertCsordas/moeut/pull/6", PLACED, counted(lambda state, order, layer, right: right + order.shape[1] * (state.calls > 0))),
    Mistake("positions_by_layer", "The first layer moves the count, so that those above are ahead.",
            "The count is shared by all layers and is moved where the first one stores its keys.", "fla-org/flash-linear-attention/issues/766", ("rotary", "alibi"),
            counted(lambda state, order, layer, right: right + order.shape[1] * (layer > 0 and state.calls > 0))),
    Mistake("padding_counted", "Padding before the tokens counts as positions.", "position_ids are not given, and are those of columns.",
            "ndif-team/nnsight/issues/672", PLACED, in_any_case(lambda state, order, right: columns(state, order))),
    Mistake("steps_at_padded_length", "Steps after a padded prompt have the positions of the longest row.", "The count is that of columns, which has padding.",
            "Comfy-Org/ComfyUI/pull/15698", PLACED, in_any_case(lambda state, order, right: columns(state, order) if state.calls else right)),
    Mistake("positions_of_first_row", "All rows have the positions of the first one.", "A batch has one vector of positions.", "unslothai/unsloth/pull/3803",
            PLACED, in_any_case(lambda state, order, right: np.broadcast_to(right[:1], right.shape))),
    Mistake("alibi_of_one_step", "The bias of a step is built over its own token alone.",
            "ALiBi needs the positions of the cached keys; over one token it is slope times 0.", "keras-team/keras-hub/issues/2861", ("alibi",),
            {"bias": of_own_tokens}, otherwise=({"bias": lambda decoder, right, state, queries, keys: (
                of_own_tokens(decoder, right, state, queries, keys) if queries.shape[1] == 1 else right(state, queries, keys))},)),
    Mistake("cache_ignored", "What is stored is not read.", "Each call sees its own tokens alone.", "deepspeedai/DeepSpeed/pull/7428", PLACED, {"read": empty}),
    Mistake("cache_overwritten", "A call replaces what was stored.", "Keys are assigned where they should be appended.",
            "iCog-Labs-Dev/PC-Transformers/issues/129", PLACED, {"store": overwritten}),
    Mistake("token_stored_twice", "The prompt's last token is stored twice.", "The loop gives it again with the first step.",
            "iCog-Labs-Dev/PC-Transformers/issues/129", PLACED, {"store": twice}),
    Mistake("last_request", "A new request finds the keys of the last one.", "The cache is not emptied, or its length is not set back.",
            "mudler/LocalAI/issues/6747", PLACED, {"start": of_last_request}),
    Mistake("keys_of_last_request", "A new request sees the keys of the last one, and has its own positions.", "The count is set back, and the cache is not emptied.",
            "mudler/LocalAI/issues/6747", PLACED, {**counted(lambda state, order, layer, right: right + state.ahead), "start": of_last_request_from_0}),
    Mistake("positions_of_last_request", "A new request's positions go on after the last one's.", "The cache is emptied, and the count is not set back.",
            "casper-hansen/AutoAWQ/issues/170", ("learned",), {"start": counted_on, "counted": lambda decoder, right, state, order, layer: (
                right(state, order, layer) + state.ahead)}),
    Mistake("first_row_cache", "All rows read the first row's keys.", "A batch of one is broadcast, or an index is 0 for all.",
            "quic/efficient-transformers/pull/1209", PLACED, {"read": of_first_row(("keys", "values"))}),
    Mistake("not_reordered", "The cache stays where it is when beams change places.", "It is kept under a name that the search does not know.",
            "huggingface/transformers/issues/46612", PLACED, {"reorder": reordered_but(ALL)}),
    Mistake("values_not_reordered", "Only the keys go with the beams.", "Keys and values are two lists, and one is forgotten.",
            "huggingface/transformers/issues/34232", PLACED, {"reorder": reordered_but(("values",))}),
    Mistake("layers_share_cache", "All layers read what the last one stored.", "They are given one object.", "vllm-project/vllm-ascend/pull/11021", PLACED,
            {"store": last_layer_wins}),
    Mistake("fork_shares_cache", "A fork and what it came from append to the same arrays.", "The container is handed out, not a copy of it.",
            "MemTensor/MemOS/issues/2301", PLACED, {"fork": shared_fork}),
    Mistake("proposals_stay", "Tokens that were taken back stay in the cache.", "Only the count goes back.",
            "ml-explore/mlx-lm/pull/1486", PLACED, {"truncate": truncated_count}),
    Mistake("nothing_taken_back", "Tokens that were taken back stay, and later positions go on after theirs.", "The call that takes them back has no effect on this cache.",
            "ml-explore/mlx-lm/pull/1486", PLACED, {"truncate": lambda decoder, right, state, length: state}),
    Mistake("one_too_many_taken_back", "One token too many is taken back.", "Proposals and results are counted one apart.", "lablup/mlxcel/issues/994", PLACED,
            {"truncate": truncated_too_far}),
    Mistake("positions_not_taken_back", "The keys are taken back, and the count of positions is not.", "Two counts, one of them set.",
            "Blaizzy/mlx-vlm/issues/1715", PLACED, {**counted(lambda state, order, layer, right: right + state.ahead), "truncate": truncated_keys}),
    Mistake("keys_not_rotated", "Stored keys are not rotated.", "What is stored is taken before the rotation, and not rotated where it is read.",
            "EleutherAI/gpt-neox/pull/363", ("rotary",), {"store": lambda decoder, right, state, layer, new: right(state, layer, {
                **new, "keys": decoder.rotated(new["keys"], -new["places"])})}),
    Mistake("keys_rotated_twice", "Stored keys are rotated again where they are read.", "They were rotated before they were stored.",
            "NeuraLegion/shainet/pull/110", ("rotary",), {"read": lambda decoder, right, state, layer: (lambda past: {
                **past, "keys": decoder.rotated(past["keys"], past["places"])})(right(state, layer))}),
    Mistake("queries_after_update", "Queries are rotated at positions after the update, keys before it.",
            "The offset is read from the cache again, which has this call's keys by then.", "ml-explore/mlx-lm/pull/1702", ("rotary",),
            {"query_places": lambda decoder, right, places, state: places + places.shape[1]}),
    Mistake("ring_written_first", "A chunk overwrites keys of the ring that its first queries still need.",
            "A ring of the window's length is written before it is read: right for one token, wrong for several.", "ollama/ollama/pull/15591", ("ring",),
            {"past_of_call": ring(0)}),
    Mistake("window_one_short", "Later calls see one key less than the window.", "The mask of a prompt and the length of the ring are one apart.",
            "mistralai/mistral-inference/issues/60", ("ring",), {"allowed": in_steps(-1)}),
    Mistake("ring_one_short", "The ring keeps one key less than the window needs.", "Its length is that of the window without the token at hand, counted once too often.",
            "mistralai/mistral-inference/issues/60", ("ring",), {"past_of_call": lambda decoder, right, state, past, order: {
                **past, "order": np.where(past["order"] < state.count[:, None] - decoder.window + 2, -1, past["order"])}}),
    Mistake("window_mask_one_long", "The mask of later calls is one key longer than the window, the ring is not.",
            "A single step has no such key; the later ones of a chunk have.", "ml-explore/mlx-lm/pull/390", ("ring",),
            {"allowed": in_steps(1), "past_of_call": lambda decoder, right, state, past, order: {
                **past, "order": np.where(past["order"] < state.count[:, None] - decoder.window + 1, -1, past["order"])}}),
    Mistake("window_one_long", "Later calls see one key more than the window.", "The ring keeps one slot more than the mask of a prompt allows.",
            "ml-explore/mlx-lm/pull/390", ("ring",), {"allowed": in_steps(1), "start": wide_ring,
                                                      "slot": lambda decoder, right, order: order % (decoder.window + 1)}),
    Mistake("ring_slot_off", "After the ring wrapped, keys that are still needed are overwritten.", "Its begin is computed from a length that has not wrapped.",
            "huggingface/transformers/pull/47708", ("ring",), {"slot": lambda decoder, right, order: order if order < decoder.window else (order + 2) % decoder.window}),
    Mistake("ring_positions", "After the ring wrapped, positions are those of slots.", "The offset is the count of keys that are kept.",
            "rajveer43/VeloxQuant-MLX/issues/389", ("ring",), counted(by_slot)),
    Mistake("window_not_masked_in_chunks", "A later chunk sees all keys that are stored, beyond the window of its rows.",
            "The part of the mask that is about the cache is one row for all.", "pytorch/executorch/pull/21857", ("ring",), {"allowed": window_of_rows},
            otherwise=({"allowed": window_of_rows, "past_of_call": older_gone},)),
    Mistake("window_counts_padding", "Padding takes places of the window.", "The window is one of columns, which have padding between tokens.",
            "trymirai/lalamo/pull/200", ("ring",), {"allowed": in_columns}),
    Mistake("first_tokens_overwritten", "The first tokens, which the window keeps, are overwritten when the ring wraps.",
            "The ring's slots begin at 0.", "ml-explore/mlx-lm/issues/1631", ("first kept",),
            {"slot": lambda decoder, right, order: order % (decoder.window + decoder.kept)}, otherwise=({"past_of_call": older_gone},)),
    Mistake("page_too_many", "A page too many is read where a sequence fills its last one.", "The next page is in the table as soon as one is full.",
            "pegainfer-project/pegainfer/issues/291", ("pages of 4", "pages of 16"), {"tokens_to_read": one_page_more}, is_of_others=True),
    Mistake("rest_of_page_read", "The rest of the last page is read.", "The length is that of pages, not of tokens.", "pytorch/pytorch/pull/160861",
            ("pages of 4", "pages of 16"), {"tokens_to_read": whole_pages}, is_of_others=True, otherwise=({"tokens_to_read": whole_pages_in_steps},)),
    Mistake("table_of_first_row", "All rows read the pages of the first one.", "The table is indexed by a row of the call, not by the request.",
            "sgl-project/sglang-jax/pull/1545", ("pages of 4", "pages of 16"), {"table": lambda decoder, right, state, row: (
                right(state, 0) + right(state, row))[:len(right(state, row))]}),
    Mistake("pages_shared", "A row that goes on as another one writes into its pages.", "A shared page is not copied before it is written.",
            "Avarok-Cybersecurity/atlas/issues/1193", ("pages of 4", "pages of 16"), {"copied": lambda decoder, right, table: list(table)}),
    Mistake("scales_dropped", "Stored keys and values are read without their scales.", "A fast path converts the type, and forgets the factor.",
            "vllm-project/vllm/pull/42580", ("scales",), {"unscaled": lambda decoder, right, keys, values, scales: (keys, values)}),
    Mistake("scales_twice", "The scales are applied twice.", "Where they are read, and in the product after that.", "vllm-project/vllm/pull/48016", ("scales",),
            {"unscaled": lambda decoder, right, keys, values, scales: right(*right(keys, values, scales), scales)}),
    Mistake("scales_of_other_token", "A token's keys are read with the scale of another token.", "The scales' strides are not those of the keys.",
            "vllm-project/vllm/issues/49716", ("scales",), {"unscaled": lambda decoder, right, keys, values, scales: right(keys, values, scales[:, ::-1])}),
    Mistake("source_of_last_request", "Keys of the source are those that were kept at the call before.", "They are kept by the model, not by the request.",
            "huggingface/transformers/pull/31166", ("source",), {"source_of": memory_of_last_request}),
    Mistake("source_computed_of_tokens", "Steps compute the keys of the source again, of what is at hand.",
            "The hidden states of the source are not given after the first call.", "huggingface/transformers/issues/7824", ("source",), {"source_of": from_own_tokens}),
    Mistake("source_of_first_row", "All rows attend to the first row's source.", "The source is broadcast, or beams are counted wrongly.",
            "vllm-project/vllm/pull/23664", ("source",), {"source_of": lambda decoder, right, state, layer, x: tuple(
                np.broadcast_to(one[:1], one.shape) for one in right(state, layer, x))}),
    Mistake("source_not_reordered", "The source stays where it is when rows change places.", "Only the tokens' own keys are reordered.",
            "huggingface/transformers/issues/46612", ("source",), {"reorder": lambda decoder, right, state, rows: (lambda new: (
                setattr(new, "memory", state.memory if len(rows) == len(state.real) else [(k[:len(rows)], v[:len(rows)]) for k, v in state.memory]), new)[1])(right(state, rows))}, otherwise=({"reorder": source_stays_with_beams},)),
    Mistake("state_not_carried", "Each call begins with an empty state.", "The state that a call returns is dropped.", "1bit-MONSTER/1bit-MONSTER/issues/2089",
            ("recurrent",), {"before": none_carried("sum", "tail")}),
    Mistake("tail_not_carried", "The convolution's last inputs are not carried.", "Only the sum is stored.", "vllm-project/vllm/pull/56196", ("recurrent",),
            {"before": none_carried("tail")}),
    Mistake("sum_not_carried", "The state is not carried, the convolution's tail is.", "Only the tail is stored.", "vllm-project/vllm/pull/23279", ("recurrent",),
            {"before": none_carried("sum")}),
    Mistake("state_lost_by_chunks", "A chunk of several tokens begins with an empty state.", "A call of several tokens is taken for a new prompt.",
            "lablup/mlxcel/issues/1749", ("recurrent",), {"recur": lost_by_chunks}),
    Mistake("chunk_as_one_token", "A chunk after the first call goes through the step of one token.", "Whether there is a state decides, not how many tokens there are.",
            "huggingface/transformers/pull/46741", ("recurrent",), {"recur": of_one_token}),
    Mistake("padding_in_state", "Padding changes the state.", "There is no mask in a recurrence.", "huggingface/transformers/pull/32677", ("recurrent",),
            {"carry": lambda decoder, right, is_token, now, before: now}),
    Mistake("state_not_reordered", "The state stays where it is when beams change places.", "It is kept under a name that the search does not know.",
            "huggingface/transformers/issues/46612", ("recurrent",), {"reorder": reordered_but(("sum", "tail"))}),
    Mistake("packed_seen", "Sequences in one row see each other.", "The mask is causal over the whole row.", "huggingface/nanoVLM/issues/201", PLACED,
            {"of_document": lambda decoder, right, documents: np.ones((1, documents.shape[1], documents.shape[1]), bool)}),
    Mistake("packed_positions", "Positions run on over sequences in one row.", "They are arange of the whole row.", "huggingface/nanoVLM/issues/201", ("learned",),
            {"packed_places": lambda decoder, right, positions: np.arange(positions.shape[1])[None]}),
    Mistake("packed_state", "The state goes on from one sequence of a row to the next.", "Nothing tells the recurrence where one begins.", "NovaSky-AI/SkyRL/pull/2056",
            ("recurrent",), {"resets": lambda decoder, right, documents, t: None}),
)
