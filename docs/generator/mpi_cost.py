"""What an encoder layer costs on P ranks: the model of docs/mpi_cost.md, in multiply-adds, bytes, messages and seconds.

All numbers are of the forward pass of one sequence, on the rank that has the most to do. Each way is a function
(layer, tokens, ranks) -> Cost, which knows nothing of machines; seconds() says how long a machine takes for a Cost.
"""

import json
import math
from dataclasses import dataclass, replace

import numpy as np

from .errors import read_text


@dataclass(frozen=True)
class Layer:
    d_model: int
    heads: int
    d_ff: int
    layers: int = 1  # of the whole model: their weights are in memory, one of them is computed

    @property
    def weights(self):
        """How many: four maps of attention, two of the feed-forward network. Each takes a multiply-add per token."""
        return 4 * self.d_model**2 + 2 * self.d_model * self.d_ff


@dataclass(frozen=True)
class Cost:
    maps: float = 0  # multiply-adds of the six maps
    weights: float = 0  # how many of one layer are read
    attention: float = 0  # multiply-adds of scores and contexts
    moved: float = 0  # numbers read or written to lay out messages and to merge
    messages: int = 0  # one after the other
    sent: float = 0  # numbers
    hidden: float = 0  # share of the time of attention during which messages can travel
    working: float = 0  # numbers that the library allocates
    memory: float = 0  # numbers in all: weights of all layers, tokens, what is computed of them


@dataclass(frozen=True)
class Link:
    latency: float  # seconds of an empty message
    bandwidth: float  # bytes per second, in one direction


@dataclass(frozen=True)
class Machine:
    number: int  # bytes
    products: float  # multiply-adds per second of a matrix product, on one rank
    attention: float  # the same, of attention
    memory: float  # bytes per second that a rank reads or writes
    near: Link
    far: Link  # with more ranks than a node has
    node: float = math.inf  # ranks with near links
    cores: float = math.inf  # ranks that compute at once; with more of them, each has a share of a core
    overlaps: bool = True  # whether messages travel while ranks compute
    capacity: float = math.inf  # bytes of a rank

    def link(self, ranks):
        return self.near if ranks <= self.node else self.far


# ------------------------------------------------------------------------------------------------------------- the three ways


def ring(layer, tokens, ranks):
    n, d = math.ceil(tokens / ranks), layer.d_model
    several = ranks > 1
    working = n * ((4 if several else 2) * d + (2 if several else 1) * (d + 2 * layer.heads) + 4 * layer.heads)
    return Cost(
        maps=n * layer.weights,
        weights=layer.weights,
        attention=2 * n * n * ranks * d,
        moved=(6 * n * d * ranks if several else 3 * n * d) + 4 * n * d,  # merges of three tensors; a copy of keys and values
        messages=ranks - 1,
        sent=2 * n * d * (ranks - 1),
        hidden=(ranks - 1) / ranks,
        working=working,
        memory=layer.layers * layer.weights + n * d + max(4 * n * d + working, n * layer.d_ff),
    )


def ulysses(layer, tokens, ranks):
    n, d, mine = math.ceil(tokens / ranks), layer.d_model, math.ceil(layer.heads / ranks)
    width = mine * d // layer.heads  # of the heads of one rank
    all_tokens = n * ranks
    kept, there, back = all_tokens * (4 * width + 2 * mine), 3 * (n * d + all_tokens * width), n * d + all_tokens * width
    working = kept + max(there, back)
    return Cost(
        maps=n * layer.weights,
        weights=layer.weights,
        attention=2 * all_tokens**2 * width,
        moved=6 * 4 * all_tokens * width,  # laid side by side: read, written; laid out again: cleared, read twice, written
        messages=2 * (ranks - 1),
        sent=4 * (all_tokens - n) * width,
        working=working,
        memory=layer.layers * layer.weights + n * d + max(4 * n * d + working, n * layer.d_ff),
    )


def tensor_parallel(layer, tokens, ranks):
    d, mine, units = layer.d_model, math.ceil(layer.heads / ranks), math.ceil(layer.d_ff / ranks)
    width = mine * d // layer.heads
    weights = 4 * d * width + 2 * d * units
    return Cost(
        maps=tokens * weights,
        weights=weights,
        attention=2 * tokens**2 * width,
        moved=6 * (ranks - 1) / ranks * tokens * d,  # what arrives for two sums is added: read twice, written
        messages=4 * (ranks - 1),
        sent=4 * (ranks - 1) / ranks * tokens * d,
        memory=layer.layers * weights + 2 * tokens * d + max(4 * tokens * width, tokens * units),
    )


WAYS = {"ring": ring, "Ulysses": ulysses, "tensor parallel": tensor_parallel}


# ---------------------------------------------------------------------------------------------------------------- on a machine


def only_attention(cost):
    return replace(cost, maps=0, weights=0)


def travelling(cost, machine, ranks):
    """Seconds of the messages, if nothing else were done meanwhile."""
    link = machine.link(ranks)
    return cost.messages * link.latency + cost.sent * machine.number / link.bandwidth


