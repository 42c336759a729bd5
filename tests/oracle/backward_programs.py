"""Somebody's own backward passes, written by hand in plain NumPy, each with mistakes that can be planted in its code.

They know nothing of attn. A program computes forward, then backward, and keeps the gradients under names of its own: `dprobs`,
`grad_h`, `x_grad`. `PROGRAMS` says for each how `attn run` computes the same, and which mistakes it can make: the variable that
is wrong first, and the name of the mistake.
"""

import numpy as np


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def rows(x):
    return x.reshape(-1, x.shape[-1])


class Program:
    """Computes in the type of its weights and inputs; `grads` are the gradients in the order in which they are computed."""

    module, flags, final, weights_are_inputs = "", (), (), False

    def __init__(self, mistake=None, dtype=np.float64, **options):
        self.mistake, self.dtype = mistake, dtype
        self.__dict__.update(options)
        rng = np.random.default_rng(7)
        self.draw = lambda *shape: np.asarray(rng.normal(size=shape) * 0.7)
        self.inputs, self.weights = self.drawn()
        self.seed = self.draw_seed()
        self.grads = {}

    def is_a(self, *mistakes):
        return self.mistake in mistakes

    def keep(self, name, array):
        self.grads[name] = np.asarray(array, dtype=self.dtype)
        return self.grads[name]

    def run(self):
        """The output, and all gradients from that of the output on."""
        given = {name: a.astype(self.dtype) if a.dtype.kind == "f" else a for name, a in (self.inputs | self.weights).items()}
        output = self.forward(given)
        self.backward(given, self.seed.astype(self.dtype))
        return output

    # ---------------------------------------------------------------------------------------------------- shared parts

    def linear_backward(self, x, w, dy, names):
        """Of y = x @ w.T + b, as PyTorch stores w."""
        dx_name, dw_name, db_name = names
        if db_name:
            db = rows(dy).sum(axis=0)
            if self.is_a(f"{db_name}: not summed"):
                db = dy
            elif self.is_a(f"{db_name}: one sequence"):
                db = dy[0].sum(axis=0)
            elif self.is_a(f"{db_name}: mean"):
                db = rows(dy).mean(axis=0)
            self.keep(db_name, db)
        dw = rows(dy).T @ rows(x)
        self.keep(dw_name, dw.T if self.is_a(f"{dw_name}: transposed") else dw)
        dx = dy @ (w.T if self.is_a(f"{dx_name}: no transpose") else w)
        return self.keep(dx_name, dx)

    def norm_forward(self, x, gain, bias):
        rstd = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
        xhat = (x - x.mean(axis=-1, keepdims=True)) * rstd
        return xhat * gain + bias, (xhat, rstd)

    def norm_backward(self, cache, gain, dy, names):
        xhat, rstd = cache
        dgain, dbias, dxhat_name, dx_name = names
        self.keep(dbias, dy if self.is_a(f"{dbias}: not summed") else rows(dy).sum(axis=0))
        self.keep(dgain, rows(dy).mean(axis=0) if self.is_a(f"{dgain}: forgot xhat") else rows(dy * xhat).sum(axis=0))
        dxhat = self.keep(dxhat_name, dy if self.is_a(f"{dxhat_name}: no gain") else dy * gain)
        mean, along = dxhat.mean(axis=-1, keepdims=True), (dxhat * xhat).mean(axis=-1, keepdims=True)
        if self.is_a(f"{dx_name}: no mean"):
            mean = 0
        elif self.is_a(f"{dx_name}: no variance"):
            along = 0
        elif self.is_a(f"{dx_name}: neither"):
            mean = along = 0
        elif self.is_a(f"{dx_name}: mean twice"):
            mean = 2 * mean
        elif self.is_a(f"{dx_name}: sums for means"):
            mean, along = mean * self.dtype(xhat.shape[-1]), along
        return self.keep(dx_name, rstd * (dxhat - mean - xhat * along))

    def attend_forward(self, q, k, v, mask):
        """Of (b, h, n, d)."""
        scale = self.dtype(q.shape[-1] ** -0.5)
        scaled = q @ k.swapaxes(-1, -2) * scale
        probs = softmax(scaled if mask is None else np.where(mask, scaled, self.dtype(-np.inf)))
        return probs @ v, (q, k, v, scaled, probs, mask, scale)

    def attend_backward(self, cache, dctx):
        q, k, v, scaled, probs, mask, scale = cache
        if self.is_a("dv|dscores: no mask"):  # the weights computed anew
            probs = softmax(scaled)
        dv = (probs if self.is_a("dv: no transpose") else probs.swapaxes(-1, -2)) @ dctx
        self.keep("dv", dv)
        dprobs = self.keep("dprobs", dctx @ v.swapaxes(-1, -2))
        inner = (dprobs * probs).sum(axis=-1, keepdims=True)
        if self.is_a("dscores: diagonal"):
            dscores = probs * (1 - probs) * dprobs
        elif self.is_a("dscores: no sum"):
            dscores = probs * dprobs
        elif self.is_a("dscores: sum over queries"):
            dscores = probs * (dprobs - (dprobs * probs).sum(axis=-2, keepdims=True))
        else:
            dscores = probs * (dprobs - inner)
        self.keep("dscores", dscores)
        once, both = scale, self.is_a("dq|dk: no scale", "dq: no scale alone")
        dq = self.keep("dq", dscores @ k * (1 if both else once * once if self.is_a("dq: scale twice") else once))
        turned = dscores if self.is_a("dk: no transpose") else dscores.swapaxes(-1, -2)
        dk = self.keep("dk", turned @ q * (1 if self.is_a("dq|dk: no scale", "dk: no scale") else once))
        return dq, dk, dv


