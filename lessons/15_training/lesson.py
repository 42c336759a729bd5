"""Lesson 15: training, in NumPy: the lines of its page in their order, and the numbers that they start from.

It runs as it is, prints what the page shows, and stops where a number is another. Made of lesson.md by script/docs --pages.
"""

from pathlib import Path

import numpy as np

given, mine = {}, {}   # steps by name: those given, and those computed here

def keep(path, array, among=mine):
    # norm1.output is also the variable norm1_output
    among[path] = globals()[path.replace(".", "_")] = array
    return array

def show(name, array, expected):
    """Prints a step, which has to be what the lesson's page shows."""
    array = np.asarray(array)
    print(f"{name}: {np.array2string(array, precision=4, suppress_small=True, separator=', ')}")
    assert array.shape == np.shape(expected), f"{name} has the shape {array.shape}, the page shows {np.shape(expected)}"
    assert np.allclose(array, expected, rtol=6e-4, atol=6e-5, equal_nan=True), f"{name} is not what the page shows: {expected}"

# ---- what is given

stored = np.load(Path(__file__).with_name("lesson.npz"))
for path in stored.files:
    array = stored[path]
    keep(path, array.astype(float) if array.dtype == np.float32 else array, given)
keep('targets', np.array([19, 15, 24, 32, 1, 10]), given)

# ---- 1. Logits and targets

logits = tokens @ table.T

show('logits[0][:24]', logits[0][:24], [
    0.4356, 0.0150, 0.9467, -1.3597, -0.1097, -0.5545, -0.1803, 0.3105, 0.6713, 1.0835, -1.8306, 1.5369,
    -0.2411, 0.4051, 0.9195, -0.6018, -2.4385, -0.9913, 0.7118, -0.1294, -0.0617, 1.1304, -0.9659,
    1.3759,
])

# ---- 2. The loss

cross_entropy_shifted = logits - logits.max(axis=-1, keepdims=True)
sums = np.exp(cross_entropy_shifted).sum(axis=-1, keepdims=True)
cross_entropy_log_p = cross_entropy_shifted - np.log(sums)
cross_entropy_losses = -cross_entropy_log_p[np.arange(6), targets.astype(int)]
cross_entropy_loss = cross_entropy_losses.mean()

show('cross_entropy.losses', cross_entropy_losses, [4.7425, 4.5989, 5.6114, 4.8530, 4.1999, 6.6080])
show('cross_entropy.loss', cross_entropy_loss, 5.1023)

# ---- 3. The gradient

probabilities = np.exp(cross_entropy_log_p)
target_p = np.eye(66)[targets.astype(int)]
difference = probabilities - target_p
grad_logits = difference / 6
grad_table = grad_logits.T @ tokens

show('grad_table[0][:24]', grad_table[0][:24], [
    0.0114, -0.0384, 0.0005, -0.0272, -0.0441, -0.0038, 0.0022, -0.0145, -0.0216, 0.0071, 0.0087,
    -0.0021, 0.0259, 0.0172, 0.0142, -0.0046, 0.0106, 0.0154, -0.0101, 0.0179, -0.0013, -0.0507, 0.0251,
    -0.0136,
])

# ---- 4. One step of Adam

adam_mean = (1 - 0.9) * grad_table
adam_square = (1 - 0.98) * grad_table**2
adam_mean_hat = adam_mean / (1 - 0.9)
adam_square_hat = adam_square / (1 - 0.98)
adam_step = 0.005 * adam_mean_hat / (np.sqrt(adam_square_hat) + 1e-8)
adam_table = table - adam_step

show('adam.table[0][:24]', adam_table[0][:24], [
    -0.1673, 0.0806, -0.3341, 0.0067, 0.1066, -0.2123, -0.1232, 0.0989, -0.0824, -0.3446, -0.1688,
    0.0740, 0.1406, 0.0648, 0.2485, 0.3459, 0.0778, -0.1843, -0.1506, -0.0686, -0.0695, -0.4315, 0.1188,
    -0.0536,
])

# ---- 5. Dropout

dropped = tokens * dropout_mask

show('dropped[0][:24]', dropped[0][:24], [
    0.0000, -4.7414, 0.0000, 0.0000, 0.0000, 0.1387, -1.2111, -1.0283, -4.0238, 0.0000, 0.0000, -0.1979,
    0.0000, 0.2850, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, -1.5640,
])

print("all as on the page")
