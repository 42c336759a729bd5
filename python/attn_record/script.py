"""The command attn_record: a script is run as Python runs it, and recorded."""

import argparse
import contextlib
import os
import runpy
import signal
import sys
import types

from .kept import isinstance, open, print
from .file import LARGEST, MOST
from .recorder import Recorder
from .tensors import MEGABYTE


def arguments():
    parser = argparse.ArgumentParser(
        prog="attn_record", usage="python3 -m attn_record [options] FILE.npz -- SCRIPT.py [argument ...]",
        description="Records every tensor that your own code assigns to a variable, without editing the code.",
        formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG)
    parser.add_argument("file", metavar="FILE.npz", help="is written when the script ends, however it ends")
    parser.add_argument("--own", action="append", metavar="FOLDER", help="only code in this folder is yours (default: all "
                        "that is neither Python's nor an installed package); can be given again")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN",
                        help="record only these names or variables; * and ? stand for others; can be given again")
    parser.add_argument("--depth", type=int, metavar="N", help="follow calls N deep; 0 is the script itself")
    parser.add_argument("--largest", type=float, default=LARGEST / MEGABYTE, metavar="MIB",
                        help="leave out an array that is larger (default: %(default)g MiB)")
    parser.add_argument("--most", type=float, default=MOST / MEGABYTE, metavar="MIB",
                        help="leave out what would make the file larger (default: %(default)g MiB)")
    parser.add_argument("--reference", action="store_true", help="write the weights and the input of a PyTorch module, too, "
                        "and print the lines that compare: of the first module that attn run has")
    parser.add_argument("--module", metavar="NAME", help="the same for the module of this name: encoder.layers.0")
    parser.add_argument("script", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.script[:1] == ["--"]:
        del given.script[0]
    if not given.script:
        parser.error("which script? python3 -m attn_record FILE.npz -- SCRIPT.py")
    return given


EPILOG = """What is left out is said at the end.

A program takes about 1.5 to 2 times as long where its tensors are large, a quarter of a millisecond more per array where
they are small, and 2.5 microseconds more per line of your own code. docs/record.md has the rest.
"""


def run_script(script):
    """As Python runs it."""
    if script[0] == "-m":
        sys.argv = script[1:]
        runpy.run_module(script[1], run_name="__main__", alter_sys=True)
        return
    path = os.path.abspath(script[0])
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    sys.argv, sys.path[0] = script, os.path.dirname(path)
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = sys.modules["builtins"]
    if sys.version_info < (3, 14):  # where a module has it from the beginning
        module.__annotations__ = {}
    module.__cached__ = None
    exec(code, module.__dict__)


def main():
    given = arguments()
    if given.script[0] != "-m" and not os.path.isfile(given.script[0]):
        print(f"attn_record: {given.script[0]}: there is no such script", file=sys.stderr)
        sys.exit(2)
    try:
        recorder = Recorder(given.file, given.own, given.only, given.depth, given.largest * MEGABYTE,
                            given.most * MEGABYTE, given.module or given.reference)
    except (OSError, ValueError) as error:
        print(f"attn_record: {error}", file=sys.stderr)
        sys.exit(2)
    record_script(recorder, given.script)


def record_script(recorder, script):
    """Runs a script, recorded. It raises SystemExit where the script does, or where it fails, which is reported."""
    end_by_signals(recorder)
    ended = None
    recorder.start(None)
    try:
        run_script(script)
    except SystemExit as error:
        ended = error if error.code not in (None, 0) else None
        raise
    except BaseException as error:
        report_exception(error)
        ended = error
        sys.exit(1)
    finally:
        recorder.stop(ended and f"{type(ended).__name__}: {ended}".splitlines()[0])
        if isinstance(ended, KeyboardInterrupt):
            die_by(signal.SIGINT)


def end_by_signals(recorder):
    """A signal that ends the program ends the recording first, unless the program does something else at it."""
    process = os.getpid()

    def end(number, frame):
        if os.getpid() == process:  # not in a child
            recorder.stop(signal.Signals(number).name)
        die_by(number)

    for name in ("SIGTERM", "SIGHUP", "SIGXCPU"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def die_by(number):
    """As Python does at Ctrl-C: who waits for the program sees which signal ended it."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def report_exception(error):
    """As Python reports it, with the script's own part of the traceback."""
    frames = error.__traceback__
    of_python = (__file__, runpy.__file__, "<frozen runpy>")
    while frames is not None and frames.tb_frame.f_code.co_filename in of_python:
        frames = frames.tb_next
    error.__traceback__ = frames
    try:
        sys.excepthook(type(error), error, frames)
    except Exception:
        sys.__excepthook__(*sys.exc_info())

