"""Makes the goldens of the recurrent layers and of the convolution: every step of GRUs and LSTMs.

Each case is nn.GRU or nn.LSTM with fixed weights, computed once more by PyTorch's own operations, a step at a time, in
the order of the traces. The steps have to end in the module's own output and states; padded batches in what the module
makes of a packed sequence. PyTorch has no module that only reads backward: there, the module reads the sequence turned
round. The GRU whose reset gate acts before the product, as Cho et al. 2014 and Keras with reset_after=False have it, is
in no module of PyTorch's either: it is computed by NumPy.

The cases are called KIND.LAYERS.DIRECTIONS.INPUT.WHAT: gru.l2.both.batch.lengths. KIND is gru, gru_before or lstm; INPUT is
sequence or batch. See case.py for what a case is.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import case
from case import within
from layers import attend, expect, numbers, with_numbers

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))
import planted

# -------------------------------------------------------------------------------------------------------------- cells


def parts(x, hidden, weights):
    """What the gates are made of: of the token and of the state."""
    steps = {
        "input_part": F.linear(x, weights["weight_ih"], weights.get("bias_ih")),
        "recurrent_part": F.linear(hidden, weights["weight_hh"], weights.get("bias_hh")),
    }
    gates = len(weights["weight_hh"]) // hidden.shape[-1]
    return steps, steps["input_part"].chunk(gates, dim=-1), steps["recurrent_part"].chunk(gates, dim=-1)


def gru_cell(x, hidden, _, weights):
    steps, of_input, of_state = parts(x, hidden, weights)
    reset, update = torch.sigmoid(of_input[0] + of_state[0]), torch.sigmoid(of_input[1] + of_state[1])
    candidate = torch.tanh(of_input[2] + reset * of_state[2])
    steps |= {"reset": reset, "update": update, "candidate": candidate}
    return steps | {"hidden": (1 - update) * candidate + update * hidden}


def gru_cell_before(x, hidden, _, weights):
    """A product with the state for the gates, another with what the reset gate leaves of it."""
    x, hidden = x.numpy(), hidden.numpy()
    kernel, recurrent_kernel = weights["weight_ih"].numpy().T, weights["weight_hh"].numpy().T
    zeros = np.zeros(kernel.shape[1])
    bias = weights["bias_ih"].numpy() if "bias_ih" in weights else zeros
    recurrent_bias = weights["bias_hh"].numpy() if "bias_hh" in weights else zeros
    units = hidden.shape[-1]
    share = lambda array: 1 / (1 + np.exp(-array))

    of_input = np.dot(x, kernel) + bias
    of_state = np.dot(hidden, recurrent_kernel[:, : 2 * units]) + recurrent_bias[: 2 * units]
    reset, update = np.split(share(of_input[..., : 2 * units] + of_state), 2, axis=-1)
    selected = reset * hidden
    candidate_part = np.dot(selected, recurrent_kernel[:, 2 * units :]) + recurrent_bias[2 * units :]
    candidate = np.tanh(of_input[..., 2 * units :] + candidate_part)
    steps = {
        "input_part": of_input, "recurrent_part": of_state, "reset": reset, "update": update, "selected": selected,
        "candidate_part": candidate_part, "candidate": candidate, "hidden": update * hidden + (1 - update) * candidate,
    }  # fmt: skip
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in steps.items()}


def lstm_cell(x, hidden, cell, weights):
    steps, of_input, of_state = parts(x, hidden, weights)
    i, f, g, o = (a + b for a, b in zip(of_input, of_state))
    steps |= {"input_gate": torch.sigmoid(i), "forget_gate": torch.sigmoid(f), "candidate": torch.tanh(g), "output_gate": torch.sigmoid(o)}
    steps["cell"] = steps["forget_gate"] * cell + steps["input_gate"] * steps["candidate"]
    return steps | {"hidden": steps["output_gate"] * torch.tanh(steps["cell"])}


CELLS = {"gru": gru_cell, "gru_before": gru_cell_before, "lstm": lstm_cell}

# ---------------------------------------------------------------------------------------------------------- sequences


def learned(weights):
    """PyTorch's weights are (gates, in), ours their transposes; in the order of the trace."""
    names = {"input_weights": "weight_ih", "input_bias": "bias_ih", "recurrent_weights": "weight_hh", "recurrent_bias": "bias_hh"}
    return {ours: weights[theirs].T if "weight" in theirs else weights[theirs] for ours, theirs in names.items() if theirs in weights}