def heads_apart(x, heads):
    b, n, d = x.shape
    return x.reshape(b, n, heads, d // heads).transpose(0, 2, 1, 3)


def side_by_side(x):
    b, h, n, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, n, h * d)


class Attention(Program):
    """Several heads, each with keys and values of its own."""

    module, heads, causal = "multi-head-attention", 2, False
    final = ("dWo", "dbo", "dWq", "dbq", "dWk", "dbk", "dWv", "dbv", "dx")

    def drawn(self):
        d = 8
        self.flags = ("--heads", str(self.heads), *(("--mask", "causal") if self.causal else ()))
        weights = {"in_proj_weight": self.draw(3 * d, d), "in_proj_bias": self.draw(3 * d)}
        return {"x": self.draw(3, 5, d)}, weights | {"out_proj.weight": self.draw(d, d), "out_proj.bias": self.draw(d)}

    def draw_seed(self):
        return self.draw(*self.inputs["x"].shape)

    def forward(self, a):
        n = a["x"].shape[1]
        self.w = dict(zip("qkv", np.split(a["in_proj_weight"], 3)))
        self.b = dict(zip("qkv", np.split(a["in_proj_bias"], 3)))
        split = {role: heads_apart(a["x"] @ self.w[role].T + self.b[role], self.heads) for role in "qkv"}
        mask = np.tril(np.ones((n, n), bool)) if self.causal else None
        context, self.cache = self.attend_forward(*split.values(), mask)
        self.merged = side_by_side(context)
        return self.merged @ a["out_proj.weight"].T + a["out_proj.bias"]

    def backward(self, a, dout):
        self.keep("dout", dout)
        dmerged = self.linear_backward(self.merged, a["out_proj.weight"], dout, ("dmerged", "dWo", "dbo"))
        parts = self.attend_backward(self.cache, heads_apart(dmerged, self.heads))
        dx = 0
        for role, part in zip("qkv", parts):
            part = side_by_side(part)
            one = rows(part) @ self.w[role]
            self.keep(f"db{role}", rows(part).mean(axis=0) if self.is_a(f"db{role}: mean") else rows(part).sum(axis=0))
            dw = rows(part).T @ rows(a["x"])
            self.keep(f"dW{role}", dw.T if self.is_a(f"dW{role}: transposed") else dw)
            dx = one if self.is_a("dx: overwritten") else dx + one
        self.keep("dx", dx.reshape(a["x"].shape))


