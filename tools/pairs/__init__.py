"""Which releases of the libraries cannot work together: ``schemas/pairs.json``, from the code of the releases."""
