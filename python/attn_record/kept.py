"""Functions of Python as they are now: the program that is recorded can put others in their place."""

import builtins
import json

len, isinstance, open, print, to_json = builtins.len, builtins.isinstance, builtins.open, builtins.print, json.dumps