def read(kind, x, weights, state, lengths, is_backward):
    """One direction of one layer: its steps, and the states that it ends with."""
    steps, outputs = learned(weights), {}
    n, has_cell = x.shape[-2], kind == "lstm"
    for i in reversed(range(n)) if is_backward else range(n):
        scope = {"x": x[..., i, :], "previous_hidden": state["hidden"]}
        if has_cell:
            scope["previous_cell"] = state["cell"]
        scope |= CELLS[kind](scope["x"], state["hidden"], state.get("cell"), weights)
        outputs[i] = scope["hidden"]
        carried = ["hidden", "cell"] if has_cell else ["hidden"]
        if lengths is not None:
            for name in carried:
                scope[f"kept_{name}"] = torch.where(lengths[:, None] > i, scope[name], state[name])
        state = {name: scope[name if lengths is None else f"kept_{name}"] for name in carried}
        steps |= within(f"step.{i}", scope)
    output = torch.stack([outputs[i] for i in range(n)], dim=-2)
    if lengths is not None:
        output = output * (torch.arange(n) < lengths[:, None])[..., None]
    return steps | {"output": output}, state


def cell_weights(state_dict, layer, direction):
    ending = f"_l{layer}{'_reverse' if direction == 'backward' else ''}"
    return {name[: -len(ending)]: tensor for name, tensor in state_dict.items() if name.endswith(ending)}


def recurrent(kind, x, state_dict, layers, directions, initial, lengths):
    """Every step of all layers."""
    steps = {"x": x} | ({} if lengths is None else {"lengths": lengths})
    steps |= {f"initial_{name}": states for name, states in initial.items()}
    ended, y = [], x
    for layer in range(layers):
        scope, outputs = {"x": y}, []
        for direction in directions:
            start = {name: states[len(ended)] for name, states in initial.items()}
            of_way, last = read(kind, y, cell_weights(state_dict, layer, direction), start, lengths, direction == "backward")
            scope |= within(direction, of_way)
            outputs.append(of_way["output"])
            ended.append(last)
        y = scope["output"] = torch.cat(outputs, dim=-1)
        steps |= within(f"layers.{layer}", scope)
    steps |= {f"final_{name}": torch.stack([last[name] for last in ended]) for name in initial}
    return steps | {"output": y}


# -------------------------------------------------------------------------------------------------------------- cases


def module_gives(module, x, given, lengths):
    """Output and states of nn.GRU or nn.LSTM, of packed sequences where some are shorter."""
    with torch.no_grad():
        if lengths is None:
            return module(x, given)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, states = module(packed, given)
        return pad_packed_sequence(output, batch_first=True, total_length=x.shape[1])[0], states


def expect_module(module, steps, initial, lengths, is_given, turned):
    turn = lambda tensor: tensor.flip(-2) if turned else tensor
    states = tuple(initial.values())
    given = (states if len(states) == 2 else states[0]) if is_given else None
    output, final = module_gives(module, turn(steps["x"]), given, lengths)
    expect(turn(output), steps["output"])
    for name, tensor in zip(initial, final if len(states) == 2 else [final]):
        expect(tensor, steps[f"final_{name}"])


def recurrent_case(kind, layers, directions, form, what, n=4, d_in=3, d_hidden=2):
    ways = ["forward", "backward"] if directions == "both" else [directions]
    new = nn.LSTM if kind == "lstm" else nn.GRU
    module = new(d_in, d_hidden, layers, bias=what != "unbiased", batch_first=True, bidirectional=len(ways) == 2)
    module = with_numbers(module, seed=400 + 20 * layers + len(ways))
    state_dict = module.state_dict()
    if directions == "backward":
        state_dict = {f"{name}_reverse": tensor for name, tensor in state_dict.items()}

    batch = () if form == "sequence" else (3,)
    n = 1 if what == "one_token" else n
    x = numbers(*batch, n, d_in, seed=500 + n)
    lengths = torch.tensor([2, n, 1]) if "lengths" in what else None
    shape, is_given = (layers * len(ways), *batch, d_hidden), "initial" in what
    initial = {"hidden": numbers(*shape, seed=600) if is_given else torch.zeros(shape, dtype=torch.float64)}
    if kind == "lstm":
        initial["cell"] = numbers(*shape, seed=601) if is_given else torch.zeros(shape, dtype=torch.float64)
    steps = recurrent(kind, x, state_dict, layers, ways, initial, lengths)
    if kind != "gru_before":
        expect_module(module, steps, initial, lengths, is_given, turned=directions == "backward")
    given = {"x": x} | ({} if lengths is None else {"lengths": lengths})
    given |= {f"initial_{name}": states for name, states in initial.items()} if is_given else {}
    if directions == "backward":  # attn run has no such module
        return None, given, steps, learned(cell_weights(state_dict, 0, directions))
    return {"gru_before": "gru --reset before"}.get(kind, kind), given, steps, state_dict


