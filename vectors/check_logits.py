"""python3 check_logits.py FOLDER LOGITS [--case NAME] [--type float32|float16|bfloat16]: are an engine's logits right, or whose are they?

FOLDER has cases.json. LOGITS is a .npy file, numbers of float32 alone (.bin, .raw), JSON or text: of the case's last token; of its `rows`; or of
all tokens. Exit code 0 where they are right, 1 where not, 2 where they can't be read. Needs Python alone.
"""
import json, math, pathlib, re, struct, sys  # noqa: E401

TYPES = ("float32", "float16", "bfloat16")

def numbers_of(path):
    data = path.read_bytes()
    if data[:6] == b"\x93NUMPY":
        begin = 10 if data[6] == 1 else 12
        end = begin + struct.unpack("<H" if data[6] == 1 else "<I", data[8:begin])[0]
        head = data[begin:end].decode("latin1")
        kind, order, shape = (re.search(pattern, head) for pattern in (r"'descr': *'<(f[248])'", r"'fortran_order': *(True|False)", r"'shape': *\(([\d, ]*)\)"))
        if not (kind and order and shape) or order[1] == "True":
            raise ValueError(f"expected real numbers, '<f2', '<f4' or '<f8', in C's order; it says {head.strip()[:80]}")
        size, count = int(kind[1][1]), math.prod(int(one) for one in shape[1].replace(",", " ").split())
        if len(data) - end != size * count:
            raise ValueError(f"it says {count} numbers of {size} bytes, and has {len(data) - end} bytes")
        return [one[0] for one in struct.iter_unpack("<" + {2: "e", 4: "f", 8: "d"}[size], data[end:])]
    if path.suffix in (".bin", ".raw", ".f32"):
        if len(data) % 4:
            raise ValueError(f"{len(data)} bytes are not whole numbers of float32")
        return [one[0] for one in struct.iter_unpack("<f", data)]
    text = data.decode()
    if path.suffix == ".json":
        found, flat = json.loads(text), []
        rest = [found["logits"] if isinstance(found, dict) else found]
        while rest:
            one = rest.pop()
            if isinstance(one, list):
                rest.extend(reversed(one))
            elif type(one) not in (int, float):
                raise ValueError(f"{str(one)[:20]!r} is no number")
            else:
                flat.append(float(one))
        return flat
    return [float(word) for word in re.split(r"[\s,;\[\]]+", text) if word]

def far(found, right):  # the root of the mean square, or a sixth of the largest difference
    off = [abs(a - b) for a, b in zip(found, right)]
    return max(math.sqrt(sum(x * x for x in off) / len(off)), max(off) / 6)

def mistakes_of(file, case):
    """Those of the case, and those of the same tokens at once where its last token is one of these: a layer that is wrong is so in every call."""
    once = file["cases"][0]
    return case["wrong"] + (once["wrong"] if case is not once and far(case["logits"][-1], once["logits"][-1]) <= file["tolerance"]["float32"] else [])

def judged(file, case, found, kind):
    """@return exit code, and what to say"""
    width, rows, right, tolerance = file["vocabulary"], case["rows"], case["logits"], file["tolerance"]
    total = sum(map(len, case["ids"]))
    if len(found) not in (width, len(rows) * width, total * width):
        raise ValueError(f"it has {len(found)} numbers; expected {width}, the last token's, {len(rows)} x {width}, those of rows {rows}, or {total} x {width}")
    found = [found[i:i + width] for i in range(0, len(found), width)]
    pairs = [(found[-1], right[-1])] if len(found) == 1 else list(zip(found, right)) if len(found) == len(rows) else [(found[row], one) for row, one in zip(rows, right)]
    broken = [i for i, x in enumerate(pairs[-1][0]) if not math.isfinite(x)]
    if broken or not all(math.isfinite(x) for one, _ in pairs for x in one):
        return 1, f"wrong: {len(broken)} of the last token's {width} logits are not finite"
    off = max(far(*pair) for pair in pairs)
    last, columns = pairs[-1][0], file["columns"]
    last, own = [last[i] for i in columns], far([last[i] for i in columns], [right[-1][i] for i in columns])
    wrong = mistakes_of(file, case)
    near = sorted((far(last, one["logits"]), i) for i, one in enumerate(wrong))
    size = max(1, max(map(abs, last)) / max(abs(x) for x in right[-1]))
    types = TYPES if kind is None else (kind,)
    if near and near[0][0] < own / 2 and (within := [one for one in types if near[0][0] <= tolerance[one] * size]):
        lines = []
        for distance, i in [one for one in near if one[0] <= 1.5 * near[0][0] + tolerance["float32"]][:3]:
            one = wrong[i]
            lines += [f"{'or ' if lines else 'looks like '}{' or '.join(one['names'])}: {file['mistakes'][one['names'][0]]['sentence']}", f"  {one['how']}"]
        return 1, "\n".join([f"wrong: {off:.3g} off, {near[0][0]:.2g} from a mistake in {within[0]}", *lines])
    for one in types:
        if off <= tolerance[one]:
            return 0, f"right: {off:.3g} off, {off / tolerance[one]:.2f} of what is allowed in {one}"
    return 1, f"wrong: {off:.3g} off, allowed is {tolerance[types[-1]]:.3g} in {types[-1]}; no mistake that is listed gives these numbers"

def main(words):
    flags = dict(zip(words[2::2], words[3::2]))
    kind, name = flags.pop("--type", None), flags.pop("--case", "once")
    if len(words) < 2 or len(words) % 2 or flags or kind not in (None, *TYPES):
        raise ValueError(__doc__)
    place = pathlib.Path(words[0], "cases.json")
    try:
        file = json.loads(place.read_text())
        cases = {one["id"]: one for one in file["cases"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{place}: {error.__class__.__name__}: {str(error)[:120]}") from None
    if name not in cases:
        raise ValueError(f"{place}: there is no case {name!r}; there are {', '.join(cases)}")
    try:
        found = numbers_of(pathlib.Path(words[1]))
        code, text = judged(file, cases[name], found, kind)
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError, struct.error) as error:
        raise ValueError(f"{words[1]}: {error.__class__.__name__ + ': ' if not isinstance(error, (ValueError, OSError)) else ''}{error}") from None
    print(text)
    return code

if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as error:
        print(f"check_logits: {error}", file=sys.stderr)
        sys.exit(2)
