"""What the writer of a page can mend."""


class PageError(Exception):
    """A page asks for something that is not there, or says something that a run does not confirm."""


def read_text(path, source):
    """The text of a file that `source` makes."""
    if not path.is_file():
        raise PageError(f"there is no {path.name} in {path.parent}: {source} makes it")
    return path.read_text(encoding="utf-8")
