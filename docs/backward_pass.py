# Attention with a backward pass that is written by hand, and wrong.
import numpy as np

rng = np.random.default_rng(14)
queries, keys, values, dcontext = (rng.normal(size=shape) for shape in ((4, 3), (5, 3), (5, 2), (4, 2)))
root = np.sqrt(keys.shape[-1])

scores = queries @ keys.T / root
weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
weights /= weights.sum(axis=-1, keepdims=True)
context = weights @ values

dvalues = weights.T @ dcontext
dweights = dcontext @ values.T
dscores = weights * (dweights - (dweights * weights).sum(axis=-1, keepdims=True))
dqueries = dscores @ keys / root
dkeys = dscores.T @ queries

np.savez("input.npz", queries=queries, keys=keys, values=values)
np.savez("mine.npz", dcontext=dcontext, dvalues=dvalues, dweights=dweights, dscores=dscores, dqueries=dqueries, dkeys=dkeys)