MODULES = {
    "l1.forward": "sequence.plain sequence.unbiased sequence.one_token batch.initial",
    "l1.both": "sequence.initial batch.lengths",
    "l2.forward": "sequence.initial batch.unbiased",
    "l2.both": "sequence.plain batch.initial_lengths",
    "l1.backward": "sequence.initial batch.plain",
}
BEFORE = {"l1.forward": "sequence.plain sequence.unbiased batch.initial", "l2.both": "batch.initial_lengths"}


def recurrences():
    """Every case, step by step."""
    golden = {}
    for kind in CELLS:
        for stack, forms in (BEFORE if kind == "gru_before" else MODULES).items():
            for form in forms.split():
                layers, directions = stack.split(".")
                of = recurrent_case(kind, int(layers[1:]), directions, *form.split("."), n=3 if layers == "l2" else 4)
                golden |= case.case(f"{kind}.{stack}.{form}", *of)
    return golden


# -------------------------------------------------------------------------------------------------------- convolution


def convolution(x, weight, bias):
    """The steps of a convolution along the tokens, weight (d_out, d_in, width) as PyTorch has it."""
    width, n = weight.shape[-1], x.shape[-2]
    padded = F.pad(x, (0, 0, width // 2, width // 2))
    windows = padded.unfold(-2, width, 1).transpose(-1, -2).flatten(-2)  # (…, n, width, d_in) in one row
    kernel = weight.permute(2, 1, 0).reshape(-1, len(weight))
    output = windows @ kernel + (0 if bias is None else bias)
    channels_first = x.transpose(-1, -2) if x.dim() == 3 else x.T[None]
    by_pytorch = F.conv1d(channels_first, weight, bias, padding=width // 2).transpose(-1, -2)
    expect(by_pytorch.reshape(output.shape), output)
    assert len(windows.shape) == x.dim() and windows.shape[-2] == n
    steps = {"x": x, "kernel": kernel} | ({} if bias is None else {"bias": bias})
    return steps | {"padded": padded, "windows": windows, "output": output}


def convolutions():
    """Widths, sequences shorter than the window, with and without a bias."""
    golden = {}
    for name, (shape, width, biased) in {
        "width1.sequence": ((4, 3), 1, True), "width3.sequence": ((5, 3), 3, True), "width3.batch": ((2, 4, 3), 3, True),
        "width3.unbiased": ((4, 2), 3, False), "width5.short": ((2, 3), 5, True), "width3.one_token": ((1, 2), 3, True),
    }.items():  # fmt: skip
        d_in, d_out = shape[-1], 4
        weight, bias = numbers(d_out, d_in, width, seed=700 + width), numbers(d_out, seed=701) if biased else None
        steps = convolution(numbers(*shape, seed=702 + len(shape)), weight, bias)
        golden |= case.case(name, None, {"x": steps["x"]}, steps, {part: steps[part] for part in ("kernel", "bias") if part in steps})
    return golden


# ------------------------------------------------------------------------------------------------------------- lesson


def as_state_dict(**weights):
    """PyTorch's names and orientation, from weights that are (in, gates)."""
    return {name: torch.from_numpy(array.T.copy()) for name, array in weights.items()}


def drawn_cell(draw, d_in, d_hidden, gates, layer="l0"):
    input_weights = draw(d_in, gates * d_hidden)
    return as_state_dict(**{f"weight_ih_{layer}": input_weights, f"weight_hh_{layer}": draw(d_hidden, gates * d_hidden)})


def zeros(*shape):
    return torch.zeros(shape, dtype=torch.float64)


def expect_gru(x, state_dict, initial, steps):
    """nn.GRU, one layer, with these weights and no bias."""
    hidden = state_dict["weight_hh_l0"].shape[1]
    module = nn.GRU(x.shape[-1], hidden, bias=False, batch_first=True, bidirectional=len(state_dict) == 4).double()
    module.load_state_dict(state_dict)
    expect(module(x, initial)[0].detach(), steps["output"])


def gru_of_seed(x, initial, gates):
    """Token by token, with token and state concatenated, as the note on the GRU writes it."""
    steps, hidden, share = {}, initial, lambda array: 1 / (1 + np.exp(-array))
    for i, token in enumerate(x):
        joined = np.append(token, hidden)
        reset, update = share(joined @ gates["reset_weights"]), share(joined @ gates["update_weights"])
        candidate = np.tanh(np.append(token, reset * hidden) @ gates["candidate_weights"])
        scope = {"x": token, "previous": hidden, "joined": joined, "reset": reset, "update": update, "selected": reset * hidden, "candidate": candidate}
        hidden = scope["hidden"] = hidden - update * (hidden - candidate)
        steps |= within(f"step.{i}", scope)
    return steps


def sentence():
    """Lily had a red ball . She: is a word a name, a colour, a full stop; and a one."""
    words = np.zeros((7, 4))
    words[[0, 3, 5], [0, 1, 2]] = 1
    words[:, 3] = 1
    opens = np.array([[8.0, 0], [0, 8], [0, 8], [-4, -4], [0, 0], [0, 0]])
    gates = {"update_weights": opens, "reset_weights": -opens, "candidate_weights": np.vstack([3 * np.eye(2), np.zeros((2, 2)), np.eye(2)])}
    initial = np.zeros(2)
    return {"x": words, "initial": initial} | gates | gru_of_seed(words, initial, gates)


def conventions(x, initial, gates):
    """The same weights as PyTorch's modules pack them, with the reset gate before the product and after it."""
    columns = np.hstack([gates["reset_weights"], -gates["update_weights"], gates["candidate_weights"]])
    d_in = x.shape[1]
    state_dict = as_state_dict(weight_ih_l0=columns[:d_in], weight_hh_l0=columns[d_in:])
    packed = learned(cell_weights(state_dict, 0, "forward"))
    x, initial = torch.from_numpy(x), torch.from_numpy(initial)[None]
    before = recurrent("gru_before", x, state_dict, 1, ["forward"], {"hidden": initial}, None)
    after = recurrent("gru", x, state_dict, 1, ["forward"], {"hidden": initial}, None)
    expect_gru(x, state_dict, initial, after)
    after["difference"] = (after["output"] - before["output"]).abs().max()
    return {"packed": columns} | packed | within("reset_before", before) | within("reset_after", after)


def moved(output):
    return (output[1] - output[0]).abs().amax(dim=1)


def self_attention(x, draw):
    """One head without an output map; nn.MultiheadAttention has one, which is the identity here."""
    d = x.shape[-1]
    maps = {role: torch.from_numpy(draw(d, d)) for role in ("query", "key", "value")}
    steps = {"x": x}
    for role, weights in maps.items():
        steps |= {f"{role}_weights": weights, role: x @ weights}
    head = attend({"queries": steps["query"], "keys": steps["key"], "values": steps["value"]}, None, None)
    steps |= within("head.0", head) | {"merged": head["context"], "output": head["context"]}
    module = nn.MultiheadAttention(d, 1, bias=False, batch_first=True).double()
    packed = torch.cat([weights.T for weights in maps.values()])
    module.load_state_dict({"in_proj_weight": packed, "out_proj.weight": torch.eye(d, dtype=torch.float64)})
    expect(module(x, x, x)[0].detach(), steps["output"])
    return steps


def first_token_changes(x, draw):
    """A recurrent network, layers of convolutions, and attention, on two sequences that differ in their first token."""
    changed = x.copy()
    changed[0] += 1
    pair = torch.from_numpy(np.stack([x, changed]))
    n, d = x.shape
    state_dict = drawn_cell(draw, d, d, 3)
    recurrence = recurrent("gru", pair, state_dict, 1, ["forward"], {"hidden": zeros(1, 2, d)}, None)
    expect_gru(pair, state_dict, None, recurrence)
    steps = {"pair": pair} | within("recurrence", recurrence | {"moved": moved(recurrence["output"])})
    arrived, tokens = [], pair
    for depth in range(1, n):
        kernel = torch.from_numpy(draw(3 * d, d).reshape(3, d, d))
        layer = convolution(tokens, kernel.permute(2, 1, 0), None)
        tokens = layer["output"]
        layer["moved"] = moved(tokens)
        arrived.append(bool(layer["moved"][-1] > 0))
        steps |= within(f"convolution.layer.{depth}", layer)
    attention = self_attention(pair, draw)
    steps |= within("attention", attention | {"moved": moved(attention["output"])})
    states, layers_needed = int((recurrence["output"][0] != recurrence["output"][1]).any(dim=1).sum()), arrived.index(True) + 1
    at_once = 1 + int(attention["output"][0, -1].equal(attention["output"][1, -1]))
    return steps | {"path.recurrence": states, "path.convolution": layers_needed, "path.attention": at_once}


def counts():
    """What waits for what, and what is multiplied, by what the definitions say."""
    n = np.array([4, 8, 16])
    attention = len(["maps", "scores", "context"])
    waiting = {"n": n, "gru": n, "reset_before": n + n, "lstm": n, "convolution": np.ones(3), "attention": np.full(3, attention)}
    n, d = np.array([16, 64, 256, 1024]), 64
    of_map = n * d**2  # one map of every token
    between = n**2 * (d + 1)  # of all pairs: d products and a quotient
    cost = {"d": d, "n": n, "gru": 6 * of_map + 3 * n * d, "lstm": 8 * of_map + 3 * n * d, "convolution": 3 * of_map, "attention": 3 * of_map + 2 * between}
    return within("waiting", waiting) | within("cost", cost)


def additive(queries, states, query_weights, key_weights, score_weights):
    query_part, key_part = queries @ query_weights, states @ key_weights
    hidden = torch.tanh(query_part[:, None, :] + key_part[None])
    scores = F.linear(hidden, score_weights[None])[..., 0]
    weights = torch.softmax(scores, dim=-1)
    return {
        "queries": queries, "keys": states, "values": states, "query_weights": query_weights, "key_weights": key_weights,
        "score_weights": score_weights, "query_part": query_part, "key_part": key_part, "hidden": hidden,
        "scores": scores, "weights": weights, "context": weights @ states,
    }  # fmt: skip


def translator(x, d_hidden, draw):
    """An encoder that reads both ways, and a decoder that asks all of its states before each word."""
    there, back = drawn_cell(draw, x.shape[1], d_hidden, 3), drawn_cell(draw, x.shape[1], d_hidden, 3, "l0_reverse")
    decoder = drawn_cell(draw, 2 + 2 * d_hidden, d_hidden, 3)
    alignment = [torch.from_numpy(draw(*shape, scale=8.0 if len(shape) == 1 else 1.0)) for shape in ((d_hidden, 3), (2 * d_hidden, 3), (3,))]
    x = torch.from_numpy(x)
    encoder = recurrent("gru", x, there | back, 1, ["forward", "backward"], {"hidden": zeros(2, d_hidden)}, None)
    expect_gru(x, there | back, None, encoder)
    words, state = torch.from_numpy(draw(3, 2, scale=4.0)), torch.from_numpy(draw(d_hidden))
    steps = within("encoder", encoder) | {"words": words, "start": state}
    weights = cell_weights(decoder, 0, "forward")
    by_pytorch = nn.GRUCell(2 + 2 * d_hidden, d_hidden, bias=False).double()
    by_pytorch.load_state_dict(weights)
    for word in range(3):
        asked = additive(state[None], encoder["output"], *alignment)
        of_word = {"previous_hidden": state} | within("attention", asked) | {"x": torch.cat([words[word], asked["context"][0]])}
        of_word |= learned(weights) | gru_cell(of_word["x"], state, None, weights)
        expect(by_pytorch(of_word["x"], state).detach(), of_word["hidden"])
        state = of_word["hidden"]
        steps |= within(f"word.{word}", of_word)
    return steps


def lesson():
    """Every step of lesson 21."""
    x = np.array([[1, 0], [0, 1], [1, 1], [-1, 0.5]])
    initial = np.array([0.5, -0.5])
    gates = {
        "reset_weights": np.array([[1.0, 0], [-1, 2], [2, 0], [0, -2]]),
        "update_weights": np.array([[0.0, 1], [1, 0], [0, -1], [1, 0]]),
        "candidate_weights": np.array([[1, -1], [0.5, 1], [1, 1], [-1, 1]]),
    }
    steps = {"x": x, "initial": initial} | gates | gru_of_seed(x, initial, gates) | within("sentence", sentence())
    steps |= conventions(x, initial, gates)
    draw = planted.SplitMix(16)
    of_lstm = recurrent("lstm", torch.from_numpy(x), drawn_cell(draw, 2, 2, 4), 1, ["forward"], {"hidden": zeros(1, 2), "cell": zeros(1, 2)}, None)
    steps |= within("lstm", {"x": torch.from_numpy(x)} | of_lstm) | first_token_changes(x, draw) | counts()
    for shape in [(2, 6), (2, 6), (2, 8), (2, 8), (2, 2), (2, 2), (2, 2), (6, 2), (28, 2)]:
        draw(*shape)  # what waits for what was counted on these
    return {name: np.asarray(array) for name, array in (steps | within("translator", translator(x, 2, draw))).items()}
