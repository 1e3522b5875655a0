"""Training: data, optimizers, the two stages, and measurements at their end."""
