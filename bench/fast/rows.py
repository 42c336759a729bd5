"""What bench/fast/fast.py measures: each row says what a worker is asked, how much work that is, and what limits it."""

import dataclasses

HEADS, FEATURES = 8, 64  # of attention alone
D_MODEL, D_FF = 512, 2048  # of an encoder layer, with as many heads
SGEMM_SIZE, STREAM_BYTES = 2048, 256 << 20


@dataclasses.dataclass(frozen=True)
class Attention:
    """8 heads of 64 features, no batch. Operations are counted as the products need them, half of that where it is causal."""

    direction: str  # forward, backward
    n: int
    causal: bool
    limit = "sgemm"

    @property
    def line(self):
        return f"attention {self.direction} {self.n} {self.causal:d}"

    @property
    def work(self):
        products = {"forward": 4, "backward": 10}[self.direction]
        return products * self.n**2 * FEATURES * HEADS / (2 if self.causal else 1)


@dataclasses.dataclass(frozen=True)
class Encoder:
    """An encoder layer, d_model 512, 8 heads, d_ff 2048, forward."""

    b: int
    n: int
    limit = "sgemm"

    @property
    def line(self):
        return f"encoder {self.b} {self.n}"

    @property
    def work(self):
        return 2 * self.b * self.n * (4 * D_MODEL**2 + 2 * D_MODEL * D_FF) + 4 * self.b * self.n**2 * D_MODEL


@dataclasses.dataclass(frozen=True)
class Shape:
    """Of a decoder like Llama's, its output tied to the embedding. bench/fast/story.cpp has the same two."""

    d_model: int
    d_ff: int
    layers: int
    heads: int
    key_value_heads: int
    vocabulary: int

    @property
    def numbers(self):
        """That a token reads."""
        key_value = self.d_model // self.heads * self.key_value_heads
        layer = 2 * self.d_model**2 + 2 * self.d_model * key_value + 3 * self.d_model * self.d_ff + 2 * self.d_model
        return self.vocabulary * self.d_model + self.layers * layer + self.d_model


SHAPES = {"260K": Shape(64, 172, 5, 8, 4, 512), "15M": Shape(288, 768, 6, 6, 6, 32000)}


@dataclasses.dataclass(frozen=True)
class Story:
    """One token of a story of so many, on average: a decoder of drawn weights, token by token, at temperature 0."""

    shape: str
    n: int
    limit = "stream"

    @property
    def line(self):
        return f"story {self.shape} {self.n}"

    @property
    def work(self):
        """Bytes of the weights."""
        return 4 * SHAPES[self.shape].numbers


def all_rows(lengths):
    """In the order of the table."""
    rows = [Attention(direction, n, causal) for direction in ("forward", "backward") for n in lengths for causal in (False, True)]
    rows += [Encoder(b, n) for b, n in ((1, 128), (8, 128), (1, 512), (1, 2048))]
    # Fewer tokens of the smaller one are over in less than the milliseconds that llama2.c counts in.
    return rows + [Story("260K", 500)] + [Story("15M", n) for n in (16, 128, 500)]
