"""Makes the golden of attention sinks: every step, and the gradients of queries, keys, values and sinks.

PyTorch in float64, a step at a time, in the order of the traces. Where transformers is there (5.12.1 was), the result is held
against the attention of its gpt-oss; Debian's PyTorch is enough to make the golden.

The gradients are those of the sum of the contexts, each times `seed`. See case.py for what a case is.
"""

import numpy as np
import torch

from case import case
from layers import numbers

try:
    from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss
except ImportError:
    gpt_oss = None


def attended(queries, keys, values, sinks, mask=None):
    steps = {"queries": queries, "keys": keys, "values": values} | ({} if mask is None else {"mask": mask})
    steps["scores"] = scores = queries @ keys.transpose(-1, -2)
    steps["scaled"] = logits = scores / np.sqrt(keys.shape[-1])
    if mask is not None:
        steps["masked"] = logits = logits.masked_fill(~mask, float("-inf"))
    steps["sinks"] = sinks
    column = sinks[:, None, None] if queries.dim() == 4 else sinks
    steps["sink_scores"] = column = column.expand(*logits.shape[:-1], 1)
    steps["with_sink"] = logits = torch.cat([logits, column], dim=-1)
    steps["all_weights"] = weights = torch.softmax(logits, dim=-1)
    steps["weights"] = weights = weights[..., :-1]
    steps["context"] = weights @ values
    return steps


class Heads:
    """What transformers' function reads of the module that it is called with."""

    num_key_value_groups, training = 1, False

    def __init__(self, sinks):
        self.sinks = sinks


def held_against(steps):
    """The result is that of transformers, which has heads only."""
    with_heads = lambda x: x if x.dim() == 4 else x[..., None, :, :].reshape(-1, 1, *x.shape[-2:])
    added = None
    if "mask" in steps:
        added = torch.zeros(steps["mask"].shape, dtype=torch.float64).masked_fill(~steps["mask"], float("-inf"))
        added = added if added.dim() == 2 else with_heads(added)
    context, weights = gpt_oss.eager_attention_forward(
        Heads(steps["sinks"]), *(with_heads(steps[name]) for name in ("queries", "keys", "values")), added,
        steps["keys"].shape[-1] ** -0.5,
    )  # fmt: skip
    for found, expected in ((context.transpose(1, 2), steps["context"]), (weights, steps["weights"])):
        torch.testing.assert_close(found.reshape(expected.shape), expected, rtol=1e-12, atol=1e-12)


def with_gradients(*given, mask=None):
    given = [tensor.clone().requires_grad_() for tensor in given]
    steps = attended(*given, mask=mask)
    seed = numbers(*steps["context"].shape, seed=99)
    gradients = torch.autograd.grad((steps["context"] * seed).sum(), given)
    of_names = zip(("queries", "keys", "values", "sinks"), gradients)
    return steps, {"seed": seed} | {f"grad.{name}": gradient for name, gradient in of_names}


def drawn(seed, *front, n, m, heads=1, scale=1.0):
    return (numbers(*front, n, 4, seed=seed), numbers(*front, m, 4, seed=seed + 1), numbers(*front, m, 3, seed=seed + 2),
            numbers(heads, seed=seed + 3, scale=scale))  # fmt: skip


def cases():
    causal = torch.arange(5) <= torch.arange(5)[:, None]
    some = numbers(2, 3, 5, seed=60) > -0.5
    some[1, 2] = False  # a query that can attend to nothing
    all_cases = {
        "sequence-plain": (drawn(10, n=3, m=5), None),
        "sequence-causal": (drawn(20, n=5, m=5), causal),
        "batch-masked": (drawn(30, 2, n=3, m=5), some),
        "heads-plain": (drawn(40, 2, 3, n=4, m=6, heads=3), None),
        "heads-causal": (drawn(50, 2, 3, n=5, m=5, heads=3, scale=20), causal),  # sinks that take all, and nothing
    }
    golden = {}
    for name, (given, mask) in all_cases.items():
        steps, gradients = with_gradients(*given, mask=mask)
        steps = {step: array.detach() for step, array in steps.items()}
        if gpt_oss and name != "batch-masked":  # a row of minus infinity alone is none of theirs
            held_against(steps)
        given = {part: steps[part] for part in ("queries", "keys", "values", "mask", "sinks") if part in steps}
        golden |= case(name, "attention", given, steps, gradients=gradients, result="context")
    if gpt_oss:
        print("sinks: the attention of transformers' gpt-oss gives the same")
    return golden
