"""What a training step of a model type holds beside its states: the program that writes ``schemas/activations.json``."""
