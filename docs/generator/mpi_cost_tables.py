"""The numbers and tables of docs/mpi_cost.md: {{cost PATH}} and {{cost_table NAME}}."""

import statistics

from . import mpi_cost as model
from .errors import PageError
from .tables import rows_of

TITLES = {"ring": "ring", "ulysses": "Ulysses", "tensor_parallel": "tensor parallel", "all_reduce": "all-reduce", "all_to_all": "all-to-all"}
RANKS = (1, 8, 32, 128, 1024)
TOKENS = (8_192, 131_072, 1_000_000, 10_000_000)


def amount(value, unit):
    """Three digits with a prefix: 1.23 ms, 45.6 GB."""
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")):
        if abs(value) >= size * 0.9995:
            number = value / size
            return f"{number:.0f} {prefix}{unit}" if number >= 99.95 else f"{number:.3g} {prefix}{unit}"
    return f"0 {unit}"


def duration(seconds):
    """The same of seconds, but hours and days for long ones."""
    if seconds < 999.5:
        return amount(seconds, "s")
    hours = seconds / 3600
    return f"{hours:.3g} hours" if hours < 48 else f"{hours / 24:.3g} days"


def counted(number):
    return f"{number:,.0f}"


# -------------------------------------------------------------------------------------------------------- numbers in prose


