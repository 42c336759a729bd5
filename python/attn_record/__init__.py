"""Records every tensor that your own code assigns to a variable, without editing the code.

    import attn_record
    with attn_record.to("mine.npz"):
        model(x)

    python3 -m attn_record mine.npz -- mine.py its arguments

mine.npz has one array for each, in order, and the member attn_record.json, which says for each the file, line, variable
and function that it comes from. `attn diff reference.npz mine.npz` then answers with these. docs/record.md has the rest.

Needs Python 3.9 and NumPy. Tensors of PyTorch, JAX and TensorFlow are recognised where the program imports these.

It is a package of its own, beside attn, so that a program whose own file is called attn.py can be recorded.
"""

from .asked import results_in
from .recorder import Recorder, to
from .references import Wanted
from .script import main, record_script

__all__ = ["Recorder", "Wanted", "main", "record_script", "results_in", "to"]
