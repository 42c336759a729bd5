"""Copies the public headers for Doxygen: each folder a group, each comment in the form that Doxygen asks for."""

import re
import shutil

from .errors import PageError

ROOM = re.compile(r"^\| `(?P<folder>[\w/]+)/` \| (?P<title>[^|]+) \| (?P<brief>[^|]+) \|$", re.MULTILINE)


def rooms(root):
    """The table of rooms of CONTRIBUTING.md: {folder: (title, brief)}, from the ground up."""
    page = root / "CONTRIBUTING.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    return {row["folder"]: (row["title"], row["brief"]) for row in ROOM.finditer(text)}


def folder_of(header, folders):
    """The room of a header, given by its path from include/attn: "reference/layers" for reference/layers/recurrent/gru.hpp."""
    found = [folder for folder in folders if header.is_relative_to(folder)]
    return max(found, key=len) if found else header.parent.as_posix()


def header_groups(root):
    """(folder, group label, title, brief) for every folder of headers, in the order in which they build on each other."""
    include, known = root / "include" / "attn", rooms(root)
    headers = [path.relative_to(include) for path in include.rglob("*.hpp")]
    folders = {folder_of(header, known) for header in headers if header.parts[1:]}
    groups = []
    for folder in [*filter(folders.__contains__, known), *sorted(folders - set(known))]:
        name = folder.split("/")[-1]
        title, brief = known.get(folder, (name.replace("_", " ").capitalize(), f"Headers in attn/{folder}."))
        groups.append((folder, f"library_{name}", title, brief))
    return groups


def write_headers(groups, include, target):
    """Copies the headers, each namespace's contents put in the group of its folder, line for line."""
    shutil.rmtree(target, ignore_errors=True)
    labels = {folder: label for folder, label, _, _ in groups}
    for source in sorted((include / "attn").rglob("*.hpp")):
        relative = source.relative_to(include)
        label = labels.get(folder_of(source.relative_to(include / "attn"), labels), "")
        text = source.read_text(encoding="utf-8")
        opened = re.sub(r"^(namespace attn[\w:]* \{)$", rf"\1 /** @addtogroup {label} */ /** @{{ */", text, flags=re.MULTILINE)
        closed = re.sub(r"^(\} +// namespace attn[\w:]*)$", r"/** @} */ \1", opened, flags=re.MULTILINE)
        if opened.count("@addtogroup") != closed.count("/** @} */ }"):
            raise PageError(f"include/{relative}:1: 'namespace attn… {{' and '}} // namespace attn…' must pair up, each on a line of its own")
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        (target / relative).write_text(readable_comments(closed), encoding="utf-8")


STEP_TABLE = re.compile(r"^(?P<lead> *///\s+@param +\S+ +)\|[^\n]*\n *///\s+\|[-| :]+\|\n(?: *///\s+\|[^\n]*\n)+", re.MULTILINE)


def readable_comments(text):
    """Comments that read well in the header, in the form that Doxygen asks for; line for line."""

    def cells(line):
        return [cell.strip() for cell in line[line.index("|") :].strip().strip("|").split("|")]

    def step_table(match):
        lines = match[0].rstrip("\n").split("\n")
        heads = cells(lines[0])
        comment = lines[1][: lines[1].index("///") + 3] + " "
        rows = [match["lead"] + '<div class="scroll"><table class="markdownTable steps">']
        rows.append(f'{comment}<tr class="markdownTableHead">{"".join(f"<th>{head}</th>" for head in heads)}</tr>')
        for line in lines[2:]:
            written = []
            for head, cell in zip(heads, cells(line)):
                code = head in ("step", "shape", "formula") and cell and "`" not in cell
                written.append(f"<td>`{cell}`</td>" if code else f"<td>{cell or ('given' if head == 'formula' else '')}</td>")
            rows.append(f"{comment}<tr>{''.join(written)}</tr>")
        return "\n".join(rows) + "</table></div>\n"

    text = STEP_TABLE.sub(step_table, text)
    # A dot product written "w . x" is no end of a sentence.
    return re.sub(r"^ *///.*$", lambda line: line[0].replace(" . ", " · "), text, flags=re.MULTILINE)


def library_page(groups):
    parts = ["/** @namespace attn\n    @brief Attention and the Transformer, step by step. */"]
    parts += [f"/** @defgroup {label} {title}\n    @brief {brief} */" for _, label, title, brief in groups]
    return "\n".join(parts) + "\n"
