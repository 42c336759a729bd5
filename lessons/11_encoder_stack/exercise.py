"""Exercise 11: count the parameters of an encoder.

Write the function below. Check with

    script/exercise 11 --python
"""


def my_parameter_count(layers, d_model, d_ff):
    """The number of learned numbers of an encoder.

    Each layer has four maps (d_model, d_model) of attention and two maps of the
    feed-forward network, (d_model, d_ff) and (d_ff, d_model), each map with a bias; and
    two norms, each with a gain and a bias of d_model numbers.
    """
    return 0  # To do. The number of heads is no parameter of this function: why not?
