"""Functions of Python as they are now: the program that is recorded can put others in their place."""

import builtins
import json
import sys

len, isinstance, open, print = builtins.len, builtins.isinstance, builtins.open, builtins.print
to_json, settrace = json.dumps, sys.settrace
use_tool_id = sys.monitoring.use_tool_id if hasattr(sys, "monitoring") else None  # from Python 3.12 on