def parts(cost, machine, ranks):
    """Seconds of the maps, of attention, of what is moved on a rank, and of messages that are waited for."""
    crowd = max(1, ranks / machine.cores)
    attention = cost.attention / machine.attention
    hidden = cost.hidden * attention if machine.overlaps else 0
    seconds = {
        "maps": max(cost.maps / machine.products, cost.weights * machine.number / machine.memory),
        "attention": attention,
        "moved": cost.moved * machine.number / machine.memory,
        "messages": max(0, travelling(cost, machine, ranks) - hidden),
    }
    return {name: crowd * part for name, part in seconds.items()}


def seconds(cost, machine, ranks):
    return sum(parts(cost, machine, ranks).values())


def tokens_that_hide(machine, link):
    """How many tokens per rank let a hop's messages hide behind its attention: 2 n d s / bandwidth <= 2 n n d / attention."""
    return machine.number * machine.attention / link.bandwidth


def fits(cost, machine):
    return cost.memory * machine.number <= machine.capacity


def fastest_ways(layer, machine, tokens, ranks, tie=0.02):
    """The names of the ways that take least time, of those whose ranks have the memory: several where they differ by less than 2 %."""
    costs = {name: way(layer, tokens, ranks) for name, way in WAYS.items()}
    times = {name: seconds(cost, machine, ranks) for name, cost in costs.items() if fits(cost, machine)}
    return [name for name, time in times.items() if time <= (1 + tie) * min(times.values())]


def longest(way, layer, machine, ranks):
    """The most tokens that fit a rank's memory; with bisection, as memory grows with tokens."""
    low, high = 0, 2**40
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(way(layer, middle, ranks), machine) else (low, middle)
    return low


# ------------------------------------------------------------------------------------------------------------------- constants

# A layer as in models of seven thousand million weights, 32 of them.
LARGE = Layer(d_model=4096, heads=32, d_ff=16384, layers=32)

# One H100 SXM of a DGX H100, in bfloat16; the page has the sources. A multiply-add is two of a vendor's operations, and a
# vendor's bandwidth counts both directions.
PUBLISHED = Machine(
    number=2, products=989e12 / 2, attention=740e12 / 2, memory=3.35e12, near=Link(3.4e-6, 900e9 / 2), far=Link(14e-6, 400e9 / 8),
    node=8, capacity=80e9,
)  # fmt: skip


class Measured:
    """What bench/mpi_cost.py wrote: docs/mpi_cost.json."""

    def __init__(self, root):
        self.about = json.loads(read_text(root / "docs" / "mpi_cost.json", "bench/mpi_cost.py"))
        self.rows = self.about["measured"]
        self.layer = Layer(**self.about["layer"])
        self.cores = self.about["machine"]["cores"]
        self.machine = self.in_float32()

    def of(self, what, ranks=None):
        return [row for row in self.rows if row["what"] == what and ranks in (None, row["ranks"])]

    def rate(self, what, multiply_adds):
        """Per second of one rank while all cores compute."""
        (row,) = self.of(what, self.cores)
        return multiply_adds(row["size"]) / self.on_cores(row)

    def on_cores(self, row):
        """Seconds of a run by its processor time, shared by the cores that its ranks have: what other programs add is left out."""
        return row["processor_seconds"] / min(row["ranks"], self.cores)

    def of_attention(self, n):
        return 2 * n * n * self.layer.d_model // self.layer.heads

    def in_float32(self):
        """This machine with the kernels of attn::fast; its ranks are cores, which also move the messages."""
        link = fitted(self.of("message", 2))
        return Machine(
            number=4, products=self.rate("product", lambda n: n**3), attention=self.rate("attention", self.of_attention),
            memory=2 * self.rate("copy", lambda bytes_: bytes_), near=link, far=link, cores=self.cores, overlaps=False,
        )  # fmt: skip

    def in_double(self):
        """The same with the reference's functions."""
        products = self.rate("reference_product", lambda n: n**3)
        attention = self.rate("reference_attention", self.of_attention)
        return replace(self.machine, number=8, products=products, attention=attention)

    def runs(self):
        """The runs of whole ways: (row, predicted seconds, measured seconds)."""
        machines = {"ring": self.machine, "ulysses": self.machine, "tensor_parallel": self.in_double()}
        ways = {"ring": ring, "ulysses": ulysses, "tensor_parallel": tensor_parallel}
        for row in filter(lambda row: row["what"] in ways, self.rows):
            cost = ways[row["what"]](self.layer, row["size"], row["ranks"])
            cost = cost if row["what"] == "tensor_parallel" else only_attention(cost)
            yield row, seconds(cost, machines[row["what"]], row["ranks"]), self.on_cores(row)

    def collectives(self):
        """All-reduce and all-to-all: (row, predicted seconds, measured seconds)."""
        link = self.machine.near
        for row in (*self.of("all_reduce"), *self.of("all_to_all")):
            ranks, steps = row["ranks"], (2 if row["what"] == "all_reduce" else 1) * (row["ranks"] - 1)
            yield row, steps * (link.latency + row["size"] / ranks / link.bandwidth), row["seconds"]


def fitted(messages):
    """The link that comes closest to the times of some messages, in the least squares of relative errors."""
    sizes, times = (np.array([row[key] for row in messages], dtype=float) for key in ("size", "seconds"))
    latency, per_byte = np.linalg.lstsq(np.stack([1 / times, sizes / times], axis=1), np.ones(len(times)), rcond=None)[0]
    return Link(float(latency), float(1 / per_byte))
