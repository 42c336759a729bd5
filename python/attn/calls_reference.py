"""A small decoder with a cache, in NumPy: what each kind of state has to do. Its decisions are functions of their own, so that a mistake
(calls_mistakes.py) is another answer of one of them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .calls_schedules import Calls

Array = Any  # np.ndarray, which older versions of NumPy have no types for


@dataclass
class State:
    """What a request of some rows knows between calls."""

    real: Array  # (b, columns): true for a token, false for padding
    layers: list[dict[str, Array]]  # what each layer has stored
    memory: list[tuple[Array, Array]] = field(default_factory=list)  # of each layer: keys and values of the source
    tables: list[list[int]] = field(default_factory=list)  # of each row: its pages
    calls: int = 0
    prompt: int = 0  # columns of the first call
    ahead: int = 0  # positions that a mistake has added

    @property
    def count(self) -> Array:
        """Tokens of each row so far."""
        return self.real.sum(1)


class Decoder(Calls):
    """A decoder whose state is one of several kinds.

    positions  "rotary", "learned", "alibi" or "none"
    window     keys that a query sees, itself among them; the cache is a ring of so many slots; 0 for all
    kept       first tokens that a window keeps in sight
    page       tokens in a page of the pool where keys and values are; 0 for one block of memory per row
    scaled     keys and values are stored as parts of a scale for each token
    cross      each layer attends to a source, too
    mixer      "attention" or "recurrent", which has a state and the tail of a convolution
    """

    def __init__(self, positions: str = "rotary", window: int = 0, kept: int = 0, page: int = 0, scaled: bool = False, cross: bool = False,
                 mixer: str = "attention", layers: int = 2, heads: int = 2, d: int = 4, vocabulary: int = 64, capacity: int = 512, seed: int = 0):
        self.positions, self.window, self.kept, self.page, self.scaled, self.cross, self.mixer = positions, window, kept, page, scaled, cross, mixer
        self.heads, self.d, self.layers = heads, d, layers
        random, width = np.random.default_rng(seed), heads * d
        self.embedding, self.head = random.standard_normal((vocabulary, width)), random.standard_normal((width, vocabulary))
        self.learned = random.standard_normal((capacity, width))
        names = ("q", "k", "v", "o", "up", "down", "cross_q", "cross_k", "cross_v", "cross_o")
        self.weights = [{name: random.standard_normal((width, width)) / np.sqrt(width) for name in names} for _ in range(layers)]
        self.frequencies = 10.0 ** -np.arange(d // 2)
        self.taps = random.standard_normal((3, width))  # of the convolution
        self.pool = [random.standard_normal((2, 4096 // page, page, heads, d)) for _ in range(layers)] if page else []  # others' keys and values
        self.free = 0
        if cross or kept:
            self.packed = None  # type: ignore[assignment]
        if not cross:
            self.start = lambda batch: Decoder.start(self, batch)  # type: ignore[method-assign]  # takes no source
        if page or mixer == "recurrent":
            self.join = None  # type: ignore[assignment]
        if window or mixer == "recurrent":
            self.truncate = None  # type: ignore[assignment]

    # What a request does.

    def start(self, batch: int, source: Array | None = None) -> State:
        width, of_ring = self.heads * self.d, self.window + self.kept
        kept = {"keys": (self.heads, self.d), "values": (self.heads, self.d), "scales": (2,), "places": ()}
        layers = [{**{name: np.zeros((batch, of_ring, *shape)) for name, shape in kept.items()}, "order": np.full((batch, of_ring), -1),
                   "sum": np.zeros((batch, width)), "tail": np.zeros((batch, 2, width))} for _ in range(self.layers)]
        memory = [] if source is None else [self.memory_of(one, self.embedding[source]) for one in self.weights]
        return State(np.ones((batch, 0), bool), layers, memory, [[] for _ in range(batch)])

    takes_tokens = False  # a call without padding is taken token by token

    def step(self, ids: Array, state: State, mask: Array | None = None, positions: Array | None = None,
             documents: Array | None = None) -> tuple[Array, State]:
        if self.takes_tokens and mask is None and documents is None and ids.shape[1] > 1:
            results = [self.step(ids[:, i:i + 1], state)[0] for i in range(ids.shape[1])]
            return np.concatenate(results, 1), state
        real = self.real_tokens(state, ids, mask)
        order = np.where(real, state.count[:, None] + np.cumsum(real, 1) - 1, -1)
        result = self.computed(ids, state, order, positions, documents)
        state.real, state.calls, state.prompt = np.concatenate([state.real, real], 1), state.calls + 1, state.prompt or ids.shape[1]
        return result, state

    def computed(self, ids: Array, state: State, order: Array, positions: Array | None, documents: Array | None) -> Array:
        x = self.embedding[ids]
        if self.positions == "learned":
            x = x + self.learned_at(self.places(state, order, positions, 0))
        for layer, weights in enumerate(self.weights):
            places = self.places(state, order, positions, layer)
            mix = self.recur if self.mixer == "recurrent" else self.attend
            x = x + self.mixed(layer, mix(state, layer, self.normed(layer, "attention", x), order, places, documents))
            if self.cross:
                keys, values = self.source_of(state, layer, x)
                queries = self.split(norm(x) @ weights["cross_q"])
                x = x + self.joined(softmax(self.scores(queries, keys)), values) @ weights["cross_o"]
            x = x + self.feed_forward(layer, self.normed(layer, "feed_forward", x))
        return self.normed(-1, "", x) @ self.head

    def at_once(self, ids: Array) -> Array:
        return self.step(ids, self.start(len(ids)))[0]

    def packed(self, ids: Array, documents: Array, positions: Array) -> Array:
        """Several sequences in one row."""
        state = self.start(len(ids))
        return self.step(ids, state, None, self.packed_places(positions), documents)[0]

    def reorder(self, state: State, rows: Array) -> State:
        """Row i goes on as rows[i] did."""
        layers = [{name: array[rows] for name, array in one.items()} for one in state.layers]
        memory = [(keys[rows], values[rows]) for keys, values in state.memory]
        return State(state.real[rows], layers, memory, [self.copied(state.tables[row]) for row in rows], state.calls, state.prompt)

    def fork(self, state: State) -> State:
        return copy.deepcopy(self.reorder(state, np.arange(len(state.real))))

    def truncate(self, state: State, length: int) -> State:  # type: ignore[no-redef]
        """Only the first columns remain."""
        state.real = state.real[:, :length]
        if not self.page:
            for one in state.layers:
                one.update({name: one[name][:, :length] for name in ("keys", "values", "scales", "places", "order")})
        return state

    def join(self, state: State, other: State) -> State:  # type: ignore[no-redef]
        """The rows of both; what is shorter has padding before it."""
        def both(a: Array, b: Array, empty: Any = 0) -> Array:
            longest = max(a.shape[1], b.shape[1])
            return np.concatenate([np.concatenate([np.full((len(one), longest - one.shape[1], *one.shape[2:]), empty, one.dtype), one], 1)
                                   for one in (a, b)])

        layers = [{name: both(a[name], b[name], -1 if name == "order" else 0) if name != "sum" else np.concatenate([a[name], b[name]])
                   for name in a} for a, b in zip(state.layers, other.layers)]
        memory = [(np.concatenate([k, other_k]), np.concatenate([v, other_v])) for (k, v), (other_k, other_v) in zip(state.memory, other.memory)]
        return State(both(state.real, other.real, False), layers, memory, state.tables + other.tables, state.calls, state.prompt)

    # Decisions.

    def real_tokens(self, state: State, ids: Array, mask: Array | None) -> Array:
        """(b, n): which of a call's ids are tokens. The mask has the columns of earlier calls, too."""
        return np.ones(ids.shape, bool) if mask is None else np.asarray(mask, bool)[:, -ids.shape[1]:]

    def places(self, state: State, order: Array, given: Array | None, layer: int) -> Array:
        """(b, n): the positions of a call's tokens."""
        return self.counted(state, order, layer) if given is None else self.told(state, order, given, layer)

    def counted(self, state: State, order: Array, layer: int) -> Array:
        """Without padding."""
        return np.maximum(order, 0)

    def told(self, state: State, order: Array, given: Array, layer: int) -> Array:
        return given

    def packed_places(self, positions: Array) -> Array:
        return positions

    def query_places(self, places: Array, state: State) -> Array:
        return places

    def allowed(self, state: State, queries: Array, keys: Array) -> Array:
        """(b, n, m): which keys a query sees, by their order in the sequence, which is -1 for padding and empty slots."""
        queries, keys = queries[:, :, None], keys[:, None, :]
        seen = (keys >= 0) & (keys <= queries)
        return seen & ((queries - keys < self.window) | (keys < self.kept)) if self.window else seen

    def of_document(self, documents: Array) -> Array:
        """(b, n, n): which tokens of a packed row are of one sequence."""
        return documents[:, :, None] == documents[:, None, :]

    def bias(self, state: State, queries: Array, keys: Array) -> Array:
        """(b, h, n, m): of ALiBi."""
        slopes = 2.0 ** -np.arange(1, self.heads + 1)
        return -slopes[:, None, None] * abs(queries[:, None, :, None] - keys[:, None, None, :])

    def stored_keys(self, keys: Array, places: Array) -> Array:
        """Keys are rotated once, before they are stored."""
        return self.rotated(keys, places)

    def read(self, state: State, layer: int) -> dict[str, Array]:
        """What a layer has stored: keys and values (b, m, h, d), their order and positions (b, m)."""
        stored = dict(state.layers[layer])
        if self.scaled:
            stored.update(zip(("keys", "values"), self.unscaled(stored["keys"], stored["values"], stored["scales"])))
        return stored

    def unscaled(self, keys: Array, values: Array, scales: Array) -> tuple[Array, Array]:
        return keys * scales[..., 0, None, None], values * scales[..., 1, None, None]

    def store(self, state: State, layer: int, new: dict[str, Array]) -> None:
        """The keys and values of a call."""
        kept = state.layers[layer]
        if self.page:
            self.write_pages(state, layer, new)
        elif self.window:
            for row, column in np.argwhere(new["order"] >= 0):
                slot = self.slot(int(new["order"][row, column]))
                for name, array in new.items():
                    kept[name][row, slot] = array[row, column]
        else:
            kept.update({name: np.concatenate([kept[name], array], 1) for name, array in new.items()})

    def slot(self, order: int) -> int:
        """Of the ring, where a token is stored."""
        return order if order < self.kept else self.kept + (order - self.kept) % self.window

    def past_of_call(self, state: State, past: dict[str, Array], order: Array) -> dict[str, Array]:
        """Of what is stored, what the queries of a call can see: all, since a ring is written after they have."""
        return past

    def read_pages(self, state: State, layer: int, new: dict[str, Array]) -> dict[str, Array]:
        """All that is in a row's pages, which have the new tokens by then."""
        counts = state.count + (new["order"] >= 0).sum(1)
        lengths = [self.tokens_to_read(int(count), new["order"].shape[1]) for count in counts]
        keys = np.zeros((2, len(lengths), max(lengths, default=0), self.heads, self.d))
        order = np.full(keys.shape[1:3], -1)
        for row, length in enumerate(lengths):
            pages = self.table(state, row)[:-(-length // self.page)] if length else []
            block = self.pool[layer][:, pages].reshape(2, -1, self.heads, self.d)[:, :length]
            keys[:, row, :block.shape[1]] = block
            order[row, :block.shape[1]] = np.minimum(np.arange(block.shape[1]), max(int(counts[row]) - 1, 0))
        return {"keys": keys[0], "values": keys[1], "order": order, "places": np.maximum(order, 0)}

    def tokens_to_read(self, count: int, new: int) -> int:
        """count: of a row, those of this call among them; new: columns of this call"""
        return count

    def table(self, state: State, row: int) -> list[int]:
        return state.tables[row]

    def write_pages(self, state: State, layer: int, new: dict[str, Array]) -> None:
        for row, column in np.argwhere(new["order"] >= 0):
            order, table = int(new["order"][row, column]), state.tables[row]
            while order + 1 >= len(table) * self.page:  # one more is ready when one is full
                table.append(self.free)
                self.free = (self.free + 1) % self.pool[0].shape[1]
            self.pool[layer][:, table[order // self.page], order % self.page] = new["keys"][row, column], new["values"][row, column]

    def copied(self, table: list[int]) -> list[int]:
        """Pages of its own, for a row that goes on as another one."""
        new = [(self.free + i) % self.pool[0].shape[1] for i in range(len(table))]
        self.free += len(table)
        for pool in self.pool:
            pool[:, new] = pool[:, table]
        return new

    def memory_of(self, weights: dict[str, Array], source: Array) -> tuple[Array, Array]:
        return self.split(norm(source) @ weights["cross_k"]), self.split(norm(source) @ weights["cross_v"])

    def source_of(self, state: State, layer: int, x: Array) -> tuple[Array, Array]:
        """Keys and values of the source, which were computed once."""
        return state.memory[layer]

    def before(self, state: State, layer: int) -> tuple[Array, Array]:
        """What a recurrent layer carries: its sum, and the last inputs of its convolution."""
        return state.layers[layer]["sum"], state.layers[layer]["tail"]

    def carry(self, is_token: Array, now: Array, before: Array) -> Array:
        """Padding changes no state."""
        return np.where(is_token.reshape(-1, *[1] * (now.ndim - 1)), now, before)

    def resets(self, documents: Array | None, t: int) -> Array | None:
        """Where in a packed row another sequence begins."""
        return documents[:, t] != documents[:, t - 1] if documents is not None and t else None

    # The equations.

    def normed(self, layer: int, name: str, x: Array) -> Array:
        return norm(x)

    def maps(self, layer: int, x: Array) -> tuple[Array, Array, Array]:
        """Queries, keys and values (b, n, h, d)."""
        queries, keys, values = (self.split(x @ self.weights[layer][name]) for name in "qkv")
        return queries, keys, values

    def mixed(self, layer: int, x: Array) -> Array:
        return x @ self.weights[layer]["o"]

    def feed_forward(self, layer: int, x: Array) -> Array:
        return np.tanh(x @ self.weights[layer]["up"]) @ self.weights[layer]["down"]

    def learned_at(self, places: Array) -> Array:
        return self.learned[places % len(self.learned)]  # a mistaken count can go on over all requests

    def attend(self, state: State, layer: int, x: Array, order: Array, places: Array, documents: Array | None) -> Array:
        queries, keys, values = self.maps(layer, x)
        queries, keys = self.rotated(queries, self.query_places(places, state)), self.stored_keys(keys, places)
        scales = np.stack([abs(array).max((2, 3)) if self.scaled else np.ones(order.shape) for array in (keys, values)], -1)
        new = {"keys": keys / scales[..., 0, None, None], "values": values / scales[..., 1, None, None], "scales": scales, "order": order, "places": places}
        if self.page:
            self.store(state, layer, new)
            seen = self.read_pages(state, layer, new)
        else:
            past = self.past_of_call(state, self.read(state, layer), order)
            seen = {name: np.concatenate([past[name], array], 1) for name, array in {**new, "keys": keys, "values": values}.items() if name != "scales"}
            self.store(state, layer, new)
        allowed = self.allowed(state, order, seen["order"])
        if documents is not None:
            allowed = allowed & np.concatenate([np.ones((1, order.shape[1], allowed.shape[2] - order.shape[1]), bool), self.of_document(documents)], 2)
        scores = self.scores(queries, seen["keys"]) + (self.bias(state, places, seen["places"]) if self.positions == "alibi" else 0)
        return self.joined(softmax(np.where(allowed[:, None], scores, -np.inf)), seen["values"])

    def recur(self, state: State, layer: int, x: Array, order: Array, places: Array, documents: Array | None) -> Array:
        """total = decay total + key value; a result is query total, of the inputs after a convolution over three tokens."""
        weights, results = self.weights[layer], np.zeros(x.shape)
        total, tail = self.before(state, layer)
        for t in range(x.shape[1]):
            begins = self.resets(documents, t)
            if begins is not None:
                total, tail = np.where(begins[:, None], 0, total), np.where(begins[:, None, None], 0, tail)
            recent = np.concatenate([tail, x[:, t:t + 1]], 1)
            mixed = (recent * self.taps).sum(1)
            decay = 1 / (1 + np.exp(-mixed))
            now = decay * total + (mixed @ weights["k"]) * (mixed @ weights["v"])
            results[:, t] = (mixed @ weights["q"]) * now
            total, tail = self.carry(order[:, t] >= 0, now, total), self.carry(order[:, t] >= 0, recent[:, 1:], tail)
        state.layers[layer].update({"sum": total, "tail": tail})
        return norm(results)

    def rotated(self, x: Array, places: Array) -> Array:
        if self.positions != "rotary":
            return x
        half = self.d // 2
        angles = np.asarray(places)[..., None, None] * self.frequencies
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1)

    def split(self, x: Array) -> Array:
        return x.reshape(*x.shape[:2], self.heads, self.d)

    def scores(self, queries: Array, keys: Array) -> Array:
        return np.einsum("bnhd,bmhd->bhnm", queries, keys) / np.sqrt(self.d)

    def joined(self, weights: Array, values: Array) -> Array:
        return np.einsum("bhnm,bmhd->bnhd", weights, values).reshape(weights.shape[0], weights.shape[2], -1)


def norm(x: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def softmax(scores: Array) -> Array:
    """Where nothing can be seen, as from padding, all weights are zero."""
    largest = scores.max(-1, keepdims=True, initial=-np.inf)
    exponentials = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    return exponentials / np.maximum(exponentials.sum(-1, keepdims=True), 1e-300)
