"""The .npz file that is written."""

import collections
import contextlib
import fnmatch
import os
import re
import tempfile
import threading
import weakref
import zipfile

import numpy as np

from .kept import len, to_json
from .tensors import LeftOut, MEGABYTE, kind_of, storable

LARGEST = 64 * MEGABYTE  # of one array
MOST = 1024 * MEGABYTE  # of all arrays together
MOST_ARRAYS = 50_000
FORMAT = "attn record 1"

class Names:
    """Numbers what has one name: att, att#2, att#3; and in a loop x.0, x.1, or x#2.0, x#2.1 where x has been before."""

    def __init__(self):
        self.counts = {}
        self.sites = {}
        self.taken = set()

    def again(self, name):
        count = self.counts[name] = self.counts.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def numbered(self, name, loop_site=None):
        """loop_site: where it is, if that is in a loop."""
        if loop_site is None:
            return self.again(name)
        first, runs = self.sites.get((name, loop_site)) or (self.again(name), 0)
        self.sites[name, loop_site] = first, runs + 1
        return f"{first}.{runs}"

    def unique(self, name):
        plain = re.sub(r"#\d+$", "", name)
        while name in self.taken:
            name = self.again(plain)
        self.taken.add(name)
        return name


class New:
    """A file that is written beside its place, without a name where the system can do that, and put there when it is complete."""

    def __init__(self, path):
        self.path = os.path.abspath(path)  # the program can go to another folder
        folder, name = os.path.split(self.path)
        self.prefix = os.path.join(folder, "." + name + ".")
        self.name = None
        try:
            handle = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
        except (AttributeError, OSError):  # another system, or a file system that can't; or no folder, which the next line says
            handle, self.name = tempfile.mkstemp(prefix=os.path.basename(self.prefix), suffix=".tmp", dir=folder)
        self.out = os.fdopen(handle, "w+b", buffering=0)  # a process that is forked has nothing left to write

    def put_in_place(self):
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(self.out.fileno(), 0o666 & ~mask)
        if self.name is None:
            name = f"{self.prefix}{os.getpid()}.tmp"
            handle = self.out.fileno()
            os.link(f"/proc/self/fd/{handle}", name, src_dir_fd=handle, follow_symlinks=True)  # with src_dir_fd it follows
            self.name = name
        self.out.close()
        os.replace(self.name, self.path)
        self.name = None

    def drop(self):
        """Leaves nothing behind."""
        with contextlib.suppress(OSError):
            self.out.close()
        if self.name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self.name)