def numbers(measured):
    """What {{cost PATH}} can name."""
    here, there = measured.machine, model.PUBLISHED
    return {
        "cores": measured.cores,
        "hide": {
            "here": model.tokens_that_hide(here, here.near),
            "near": model.tokens_that_hide(there, there.near),
            "far": model.tokens_that_hide(there, there.far),
        },
        "check": {f"ranks_{ranks}": spread(measured, ranks) for ranks in (1, 2, 4)},
        "alone": max(row["seconds"] / found for row, _, found in measured.runs() if row["ranks"] == 1),
        "large": {
            "weights": model.LARGE.weights * model.LARGE.layers,
            "gigabytes": model.LARGE.weights * model.LARGE.layers * there.number / 1e9,
            "capacity": there.capacity / 1e9,
            **model.LARGE.__dict__,
        },
        "small": measured.layer.__dict__ | {"d": measured.layer.d_model // measured.layer.heads},
        "parts": {what: measured.of(what)[0]["size"] for what in ("product", "attention")} | {"copied": measured.of("copy")[0]["size"] / 2**20},
        "longest": {
            key: {f"ranks_{ranks}": model.longest(model.WAYS[name], model.LARGE, there, ranks) for ranks in RANKS}
            for key, name in (("ring", "ring"), ("ulysses", "Ulysses"), ("tensor_parallel", "tensor parallel"))
        },
    }


def spread(measured, ranks):
    """Measured over predicted time, of the runs with so many ranks: by way, and of all."""
    ratios = {}
    for row, predicted, found in measured.runs():
        if row["ranks"] == ranks:
            ratios.setdefault(row["what"], []).append(found / predicted)
    every = [ratio for of_way in ratios.values() for ratio in of_way]
    return {
        "least": min(every), "median": statistics.median(every), "most": max(every),
        **{way: statistics.median(of_way) for way, of_way in ratios.items()},
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------------------ tables


def about(measured):
    machine, versions = measured.about["machine"], measured.about["versions"]
    low, high = machine["load"]
    return rows_of(("", ""), [
        ("date", measured.about["date"]),
        ("processor", f"{machine['processor']}, {machine['cores']} cores"),
        ("load of the machine meanwhile", f"{low:.1f} to {high:.1f}"),
        ("each time is", f"the least of {measured.about['rounds']} rounds of 3 to 300 runs"),
        ("attn", f"{versions['attn']}, {versions['commit']}"),
        *((name, versions[name]) for name in ("compiler", "mpi", "blas", "system")),
    ], "cost")  # fmt: skip


def constants(measured):
    here, there = measured.machine, model.PUBLISHED
    per_second = "/s"

    def links(machine, write):
        return write(machine.near) if machine.near == machine.far else f"{write(machine.near)}; {write(machine.far)}"

    rows = [
        ("s", "bytes per number", here.number, there.number),
        ("F", "multiply-adds of a product", *(amount(m.products, per_second) for m in (here, there))),
        ("A", "multiply-adds of attention", *(amount(m.attention, per_second) for m in (here, there))),
        ("M", "bytes read or written", *(amount(m.memory, "B/s") for m in (here, there))),
        ("α", "latency of a message", *(links(m, lambda link: amount(link.latency, "s")) for m in (here, there))),
        ("β", "bytes sent", *(links(m, lambda link: amount(link.bandwidth, "B/s")) for m in (here, there))),
        ("", "memory of a rank", "", amount(there.capacity, "B")),
    ]
    return rows_of(("", "of one rank", "measured here", "published"), rows, "cost")


def sources(_measured):
    """Where the published constants come from, as they are printed there: a multiply-add is two operations."""
    there = model.PUBLISHED

    def tera(rate):
        return f"{2 * rate / 1e12:.0f} · 10¹² operations per second"

    return rows_of(("constant", "source"), [
        ("F", f"NVIDIA H100 SXM, data sheet: {tera(there.products)} in bfloat16 without sparsity (a multiply-add is two)"),
        ("M, memory", f"the same: {there.memory / 1e12:.3g} TB/s, {there.capacity / 1e9:.0f} GB"),
        ("A", f"Shah et al. 2024, FlashAttention-3, abstract: up to {tera(there.attention)}, forward, in float16"),
        (f"β, up to {there.node} ranks", f"the data sheet: NVLink, {2 * there.near.bandwidth / 1e9:.0f} GB/s in both directions together"),
        ("β, more ranks", f"DGX H100, user guide: for each GPU a ConnectX-7 adapter of {8 * there.far.bandwidth / 1e9:.0f} Gb/s"),
        ("α", f"NVIDIA NCCL, src/graph/tuning.cc, a step of a ring with the protocol Simple: {1e6 * there.near.latency:.3g} µs by NVLink, {1e6 * there.far.latency:.3g} µs by network"),
    ], "cost")  # fmt: skip


def compared(runs_of, size):
    return [
        (TITLES[row["what"]], row["ranks"], size(row["size"]), amount(predicted, "s"), amount(found, "s"), f"{found / predicted:.2f}", amount(row["seconds"], "s"))
        for row, predicted, found in runs_of
    ]  # fmt: skip


HEADER = ("", "ranks", "size", "predicted", "measured", "measured / predicted")


def runs(measured):
    order = list(TITLES)
    all_runs = sorted(measured.runs(), key=lambda run: (order.index(run[0]["what"]), run[0]["ranks"], run[0]["size"]))
    return rows_of((*HEADER, "elapsed"), compared(all_runs, lambda tokens: f"{counted(tokens)} tokens"), "cost")


def collectives(measured):
    return rows_of(HEADER, [row[:-1] for row in compared(measured.collectives(), lambda size: amount(size, "B"))], "cost")


def times_of(layer, machine):
    """Seconds of a layer; with several ranks the fastest ways that fit are bold, and what does not fit is said."""

    def cell(name, tokens, ranks):
        cost = model.WAYS[name](layer, tokens, ranks)
        if not model.fits(cost, machine):
            return "no memory"
        text = duration(model.seconds(cost, machine, ranks))
        is_fastest = ranks > 1 and name in model.fastest_ways(layer, machine, tokens, ranks)
        return f"<b>{text}</b>" if is_fastest else text

    rows = [
        (counted(tokens), name, *(cell(name, tokens, ranks) for ranks in RANKS))
        for tokens in TOKENS for name in model.WAYS
    ]  # fmt: skip
    return rows_of(("tokens", "way", *(f"{ranks} ranks" if ranks > 1 else "1 rank" for ranks in RANKS)), rows, "cost")


def published(_measured):
    return times_of(model.LARGE, model.PUBLISHED)


def here(measured):
    """The same layer on ranks that each have a core of this machine to themselves, and messages as fast as here."""
    return times_of(model.LARGE, alone(measured.machine))


def alone(machine):
    return model.replace(machine, cores=model.math.inf)


def memory(_measured):
    """The longest sequence that fits, by way and ranks."""
    rows = [
        (name, *(amount(model.longest(way, model.LARGE, model.PUBLISHED, ranks), "").strip() for ranks in RANKS))
        for name, way in model.WAYS.items()
    ]  # fmt: skip
    return rows_of(("way", *(f"{ranks} ranks" if ranks > 1 else "1 rank" for ranks in RANKS)), rows, "cost")


TABLES = {table.__name__: table for table in (about, constants, sources, runs, collectives, published, here, memory)}


def table(measured, name):
    if name not in TABLES:
        raise PageError(f"there is no table '{name}' of costs; there is {', '.join(TABLES)}")
    return TABLES[name](measured)
