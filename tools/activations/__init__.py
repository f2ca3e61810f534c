"""The program that writes ``schemas/activations.json``: what a training step holds beside the model states."""