class File:
    """The .npz file."""

    def __init__(self, path, largest, most, only):
        self.path, self.largest, self.most, self.only = path, largest, most, only
        self.trouble = None  # why it can't be written
        self.arrays, self.repeats, self.left_out = [], [], []
        self.names = Names()
        self.stored = {}  # by id of a tensor: a weak reference, its state, its name
        self.sources = {}  # by id of a tensor: a weak reference, the names of arrays that say what it is
        self.calls = []
        self.bytes = 0
        self.lock = threading.RLock()
        self.new = New(path)
        self.zip = zipfile.ZipFile(self.new.out, "w", zipfile.ZIP_STORED, allowZip64=True)

    def wants(self, name, variable):
        return not self.only or any(fnmatch.fnmatchcase(name, pattern) or variable == pattern for pattern in self.only)

    def name_of(self, tensor, state):
        """The name under which the same tensor was stored, where it has not changed since."""
        reference, then, name = self.stored.get(id(tensor), (None, None, None))
        return name if reference is not None and reference() is tensor and then == state else None

    def own_name(self, plain, known):
        """The array with this name, or this name and a number, that is the same as one with another name."""
        return next((entry["name"] for entry in reversed(self.arrays) if entry.get("same_as") == known
                     and re.sub(r"#\d+$", "", entry["name"]) == plain), None)

    def note_given(self, leaves):
        """Tensors in a list or dict that a function got, such as all weights: they are not stored for being there."""
        for tensor, state in leaves.values():
            if self.name_of(tensor, state) is None:
                self.remember(tensor, state, "")

    def list_again(self, name, known, origin):
        """Notes that a tensor that is stored has another name, too."""
        if known not in ("", name) and self.wants(name, origin["variable"]):
            self.repeats.append({"name": name, "same_as": known, **origin})

    def add(self, name, tensor, state, origin, reads):
        """Stores a tensor, or notes why not. reads: the arrays that it was computed from."""
        with self.lock:
            if self.zip is None:
                return
            name = self.names.unique(name)
            origin = {**origin, "reads": list(reads)}
            is_stored = self.wants(name, origin["variable"]) and self.store(name, tensor, state, origin)
            keep(self.sources, tensor, [name] if is_stored else origin["reads"])

    def sources_of(self, tensor):
        """The recorded array that a tensor is; where it is not recorded, those that it was computed from; None where it is
        not known."""
        reference, names = self.sources.get(id(tensor), (None, None))
        return names if reference is not None and reference() is tensor else None

    def store(self, name, tensor, state, origin):
        """@return whether it is stored"""
        try:
            array, dtype = self.checked(tensor)
            try:
                self.write(name, array)
            except OSError as error:  # a full disk, for example, which is not kept full
                self.give_up(error)
                return False
        except LeftOut as reason:
            self.leave_out(name, origin, str(reason))
        except Exception as error:  # the program that is recorded goes on
            self.leave_out(name, origin, f"cannot be read: {type(error).__name__}: {error}".splitlines()[0])
        else:
            entry = {"name": name, **origin, "shape": list(array.shape), "dtype": dtype}
            known = self.name_of(tensor, state)
            self.arrays.append({**entry, "reads": [known], "same_as": known} if known else entry)
            if not known:
                self.remember(tensor, state, name)
            return True
        return False

    def checked(self, tensor):
        array, dtype = kind_of(tensor).numbers(tensor)
        array = storable(array)
        if array.nbytes > self.largest:
            raise LeftOut(f"larger than {in_megabytes(self.largest)} (--largest)")
        if self.bytes + array.nbytes > self.most:
            raise LeftOut(f"with it the file would be larger than {in_megabytes(self.most)} (--most)")
        if len(self.arrays) >= MOST_ARRAYS:
            raise LeftOut(f"there are {MOST_ARRAYS} arrays already")
        return array, dtype

    def write(self, name, array):
        """All of it or nothing, also where Ctrl-C comes in between."""
        member, begin = zipfile.ZipInfo(name + ".npy"), self.zip.start_dir
        try:
            with self.zip.open(member, "w", force_zip64=array.nbytes >= 1 << 30) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
        except BaseException:
            self.zip.filelist[:] = [kept for kept in self.zip.filelist if kept is not member]
            self.zip.NameToInfo.pop(member.filename, None)
            self.zip.start_dir = begin
            raise
        self.bytes += array.nbytes

    def remember(self, tensor, state, name):
        keep(self.stored, tensor, state, name)

    def leave_out(self, name, origin, reason):
        self.left_out.append({"name": name, **origin, "reason": reason})

    def call(self, running):
        """Lists where a function was called, once. @return its place in the list"""
        parent = running.parent
        self.calls.append({"file": parent.file, "line": parent.line, "function": parent.qualified(), **parent.called()})
        return len(self.calls) - 1

    def close(self, results=None, lost=()):
        """results: names of what was returned, None where nobody knows; lost: why something is missing"""
        listing = {"format": FORMAT, "arrays": self.arrays, "calls": self.calls, "same": self.repeats,
                   "left_out": self.left_out}
        if results is not None:
            listing["results"] = results
        if lost:
            listing["incomplete"] = "; ".join(lost)
        with self.lock:
            if self.zip is None:
                return
            try:
                self.zip.writestr(zipfile.ZipInfo("attn_record.json"), to_json(listing))
                self.zip.close()
                self.zip = None
                self.new.put_in_place()
            except Exception as error:  # the program that was recorded ends as it would
                self.give_up(error)

    def give_up(self, error):
        """Writes nothing any more. The file that was there stays."""
        self.trouble = f"{type(error).__name__}: {error}".splitlines()[0]
        self.forget()
        self.new.drop()

    def forget(self):
        """After a fork: the file is the parent's."""
        if self.zip is not None:
            self.zip.fp = self.zip = None

    def summary(self):
        """Lines for people: how much there is, and what there is not."""
        if self.trouble:
            yield f"{self.path}: cannot be written, and nothing is kept of it: {self.trouble}"
            return
        files = sorted({entry["file"] for entry in self.arrays})
        of = files[0] if len(files) == 1 else f"{len(files)} files"
        yield f"{self.path}: {len(self.arrays)} arrays of {of}, {self.bytes / MEGABYTE:.3f} MiB"
        reasons = collections.defaultdict(list)
        for entry in self.left_out:
            reasons[entry["reason"]].append(entry["name"])
        for reason, names in reasons.items():
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield f"{self.path}: left out {', '.join(names[:3])}{more}: {reason}"


def keep(known, tensor, *facts):
    try:
        known[id(tensor)] = weakref.ref(tensor), *facts
    except TypeError:
        pass


def in_megabytes(size):
    return f"{size / MEGABYTE:g} MiB"
