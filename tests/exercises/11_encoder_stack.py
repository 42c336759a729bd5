"""Exercise 11, done: count the parameters of an encoder."""


def my_parameter_count(layers, d_model, d_ff):
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    norms = 2 * 2 * d_model
    return layers * (attention + feed_forward + norms)
