"""What the libraries do with a config: the view that rules ask, features, constructors, preparation, memory."""