class SharedHeads(Program):
    """Four query heads, two heads of keys and values."""

    module, flags = "multi-head-attention", ("--heads", "4", "--mask", "causal")
    final = ("dWo", "dWq", "dWk", "dWv", "dx")

    def drawn(self):
        weights = {"q_proj.weight": self.draw(8, 8), "k_proj.weight": self.draw(4, 8), "v_proj.weight": self.draw(4, 8)}
        return {"x": self.draw(2, 5, 8)}, weights | {"o_proj.weight": self.draw(8, 8)}

    def draw_seed(self):
        return self.draw(2, 5, 8)

    def forward(self, a):
        q, k, v = (heads_apart(a["x"] @ a[f"{role}_proj.weight"].T, heads) for role, heads in zip("qkv", (4, 2, 2)))
        mask = np.tril(np.ones((5, 5), bool))
        context, self.cache = self.attend_forward(q, k.repeat(2, axis=1), v.repeat(2, axis=1), mask)
        self.merged = side_by_side(context)
        return self.merged @ a["o_proj.weight"].T

    def gathered(self, name, x):
        """The heads of each group added up."""
        b, h, n, d = x.shape
        groups = x.reshape(b, h // 2, 2, n, d)
        if self.is_a(f"{name}: one head"):
            return self.keep(name, groups[:, :, 1])
        return self.keep(name, groups.mean(axis=2) if self.is_a(f"{name}: mean") else groups.sum(axis=2))

    def backward(self, a, dout):
        self.keep("dout", dout)
        dmerged = self.linear_backward(self.merged, a["o_proj.weight"], dout, ("dmerged", "dWo", None))
        dq, dk, dv = self.attend_backward(self.cache, heads_apart(dmerged, 4))
        dk, dv = self.gathered("dk_group", dk), self.gathered("dv_group", dv)
        dx = 0
        for role, part in zip("qkv", (dq, dk, dv)):
            part = rows(side_by_side(part))
            self.keep(f"dW{role}", part.T @ rows(a["x"]))
            dx = dx + part @ a[f"{role}_proj.weight"]
        self.keep("dx", dx.reshape(a["x"].shape))


class LayerNorm(Program):
    module, final = "layer-norm", ("dgamma", "dbeta", "dx")

    def drawn(self):
        return {"x": self.draw(2, 4, 6)}, {"weight": self.draw(6), "bias": self.draw(6)}

    def draw_seed(self):
        return self.draw(2, 4, 6)

    def forward(self, a):
        output, self.cache = self.norm_forward(a["x"], a["weight"], a["bias"])
        return output

    def backward(self, a, dout):
        self.keep("dout", dout)
        self.norm_backward(self.cache, a["weight"], dout, ("dgamma", "dbeta", "dxhat", "dx"))


class CrossEntropy(Program):
    """Softmax, and the mean of -log p over the tokens that are no padding. The loss is the program's own, with its gradient."""

    module, final, targets, padding = "softmax", ("dlogits",), (2, 0, 5, 3, 1, 1), (4, 5)

    def drawn(self):
        return {"scores": self.draw(6, 7)}, {}

    def counted(self):
        return np.array([float(i not in self.padding) for i in range(len(self.targets))])

    def draw_seed(self):
        """Of the right loss."""
        probs, counted = softmax(self.inputs["scores"]), self.counted()
        seed = np.zeros_like(probs)
        places = np.arange(len(self.targets)), np.array(self.targets)
        seed[places] = -counted / probs[places] / counted.sum()
        return seed

    def forward(self, a):
        self.probs = softmax(a["scores"])
        return self.probs

    def backward(self, a, _):
        n, counted = len(self.targets), self.counted()
        if self.is_a("dprobs: padding", "dprobs: padding in the mean"):
            counted = np.ones(n)
        count = {"dprobs: sum": 1, "dprobs: padding": self.counted().sum()}.get(self.mistake, counted.sum())
        places = np.arange(n), np.array(self.targets)
        dprobs = np.zeros_like(self.probs)
        dprobs[places] = -counted.astype(self.dtype) / self.probs[places] / self.dtype(count)
        self.keep("dprobs", dprobs)
        inner = (dprobs * self.probs).sum(axis=-1, keepdims=True)
        if self.is_a("dlogits: diagonal"):
            return self.keep("dlogits", dprobs * self.probs * (1 - self.probs))
        return self.keep("dlogits", self.probs * (dprobs - (0 if self.is_a("dlogits: no sum") else inner)))


class Gru(Program):
    """PyTorch's GRU over a batch of sequences."""

    module, hidden = "gru", 4
    final = ("dWih", "dWhh", "dbih", "dbhh", "dx")

    def drawn(self):
        h = self.hidden
        weights = {"weight_ih_l0": self.draw(3 * h, 3), "weight_hh_l0": self.draw(3 * h, h)}
        return {"x": self.draw(2, 4, 3)}, weights | {"bias_ih_l0": self.draw(3 * h), "bias_hh_l0": self.draw(3 * h)}

    def draw_seed(self):
        return self.draw(2, 4, self.hidden)

    def forward(self, a):
        sigmoid = lambda x: 1 / (1 + np.exp(-x))
        x, h, self.cache, outputs = a["x"], np.zeros((2, self.hidden), self.dtype), [], []
        for t in range(x.shape[1]):
            given = np.split(x[:, t] @ a["weight_ih_l0"].T + a["bias_ih_l0"], 3, axis=-1)
            recurrent = np.split(h @ a["weight_hh_l0"].T + a["bias_hh_l0"], 3, axis=-1)
            r, z = sigmoid(given[0] + recurrent[0]), sigmoid(given[1] + recurrent[1])
            n = np.tanh(given[2] + r * recurrent[2])
            self.cache.append((x[:, t], h, r, z, n, recurrent[2]))
            h = (1 - z) * n + z * h
            outputs.append(h)
        return np.stack(outputs, axis=1)

    def backward(self, a, dout):
        self.keep("dout", dout)
        total = {name: np.zeros_like(a[full]) for name, full in zip(self.final, self.weights)}
        dx, dh = np.zeros_like(a["x"]), 0
        for t in reversed(range(len(self.cache))):
            x, h, r, z, n, recurrent = self.cache[t]
            dh = self.keep(f"dh.{t}", dout[:, t] + dh)
            dn = self.keep(f"dn.{t}", dh * (z if self.is_a("dn: other gate") else 1 - z))
            dz = self.keep(f"dz.{t}", dh * (n - h if self.is_a("dz: sign") else h - n))
            slope = {"dr: no tanh": 1, "dr: tanh of the output": 1 - np.tanh(n) ** 2}.get(self.mistake, 1 - n**2)
            dr = self.keep(f"dr.{t}", dn * slope * recurrent)
            gates = (dr * r * (1 - r), dz * z * (1 - z), dn * slope)
            given = self.keep(f"dgi.{t}", np.concatenate(gates, axis=-1))
            inner = gates[2] if self.is_a("dgh: no reset") else gates[2] * r
            recurred = self.keep(f"dgh.{t}", np.concatenate((*gates[:2], inner), axis=-1))
            parts = {"dWih": given.T @ x, "dWhh": recurred.T @ h, "dbih": given.sum(axis=0), "dbhh": recurred.sum(axis=0)}
            for name, part in parts.items():
                total[name] = part if self.is_a(f"{name}: overwritten") else total[name] + part
            dx[:, t] = given @ a["weight_ih_l0"]
            through = recurred @ a["weight_hh_l0"]
            dh = through if self.is_a("dh: no carry") else dh * z if self.is_a("dh: no recurrence") else dh * z + through
        for name, array in total.items():
            self.keep(name, array)
        self.keep("dx", dx)


class Embedding(Program):
    module, final = "embedding", ("dtable",)

    def drawn(self):
        return {"ids": np.array([[1, 2, 1, 4, 1], [2, 2, 0, 6, 1]])}, {"weight": self.draw(7, 4)}

    def draw_seed(self):
        return self.draw(2, 5, 4)

    def forward(self, a):
        return a["weight"][a["ids"]]

    def backward(self, a, dout):
        self.keep("dout", dout)
        dtable = np.zeros_like(a["weight"])
        if self.is_a("dtable: overwritten"):
            dtable[a["ids"]] += dout  # NumPy adds to each row once
        else:
            np.add.at(dtable, a["ids"], dout)
        self.keep("dtable", dtable)


class EncoderLayer(Program):
    """Post-norm: two residuals, two norms, ReLU."""

    module, flags, heads = "encoder-layer", ("--heads", "2", "--mask", "causal"), 2
    final = ("dgamma2", "dbeta2", "dW2", "db2", "dW1", "db1", "dgamma1", "dbeta1", "dWo", "dbo", "dWqkv", "dbqkv", "dx")

    def drawn(self):
        d, d_ff = 8, 12
        shapes = {"self_attn.in_proj_weight": (3 * d, d), "self_attn.in_proj_bias": (3 * d,)}
        shapes |= {"self_attn.out_proj.weight": (d, d), "self_attn.out_proj.bias": (d,), "linear1.weight": (d_ff, d)}
        shapes |= {"linear1.bias": (d_ff,), "linear2.weight": (d, d_ff), "linear2.bias": (d,)}
        shapes |= {f"norm{i}.{part}": (d,) for i in (1, 2) for part in ("weight", "bias")}
        return {"x": self.draw(3, 5, d)}, {name: self.draw(*shape) for name, shape in shapes.items()}

    def draw_seed(self):
        return self.draw(3, 5, 8)

    def forward(self, a):
        x, n = a["x"], a["x"].shape[1]
        packed = x @ a["self_attn.in_proj_weight"].T + a["self_attn.in_proj_bias"]
        split = [heads_apart(part, self.heads) for part in np.split(packed, 3, axis=-1)]
        context, self.attended = self.attend_forward(*split, np.tril(np.ones((n, n), bool)))
        self.merged = side_by_side(context)
        output = self.merged @ a["self_attn.out_proj.weight"].T + a["self_attn.out_proj.bias"]
        self.between, self.norm1 = self.norm_forward(x + output, a["norm1.weight"], a["norm1.bias"])
        self.hidden = self.between @ a["linear1.weight"].T + a["linear1.bias"]
        fed = np.maximum(self.hidden, 0) @ a["linear2.weight"].T + a["linear2.bias"]
        output, self.norm2 = self.norm_forward(self.between + fed, a["norm2.weight"], a["norm2.bias"])
        return output

    def backward(self, a, dout):
        self.keep("dout", dout)
        dres2 = self.norm_backward(self.norm2, a["norm2.weight"], dout, ("dgamma2", "dbeta2", "dxhat2", "dres2"))
        dact = self.linear_backward(np.maximum(self.hidden, 0), a["linear2.weight"], dres2, ("dact", "dW2", "db2"))
        slope = np.ones_like(dact) if self.is_a("dhidden: no ReLU") else self.hidden > 0
        dhidden = self.keep("dhidden", slope.astype(self.dtype) * (1 if self.is_a("dhidden: slope alone") else dact))
        dff = self.linear_backward(self.between, a["linear1.weight"], dhidden, ("dff", "dW1", "db1"))
        dbetween = self.keep("dbetween", dff if self.is_a("dbetween: overwritten") else dres2 + dff)
        dres1 = self.norm_backward(self.norm1, a["norm1.weight"], dbetween, ("dgamma1", "dbeta1", "dxhat1", "dres1"))
        dmerged = self.linear_backward(self.merged, a["self_attn.out_proj.weight"], dres1, ("dmerged", "dWo", "dbo"))
        parts = self.attend_backward(self.attended, heads_apart(dmerged, self.heads))
        dqkv = self.keep("dqkv", np.concatenate([side_by_side(part) for part in parts], axis=-1))
        self.keep("dWqkv", rows(dqkv).T @ rows(a["x"]))
        self.keep("dbqkv", rows(dqkv).sum(axis=0))
        dattn = dqkv @ a["self_attn.in_proj_weight"]
        self.keep("dx", dattn if self.is_a("dx: overwritten") else dres1 + dattn)


# What each program can do wrong: the variable that is wrong first, by the words before the colon, and the mistake's name.
OF_ATTENTION = {
    "dscores: diagonal": "grad_softmax_diagonal", "dscores: no sum": "grad_softmax_diagonal",
    "dscores: sum over queries": "grad_softmax_diagonal", "dq|dk: no scale": "grad_scale", "dq: no scale alone": "grad_scale",
    "dk: no scale": "grad_scale", "dq: scale twice": "grad_scale", "dv: no transpose": "grad_transpose_missing",
    "dk: no transpose": "grad_transpose_missing", "dx: overwritten": "grad_overwritten",
}  # fmt: skip
OF_MAPS = {
    "dmerged: no transpose": "grad_transpose_missing", "dbo: not summed": "grad_not_summed",
    "dbo: one sequence": "grad_not_summed", "dbo: mean": "grad_not_summed",
    "dWo: transposed": "grad_weight_transposed", "dWk: transposed": "grad_weight_transposed",
}  # fmt: skip
OF_NORM = {
    "dbeta: not summed": "grad_not_summed", "dxhat: no gain": "grad_norm_gain", "dx: no mean": "grad_norm_terms",
    "dx: no variance": "grad_norm_terms", "dx: neither": "grad_norm_terms", "dx: mean twice": "grad_norm_terms",
    "dx: sums for means": "grad_norm_terms",
}  # fmt: skip
PROGRAMS = [
    ("attention", Attention, {}, OF_ATTENTION | OF_MAPS | {"dbq: mean": "grad_not_summed"}),
    ("causal attention", Attention, {"causal": True}, OF_ATTENTION | {"dv|dscores: no mask": "grad_mask"}),
    ("shared heads", SharedHeads, {}, {
        "dk_group: one head": "grad_shared_heads", "dv_group: one head": "grad_shared_heads",
        "dk_group: mean": "grad_shared_heads", "dq|dk: no scale": "grad_scale", "dscores: diagonal": "grad_softmax_diagonal",
    }),
    ("layer norm", LayerNorm, {}, OF_NORM),
    ("cross-entropy", CrossEntropy, {}, {
        "dprobs: sum": "grad_loss_scale", "dprobs: padding": "grad_loss_padding",
        "dprobs: padding in the mean": "grad_loss_padding", "dlogits: diagonal": "grad_softmax_diagonal",
        "dlogits: no sum": "grad_softmax_diagonal",
    }),
    ("GRU", Gru, {}, {
        "dn: other gate": "grad_gate", "dz: sign": "grad_gate", "dr: no tanh": "grad_activation",
        "dr: tanh of the output": "grad_activation", "dgh: no reset": "grad_gate", "dWhh: overwritten": "grad_overwritten",
        "dbih: overwritten": "grad_overwritten", "dh: no carry": "grad_overwritten", "dh: no recurrence": "grad_overwritten",
    }),
    ("embedding", Embedding, {}, {"dtable: overwritten": "grad_embedding_repeated"}),
    ("encoder layer", EncoderLayer, {}, {
        "dhidden: no ReLU": "grad_activation", "dhidden: slope alone": "grad_activation",
        "dbetween: overwritten": "grad_overwritten", "dx: overwritten": "grad_overwritten", "dres2: no mean": "grad_norm_terms",
        "dres1: neither": "grad_norm_terms", "dxhat1: no gain": "grad_norm_gain", "dbo: mean": "grad_not_summed",
        "db1: one sequence": "grad_not_summed", "dscores: diagonal": "grad_softmax_diagonal", "dq|dk: no scale": "grad_scale",
        "dk: no scale": "grad_scale", "dv|dscores: no mask": "grad_mask",
    }),
]  # fmt: skip
