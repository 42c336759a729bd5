"""Flash attention in NumPy, by the tiles of attn run attention --fast.

    kernel.py INPUT.npz MINE.npz            writes queries, keys and values, and what each
                                            tile of a causal attention to them computes
    kernel.py INPUT.npz MINE.npz --forget   the same, but the sum is never corrected
"""

import sys

import numpy as np

ROWS, COLUMNS = 60, 128  # of a tile
forgets = sys.argv[3:] == ["--forget"]
if len(sys.argv) < 3 or (len(sys.argv) > 3 and not forgets):
    sys.exit(__doc__)

draw = np.random.RandomState(18).standard_normal
queries, keys, values = (draw((300, 16)).astype(np.float32) for _ in range(3))
np.savez(sys.argv[1], queries=queries, keys=keys, values=values)

mine = {}
for r, first in enumerate(range(0, len(queries), ROWS)):
    q = queries[first : first + ROWS]
    end = first + len(q)  # no query of the tile can attend to a key from here on
    largest = np.full(len(q), -np.inf, np.float32)
    total = np.zeros(len(q), np.float32)
    partial = np.zeros((len(q), values.shape[1]), np.float32)
    for t, begin in enumerate(range(0, end, COLUMNS)):
        k = slice(begin, min(begin + COLUMNS, end))
        scores = q @ keys[k].T
        allowed = np.arange(k.start, k.stop) <= np.arange(first, end)[:, None]
        masked = np.where(allowed, scores / np.float32(4), -np.inf)  # 4: the root of 16
        before, largest = largest, np.maximum(largest, masked.max(axis=1))
        correction = np.exp(before - largest)
        exponentials = np.exp(masked - largest[:, None])
        total = (total if forgets else total * correction) + exponentials.sum(axis=1)
        partial = partial * correction[:, None] + exponentials @ values[k]
        steps = dict(scores=scores, masked=masked, largest=largest, sum=total)
        steps |= dict(exponentials=exponentials, partial=partial)
        if t > 0:
            steps["correction"] = correction
        for name, array in steps.items():
            mine[f"head.0.rows.{r}.tile.{t}.{name}"] = array
    mine[f"head.0.rows.{r}.context"] = partial / total[:, None]
np.savez(sys.argv[2], **mine)
