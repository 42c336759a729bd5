"""Ring attention on four ranks in NumPy, causal, in zigzag order; the ranks are a loop.

    ring.py TRACE.npz MINE.npz            reads queries, keys and values from the lesson's
                                          trace, and writes what each hop of each rank has
    ring.py TRACE.npz MINE.npz --forget   the same, but merges without rescaling by m
"""

import sys

import numpy as np

RANKS = 4
forgets = sys.argv[3:] == ["--forget"]
if len(sys.argv) < 3 or (len(sys.argv) > 3 and not forgets):
    sys.exit(__doc__)

trace = np.load(sys.argv[1])
queries, keys, values = (
    trace[f"model.heads.{name}"].astype(np.float32)[None]
    for name in ("queries", "keys", "values")
)
n, root = keys.shape[2], np.float32(np.sqrt(keys.shape[3]))
chunks = np.array_split(np.arange(n), 2 * RANKS)
tokens = [np.concatenate([chunks[r], chunks[-1 - r]]) for r in range(RANKS)]

mine = {}
for rank in range(RANKS):
    q = queries[:, :, tokens[rank]]
    for hop in range(RANKS):
        here = tokens[rank - hop]  # whose keys have arrived
        mask = here <= tokens[rank][:, None]
        scores = q @ keys[:, :, here].swapaxes(2, 3) / root
        masked = np.where(mask, scores, -np.inf)
        m = masked.max(axis=-1)
        shift = np.where(m == -np.inf, 0, m)
        e = np.exp(masked - shift[..., None])
        l = e.sum(axis=-1)
        context = e @ values[:, :, here] / np.where(l == 0, 1, l)[..., None]
        steps = {"mask": mask[None, None], "largest": m, "sum": l, "context": context}
        if hop > 0:
            largest = np.maximum(all_m, m)
            before, now = np.exp(all_m - largest), np.exp(m - largest)
            if forgets:
                before, now = np.ones_like(before), np.ones_like(now)
            total = all_l * before + l * now
            parts = (all_l * before)[..., None] * all_context + (l * now)[..., None] * context
            m, l, context = largest, total, parts / total[..., None]
            steps |= {"correction_before": before, "correction": now, "merged_largest": m}
            steps |= {"merged_sum": l, "merged_context": context}
        all_m, all_l, all_context = m, l, context
        for name, array in steps.items():
            mine[f"ring.rank.{rank}.hop.{hop}.{name}"] = array
    mine[f"ring.rank.{rank}.context"] = context
np.savez(sys.argv[2], **mine)
