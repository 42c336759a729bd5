"""The functions of vectors/kernels in PyTorch, as the papers write them, without tiles: gradients are autograd's."""

import math

import torch


def one(queries, keys, values, bias=None, sinks=None, positions=None, first=0, causal=None, left_window=None, softcap=None, scale=None):
    """(h, n, d), (g, m, d), (g, m, e): the output (h, n, e) and the log of the sum (h, n)."""
    times = queries.shape[0] // keys.shape[0]
    keys, values = keys.repeat_interleave(times, 0), values.repeat_interleave(times, 0)
    scores = queries @ keys.mT * (1 / math.sqrt(queries.shape[-1]) if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    place, key = torch.arange(queries.shape[1], device=queries.device)[:, None] + first, torch.arange(keys.shape[1], device=queries.device) if positions is None else positions
    can = (key >= 0) & (key <= place if causal else True) & (key >= place - left_window if left_window is not None else True)
    scores = scores.masked_fill(~can, -math.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks[:, None, None].expand(*scores.shape[:2], 1)], -1)
    log_sum = torch.logsumexp(scores, -1)
    weights = torch.softmax(scores.masked_fill(~torch.isfinite(log_sum)[..., None], 0), -1) * torch.isfinite(log_sum)[..., None]
    return weights[..., :keys.shape[1]] @ values, log_sum


def attention(layout, inputs, options):
    """The output and the log of the sum, in the layout."""
    beside = {name: inputs[name] for name in ("bias", "sinks") if name in inputs}
    if layout == "qkv":
        inputs = dict(zip(("queries", "keys", "values"), inputs["qkv"].unbind(2)))
    parts = []
    if layout == "rows":
        (a, b), (q, k, v) = ([inputs[f"cu_seqlens_{x}"].tolist() for x in ("queries", "keys")], [inputs[x].transpose(0, 1) for x in ("queries", "keys", "values")])
        for i in range(len(a) - 1):
            parts.append(one(q[:, a[i]:a[i + 1]], k[:, b[i]:b[i + 1]], v[:, b[i]:b[i + 1]], first=b[i + 1] - b[i] - a[i + 1] + a[i], **beside, **options))
        return torch.cat([part[0].transpose(0, 1) for part in parts]), torch.cat([part[1] for part in parts], -1)
    for i, q in enumerate(inputs["queries"]):
        positions = None
        if layout == "pages":
            m, table = int(inputs["lengths"][i]), inputs["block_table"][i]
            k, v = (inputs[name][table].flatten(0, 1)[:m] for name in ("key_pages", "value_pages"))
        elif layout == "ring":
            m, size, k, v = int(inputs["lengths"][i]), inputs["key_ring"].shape[2], inputs["key_ring"][i], inputs["value_ring"][i]
            positions = torch.full((size,), -1, device=q.device)
            for token in range(m):
                positions[token % size] = token
        else:
            k, v = inputs["keys"][i], inputs["values"][i]
        if layout in ("bnhd", "qkv", "pages"):
            q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
        m = k.shape[1] if layout in ("bhnd", "bnhd", "qkv") else m
        parts.append(one(q, k, v, positions=positions, first=m - q.shape[1], **beside, **options))
    output = torch.stack([part[0] for part in parts])
    return output.transpose(1, 2) if layout in ("bnhd", "qkv", "pages") else output, torch.stack([part[1] for part in parts])


def merged(first_output, first_log_sum, second_output, second_log_sum, base):
    log = math.log(2) if base == 2 else 1.0
    logs = torch.stack([first_log_sum, second_log_sum]) * log
    both, weights = torch.logsumexp(logs, 0), torch.softmax(logs, 0)[..., None]
    return {"output": weights[0] * first_output + weights[1] * second_output, "log_sum": both / log}


def results(function, parameters, inputs):
    """What a case has to give, by name: of inputs by their names."""
    if function == "merge_kernel":
        return merged(**inputs, **parameters)
    options = {name: value for name, value in parameters.items() if name != "layout"}
    if not function.endswith("_backward"):
        return dict(zip(("output", "log_sum"), attention(parameters["layout"], inputs, options)))
    inputs = {name: given.detach().requires_grad_(given.is_floating_point()) for name, given in inputs.items()}
    grad = inputs.pop("grad.output")
    leaves = {name: given for name, given in inputs.items() if given.requires_grad}
    attention(parameters["layout"], inputs, options)[0].backward(grad)
    return {f"grad.{name}": leaf.grad for name, leaf in leaves.items()}
